//! Extents for the files that an ext2 or ext3 left with block maps.
//!
//! One transaction changes one file, so a crash leaves it with its old map or with extents, and
//! another call goes on with the rest. Users of a mount could meet a map in between, so the mount
//! is one of its own.
//! Not here: reserved inodes and internal files. That of reserved descriptors must keep its map.

use super::reserved::on_mount;
use crate::mount::check_sound;
use crate::parts::file;
use crate::parts::map::{self, BlockMap};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::{Error, Result};
use crate::types::options::MountOptions;
use std::ops::ControlFlow;
use uext4_device::BlockDevice;
use uext4_format::{Feature, FileType, InodeFlags};
use uext4_sync::Arc;

/// Progress of [`use_extents`], in inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentsProgress {
    /// Inodes in use that were looked at.
    pub done_inodes: u64,
    /// Inodes in use when the conversion started.
    pub total_inodes: u64,
}

/// Result of [`use_extents`]. Files are regular files, directories and symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ExtentsUsed {
    /// Files that got extents.
    pub files: u64,
    /// Blocks of their block maps, which are free now.
    pub freed_blocks: u64,
    /// Blocks that their extents take besides the inode.
    pub tree_blocks: u64,
    /// Files that keep their block maps, because one transaction cannot hold the change.
    pub too_fragmented: u64,
    /// Files that keep their block maps, because there is no space for their extents.
    pub without_space: u64,
}

/// Gives extents to all files with block maps of the file system on `device`, of which the caller
/// is the only user. Data stay where they are. `progress` may end the work, which leaves the other
/// files as they are.
///
/// # Errors
/// [`Error::NotSupported`] without the feature `extent`, which [`super::convert`] turns on;
/// [`Error::Corrupt`] for damage; those of [`crate::Filesystem::mount`].
pub fn use_extents(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    progress: &mut dyn FnMut(ExtentsProgress) -> ControlFlow<()>,
) -> Result<ExtentsUsed> {
    check_sound(device, options)?;
    on_mount(device, options, |fs| {
        if !fs.base.features.has(Feature::EXTENTS) {
            return Err(Error::NotSupported("extents without the feature extent"));
        }
        all(fs, progress)
    })
}

fn all(
    fs: &Fs,
    progress: &mut dyn FnMut(ExtentsProgress) -> ControlFlow<()>,
) -> Result<ExtentsUsed> {
    fs.writable()?;
    let statfs = fs.space.statfs(&fs.base);
    let mut told = ExtentsProgress {
        done_inodes: 0,
        total_inodes: statfs.inodes - statfs.inodes_free,
    };
    let mut used = ExtentsUsed::default();
    for nr in fs.space.inodes_in_use(&fs.base) {
        let nr = nr?;
        if !fs.hidden.contains(nr) {
            one(fs, &fs.load_inode(nr)?, &mut used)?;
        }
        told.done_inodes += 1;
        if progress(told).is_break() {
            break;
        }
    }
    Ok(used)
}

fn one(fs: &Fs, inode: &Arc<Inode>, used: &mut ExtentsUsed) -> Result<()> {
    let limit = fs.base.journal.stats().transaction_limit_blocks;
    let credits_max = limit.saturating_sub(fs.quota.credits());
    let old = {
        let state = inode.read();
        if !has_tables(fs, &state) {
            return Ok(());
        }
        BlockMap::read(fs, &state, credits_max)?
    };
    let Some(old) = old else {
        used.too_fragmented += 1;
        return Ok(());
    };
    let changed = fs.space.with_commits(&fs.base, || {
        let handle = fs.start(old.credits())?;
        let mut state = handle.write(inode);
        let before = state.disk.sectors(&fs.base.geometry);
        map::use_extents(fs, &handle, &mut state, &old)?;
        Ok((before, state.disk.sectors(&fs.base.geometry)))
    });
    let (before, after) = match changed {
        Err(Error::NoSpace) => {
            used.without_space += 1;
            return Ok(());
        }
        changed => changed?,
    };
    let sectors = fs.base.geometry.cluster_size() >> 9;
    used.files += 1;
    used.freed_blocks += old.table_blocks();
    used.tree_blocks += (after + old.table_blocks() * sectors - before) / sectors;
    Ok(())
}

/// Whether pointers of blocks, or nothing yet, are in `i_block`.
fn has_tables(fs: &Fs, state: &InodeState) -> bool {
    let other = InodeFlags::EXTENTS.union(InodeFlags::INLINE_DATA);
    if state.disk.links == 0 || state.disk.flags.intersects(other) {
        return false;
    }
    match state.disk.file_type() {
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => !file::is_fast_link(fs, state),
        _ => false,
    }
}
