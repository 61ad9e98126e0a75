//! Taking and freeing inode numbers.
//!
//! Finding a clear bit and setting it is one step under the group's inode lock: nobody can steal
//! the bit in between. Which group is tried first is decided without a lock (`alloc::InodePolicy`).
//!
//! A table block that was never written may hold anything. It is zeroed on the device before the
//! first inode of it is handed out; nothing on disk refers to it until the handle's transaction
//! commits, so the write needs no journal.

use super::Space;
use super::group::{Group, InodeState};
use crate::inode::Inode;
use crate::{Error, Fs, Result};
use uext4_alloc::{InodeKind, Parent};
use uext4_format::{Corrupt, FileType, GroupNr, InodeNr, Place, group_flag};
use uext4_journal::{Handle, Object};

impl Space {
    /// Takes an inode number near `parent` in the handle's transaction.
    pub(crate) fn alloc_inode(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        parent: &Inode,
        kind: FileType,
        name_hash: u32,
    ) -> Result<InodeNr> {
        let group = self
            .geometry()
            .split_inode(parent.nr())
            .map_or(GroupNr(0), |at| at.0);
        let top_level = || parent.nr() == InodeNr::ROOT || parent.is_top_dir();
        let spreads = kind == FileType::Directory && top_level();
        let top = spreads.then_some(name_hash);
        let from = Parent {
            group,
            last_group: parent.last_group(),
            top,
        };
        let free = || self.claims.available();
        for group in self
            .policy
            .candidates(from, inode_kind(kind), &*self.engine, &free)
        {
            if let Some(nr) = self.take_in_group(fs, handle, group, kind)? {
                parent.set_last_group(group);
                return Ok(nr);
            }
        }
        Err(Error::NoSpace)
    }

    fn take_in_group(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        nr: GroupNr,
        kind: FileType,
    ) -> Result<Option<InodeNr>> {
        let group = self.group(nr)?;
        if self.policy.summary(nr).free_inodes == 0 {
            return Ok(None);
        }
        let taken = {
            let mut half = handle.write(&group.inodes);
            self.load_inodes(fs, nr, &mut half)?;
            self.take_bit(nr, &mut half, kind)?
        };
        if taken.is_some() {
            self.settle_block_bitmap(fs, handle, nr, group)?;
        }
        Ok(taken)
    }

    fn take_bit(
        &self,
        nr: GroupNr,
        half: &mut InodeState,
        kind: FileType,
    ) -> Result<Option<InodeNr>> {
        let inodes = self.geometry().inodes_per_group;
        let first = self.first_index(nr);
        let used = half.used.as_ref().expect("the caller loaded the bitmap");
        let Some(index) = used.next_clear(first.max(half.none_below)..inodes) else {
            half.none_below = inodes;
            return Ok(None);
        };
        half.none_below = index + 1;
        self.set_bit(nr, half, index, kind)?;
        Ok(Some(self.geometry().inode_at(nr, index)))
    }

    /// Sets a clear bit of a loaded bitmap.
    pub(super) fn set_bit(
        &self,
        nr: GroupNr,
        half: &mut InodeState,
        index: u32,
        kind: FileType,
    ) -> Result<()> {
        half.used
            .as_mut()
            .expect("the caller loaded the bitmap")
            .set_range(index..index + 1);
        half.free_inodes -= 1;
        half.used_dirs += u32::from(kind == FileType::Directory);
        self.initialise_table(nr, half, index)?;
        self.policy.taken(nr, inode_kind(kind));
        Ok(())
    }

    /// Index of the first inode of a group that may be handed out.
    fn first_index(&self, nr: GroupNr) -> u32 {
        if nr.0 == 0 {
            self.geometry().first_inode - 1
        } else {
            0
        }
    }

    /// The table is in use up to `index` now: what was never written before is zeroed.
    fn initialise_table(&self, nr: GroupNr, half: &mut InodeState, index: u32) -> Result<()> {
        let geometry = self.geometry();
        let tracks_unused = geometry.features.has(uext4_format::Feature::METADATA_CSUM)
            || geometry.features.has(uext4_format::Feature::UNINIT_BG);
        if !tracks_unused {
            return Ok(());
        }
        half.flags &= !group_flag::INODE_UNINIT;
        let written = geometry.inodes_per_group - half.itable_unused;
        if index < written {
            return Ok(());
        }
        if !half.has_flag(group_flag::INODE_ZEROED) {
            let per_block = geometry.inodes_per_block();
            let from = written.div_ceil(per_block);
            let to = index / per_block + 1;
            self.zero_table(nr, from, to)?;
        }
        half.itable_unused = geometry.inodes_per_group - index - 1;
        Ok(())
    }

    fn zero_table(&self, nr: GroupNr, from: u32, to: u32) -> Result<()> {
        let block_size = u64::from(self.geometry().block_size());
        let table = self.raw.inode_table(nr).0;
        if from < to {
            let at = (table + u64::from(from)) * block_size;
            self.device
                .write_zeroes(at, u64::from(to - from) * block_size)?;
        }
        Ok(())
    }

    /// A group with inodes in use has a block bitmap on disk, as the kernel keeps it.
    pub(super) fn settle_block_bitmap(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        nr: GroupNr,
        group: &Group,
    ) -> Result<()> {
        if group.blocks.live().read().uninit {
            let mut half = handle.write(&group.blocks);
            self.load_blocks(fs, nr, &mut half)?;
            half.uninit = false;
        }
        Ok(())
    }

    /// Frees an inode number in the handle's transaction.
    pub(crate) fn free_inode(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        nr: InodeNr,
        kind: Option<FileType>,
    ) -> Result<()> {
        let bad = |problem| Error::Corrupt(Corrupt::new(Place::Inode(nr), "inode bitmap", problem));
        let (group_nr, index) = self
            .geometry()
            .split_inode(nr)
            .ok_or(bad("number out of range"))?;
        let group = self.group(group_nr)?;
        let mut half = handle.write(&group.inodes);
        self.load_inodes(fs, group_nr, &mut half)?;
        let used = half.used.as_mut().expect("load_inodes fills the bitmap in");
        if !used.get(index) {
            return Err(bad("freed inode is free already"));
        }
        used.clear_range(index..index + 1);
        half.free_inodes += 1;
        half.none_below = half.none_below.min(index);
        if kind == Some(FileType::Directory) {
            half.used_dirs = half.used_dirs.saturating_sub(1);
        }
        self.policy
            .given(group_nr, kind.map_or(InodeKind::Other, inode_kind));
        Ok(())
    }

    /// True when the bitmap says that the inode is in use.
    pub(crate) fn is_inode_allocated(&self, fs: &Fs, nr: InodeNr) -> Result<bool> {
        let Some((group_nr, index)) = self.geometry().split_inode(nr) else {
            return Ok(false);
        };
        let group = self.group(group_nr)?;
        if let Some(used) = &group.inodes.live().read().used {
            return Ok(used.get(index));
        }
        let mut half = group.inodes.live().write_unlogged();
        self.load_inodes(fs, group_nr, &mut half)?;
        Ok(half.used.as_ref().is_some_and(|used| used.get(index)))
    }
}

fn inode_kind(kind: FileType) -> InodeKind {
    if kind == FileType::Directory {
        InodeKind::Directory
    } else {
        InodeKind::Other
    }
}
