//! Allocation and freeing of inode numbers.
//!
//! A search and the set of a bit are one step on an atomic word, so no other thread takes the bit
//! in between. The first group and inodes to try are chosen without a lock (`alloc::InodePolicy`,
//! `alloc::InodeRuns`); each thread has its own runs.
//!
//! An uninitialized table block has arbitrary contents. It is zeroed on the device before its first
//! inode is allocated. No disk structure refers to it until the handle's transaction commits, so
//! the write needs no journal.

use super::Space;
use super::group::{Group, InodeState};
use crate::state::base::Base;
use crate::types::error::{Error, Result};
use uext4_alloc::{InodeBits, InodeKind, Parent};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, FileType, GroupNr, InodeNr, group_flag};
use uext4_journal::{Handle, Object};
use uext4_sync::atomic::{AtomicU32, Ordering};

/// Table slots that are initialized in one step; a power of two.
const READY_TOGETHER: u32 = 64;

/// Placement of a new inode.
pub(crate) struct Near<'a> {
    /// The inode that it is near to, usually its directory.
    pub(crate) parent: InodeNr,
    /// For a top of hierarchies, which is placed away from others: a hash.
    pub(crate) top: Option<u32>,
    pub(crate) last_flex: &'a LastFlex,
}

/// First group of the flexible group where an inode was last created in a directory, plus one (a
/// hint). Not the group itself, which differs between threads: every create would write this cache
/// line.
#[derive(Default)]
pub(crate) struct LastFlex(AtomicU32);

impl LastFlex {
    pub(super) fn get(&self) -> Option<GroupNr> {
        let known = self.0.load(Ordering::Relaxed);
        known.checked_sub(1).map(GroupNr)
    }

    fn set(&self, first: GroupNr) {
        let known = first.0 + 1;
        if self.0.load(Ordering::Relaxed) != known {
            self.0.store(known, Ordering::Relaxed);
        }
    }
}

impl Space {
    /// Allocates an inode number in the handle's transaction.
    ///
    /// # Errors
    /// [`Error::NoInodes`]. A group whose bitmap is damaged is skipped; the damage is recorded.
    pub(crate) fn alloc_inode(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        near: &Near<'_>,
        kind: FileType,
    ) -> Result<InodeNr> {
        let group = self
            .geometry()
            .split_inode(near.parent)
            .map_or(GroupNr(0), |at| at.0);
        let from = Parent {
            group,
            last_flex: near.last_flex.get(),
            top: near.top,
        };
        for group in self
            .policy
            .candidates(from, inode_kind(kind), &*self.engine, &|| {
                self.claims.available()
            })
        {
            if let Some(nr) = self.take_in_group(base, handle, group, kind)? {
                near.last_flex.set(self.engine.volume().flex_start(group));
                return Ok(nr);
            }
        }
        Err(Error::NoInodes)
    }

    fn take_in_group(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: GroupNr,
        kind: FileType,
    ) -> Result<Option<InodeNr>> {
        let group = self.group(nr)?;
        let Some(bits) = self.usable_bits(base, nr, group) else {
            return Ok(None);
        };
        let first = self.first_index(nr);
        let Some(runs) = &self.runs else {
            return self.take_racing(base, handle, (nr, group, bits), kind);
        };
        // Other threads may take the free bits of the line first; then the next line is tried.
        while let Some(line) = runs.line(nr, bits, first) {
            handle.touch(&group.inodes);
            if let Some(index) = bits.take(line, first) {
                self.took(base, handle, nr, index, kind)?;
                return Ok(Some(self.geometry().inode_at(nr, index)));
            }
        }
        self.policy.counts().report_full(nr);
        Ok(None)
    }

