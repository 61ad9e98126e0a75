//! Orphans at mount: loads the orphan file, and truncates or frees the orphans of a crash.

use crate::parts::{file, map};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::orphan::OrphanFile;
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::collections::HashSet;
use uext4_format::orphan_file::ORPHAN_FILE_BLOCKS_MAX;
use uext4_format::superblock::state;
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Feature, InodeNr};
use uext4_num::clamp_u32;
use uext4_sync::Arc;
use uext4_sync::atomic::Ordering;

/// Loads the orphan file; `None` without the feature.
pub(crate) fn load_file(fs: &Fs) -> Result<Option<OrphanFile>> {
    if !fs.base.features.has(Feature::ORPHAN_FILE) {
        return Ok(None);
    }
    let nr = InodeNr(fs.base.superblock.read().disk.orphan_file_inum);
    let damage = |problem| {
        Error::Corrupt(Corrupt::new(
            DamageLocation::Inode(nr),
            "orphan file",
            problem,
        ))
    };
    let inode = fs.load_inode(nr)?;
    let state = inode.read();
    if state.disk.links == 0 {
        return Err(damage(CorruptKind::InodeFree));
    }
    let block_size = fs.block_bytes();
    let count = state.disk.size / block_size;
    if count == 0 || count > ORPHAN_FILE_BLOCKS_MAX.into() || state.disk.size % block_size != 0 {
        return Err(damage(CorruptKind::BadSize));
    }
    let blocks = map::blocks_of(fs, &state, clamp_u32(count), || damage(CorruptKind::Hole))?;
    let seed = fs.base.checksums.metadata.map(|_| state.seed());
    OrphanFile::read(&fs.base, seed, &blocks).map(Some)
}

/// Processes all tracked orphans. Called once, before any other operation. On a file system with
/// the error state nothing is freed, as in the kernel, and the list and the orphan file's entries
/// are dropped: e2fsck must run. Damage of one orphan is recorded and leaves it to e2fsck; the
/// others are processed.
pub(crate) fn recover(fs: &Fs) -> Result<()> {
    if fs.base.superblock.read().disk.state & state::ERROR != 0 {
        let is_listed = fs.base.superblock.read().disk.last_orphan != 0;
        if is_listed || fs.orphans.in_file().next().is_some() {
            fs.orphans.leave();
        }
        return drop_all(fs);
    }
    let mut damage = Vec::new();
    for inode in adopt(fs)? {
        match finish(fs, &inode) {
            Err(found @ Error::Corrupt(_)) => {
                fs.orphans
                    .remove(&fs.base, &fs.start(credits::REMOVE)?, &inode)?;
                damage.push(found);
            }
            other => other?,
        }
    }
    // Last: after an error the file system may refuse changes.
    for found in damage {
        let _recorded = fs.base.record_result::<()>(Err(found));
    }
    Ok(())
}

fn drop_all(fs: &Fs) -> Result<()> {
    let handle = fs.start(credits::ATTRIBUTES)?;
    fs.base
        .superblock
        .update(&handle, |disk| disk.last_orphan = 0);
    drop(handle);
    let Some(file) = fs.orphans.file() else {
        return Ok(());
    };
    for (slot, _) in file.entries().collect::<Vec<_>>() {
        file.remove(&fs.start(1)?, slot);
    }
    Ok(())
}

/// Adopts the on-disk orphans without processing them, so that more can be added.
pub(crate) fn take_over(fs: &Fs) -> Result<()> {
    adopt(fs).map(|_kept_on_disk| ())
}

/// Mirrors the on-disk orphans in memory. Invalid numbers are dropped: the chain ends at the first
/// one, and an invalid slot is freed.
fn adopt(fs: &Fs) -> Result<Vec<Arc<Inode>>> {
    let mut found = adopt_list(fs)?;
    let Some(file) = fs.orphans.file() else {
        return Ok(found);
    };
    for (slot, nr) in file.entries().collect::<Vec<_>>() {
        match load_orphan(fs, nr) {
            Some(inode) if !inode.is_orphan() => {
                inode.orphan.store(slot + 1, Ordering::Release);
                found.push(inode);
            }
            _ => file.remove(&fs.start(1)?, slot),
        }
    }
    Ok(found)
}

/// The chain stays on disk unchanged, in case of a crash; only the rest behind an invalid number is
/// cut off.
fn adopt_list(fs: &Fs) -> Result<Vec<Arc<Inode>>> {
    let mut chain = Vec::new();
    let mut seen = HashSet::new();
    let mut next = fs.base.superblock.read().disk.last_orphan;
    while next != 0 && seen.insert(next) {
        let Some(inode) = load_orphan(fs, InodeNr(next)) else {
            break;
        };
        next = inode.read().disk.dtime;
        chain.push(inode);
    }
    fs.orphans.adopt_list(&chain);
    if next != 0 {
        let handle = fs.start(credits::ATTRIBUTES)?;
        match chain.last() {
            Some(oldest) => handle.write(oldest).disk.dtime = 0,
            None => fs
                .base
                .superblock
                .update(&handle, |disk| disk.last_orphan = 0),
        }
    }
    Ok(chain)
}

/// The inode of an entry, if it may be an orphan: it has no name, or it can be truncated. `i_block`
/// of a device node or a short symbolic link has no block pointers.
fn load_orphan(fs: &Fs, nr: InodeNr) -> Option<Arc<Inode>> {
    let first = fs.base.geometry.first_inode;
    let allocated = nr.0 >= first && fs.space.is_inode_allocated(&fs.base, nr).unwrap_or(false);
    if !allocated {
        return None;
    }
    let inode = fs.load_inode(nr).ok()?;
    let may_be_orphan = {
        let state = inode.read();
        state.disk.links == 0 || file::can_be_cut(fs, &state)
    };
    may_be_orphan.then_some(inode)
}

fn finish(fs: &Fs, inode: &Arc<Inode>) -> Result<()> {
    if inode.read().disk.links == 0 {
        inode.set_links(0);
        return fs.evict(inode);
    }
    file::finish_truncate(fs, inode)
}