    /// The inode bitmap of a group, for an allocation. `None` if it cannot be used: the group has
    /// no free inodes from then on.
    fn usable_bits<'a>(&self, base: &Base, nr: GroupNr, group: &'a Group) -> Option<&'a InodeBits> {
        let unusable = &group.inodes.map.unusable;
        if unusable.load(Ordering::Relaxed) {
            return None;
        }
        let bits = base.record_result_later(self.inode_bits(base, nr, group));
        if bits.is_err() && !unusable.swap(true, Ordering::Relaxed) {
            self.policy.counts().withdraw(nr);
        }
        bits.ok()
    }

    /// Finishes an allocation after its half was logged and its bit set.
    pub(super) fn took(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: GroupNr,
        index: u32,
        kind: FileType,
    ) -> Result<()> {
        let group = self.group(nr)?;
        let map = &group.inodes.map;
        if index >= map.ready.load(Ordering::Acquire)
            && let Err(error) = self.make_ready(base, handle, nr, group, index)
        {
            self.inode_bits(base, nr, group)?.clear(index);
            return Err(error);
        }
        if kind == FileType::Directory {
            map.used_dirs.fetch_add(1, Ordering::AcqRel);
        }
        self.policy.counts().taken(nr, inode_kind(kind));
        Ok(())
    }

    /// Initializes the table slots of this inode and of those after it in the same word.
    fn make_ready(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: GroupNr,
        group: &Group,
        index: u32,
    ) -> Result<()> {
        let inodes = self.geometry().inodes_per_group;
        let last = (index | (READY_TOGETHER - 1)).min(inodes - 1);
        self.init_block_bitmap(base, handle, nr, group)?;
        let mut half = handle.write(&group.inodes);
        half.flags &= !group_flag::INODE_UNINIT;
        self.initialise_table(nr, &mut half, last)?;
        let ready = inodes.saturating_sub(half.itable_unused).max(last + 1);
        group.inodes.map.ready.fetch_max(ready, Ordering::AcqRel);
        Ok(())
    }

    /// Index of the first allocatable inode of a group.
    pub(super) fn first_index(&self, nr: GroupNr) -> u32 {
        if nr.0 == 0 {
            self.geometry().first_inode - 1
        } else {
            0
        }
    }

    /// Zeroes the table up to `index` where it was never written.
    fn initialise_table(&self, nr: GroupNr, half: &mut InodeState, index: u32) -> Result<()> {
        let geometry = self.geometry();
        let tracks_unused = geometry.features.has(uext4_format::Feature::METADATA_CSUM)
            || geometry.features.has(uext4_format::Feature::UNINIT_BG);
        if !tracks_unused {
            return Ok(());
        }
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

    /// Writes the block bitmap of a group with inodes in use, as the kernel does.
    fn init_block_bitmap(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: GroupNr,
        group: &Group,
    ) -> Result<()> {
        if group.blocks.live().read().uninit {
            let mut half = handle.write(&group.blocks);
            self.load_blocks(base, nr, &mut half)?;
            half.uninit = false;
        }
        Ok(())
    }

    /// Frees an inode number in the handle's transaction.
    pub(crate) fn free_inode(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: InodeNr,
        kind: Option<FileType>,
    ) -> Result<()> {
        let bad = |problem| {
            Error::Corrupt(Corrupt::new(
                DamageLocation::Inode(nr),
                "inode bitmap",
                problem,
            ))
        };
        let (group_nr, index) = self
            .geometry()
            .split_inode(nr)
            .ok_or(bad(CorruptKind::NumberRange))?;
        let group = self.group(group_nr)?;
        let bits = self.inode_bits(base, group_nr, group)?;
        handle.touch(&group.inodes);
        if !bits.clear(index) {
            return Err(bad(CorruptKind::FreedInodeTwice));
        }
        if kind == Some(FileType::Directory) {
            let used_dirs = &group.inodes.map.used_dirs;
            let _ = used_dirs.fetch_update(Ordering::AcqRel, Ordering::Acquire, |dirs| {
                Some(dirs.saturating_sub(1))
            });
        }
        self.policy
            .counts()
            .given(group_nr, kind.map_or(InodeKind::Other, inode_kind));
        Ok(())
    }

    /// The numbers that the bitmaps mark in use, ascending; changes meanwhile may be missed.
    pub(crate) fn inodes_in_use<'a>(
        &'a self,
        base: &'a Base,
    ) -> impl Iterator<Item = Result<InodeNr>> + 'a {
        (0..self.geometry().group_count)
            .map(GroupNr)
            .flat_map(move |nr| {
                let bits = self
                    .group(nr)
                    .and_then(|group| self.inode_bits(base, nr, group));
                let (bits, failed) = match bits {
                    Ok(bits) => (Some(bits), None),
                    Err(error) => (None, Some(Err(error))),
                };
                let per_group = 0..self.geometry().inodes_per_group;
                let used = per_group.filter(move |index| bits.is_some_and(|bits| bits.get(*index)));
                let used = used.map(move |index| Ok(self.geometry().inode_at(nr, index)));
                failed.into_iter().chain(used)
            })
    }

    /// Whether the bitmap marks the inode in use.
    pub(crate) fn is_inode_allocated(&self, base: &Base, nr: InodeNr) -> Result<bool> {
        let Some((group_nr, index)) = self.geometry().split_inode(nr) else {
            return Ok(false);
        };
        let group = self.group(group_nr)?;
        Ok(self.inode_bits(base, group_nr, group)?.get(index))
    }
}

fn inode_kind(kind: FileType) -> InodeKind {
    if kind == FileType::Directory {
        InodeKind::Directory
    } else {
        InodeKind::Other
    }
}
