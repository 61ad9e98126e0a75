//! Gives a file system a journal, or takes it away.
//!
//! An engine cannot change the log that it runs on, so each step is a mount of its own, and the
//! feature changes between two of them, by one write of the superblock. A journal that is replaced
//! is removed first: in between there is none. A crash leaves all files as they are; blocks of a
//! log that no superblock names belong to inode 8, which e2fsck empties.

use super::{Presence, Tuning, reserved};
use crate::file::{self, FallocateMode, Position, Terms};
use crate::inode::InodeRef;
use crate::mount::check_sound;
use crate::superblock::read_superblock;
use crate::{Error, Filesystem, Fs, MountOptions, Result, map, mkfs};
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::{Feature, InodeNr, Superblock};
use uext4_num::{clamp_u32, clamp_usize, u64_of};
use uext4_sync::Arc;

/// Zeroes that one write has, in bytes, for files without extents.
const PIECE_BYTES: usize = 1 << 20;

/// The journal that a file system is to have.
#[derive(Clone, Copy)]
pub enum Journal<'a> {
    /// None: a crash then needs e2fsck.
    None,
    /// In inode 8, of this many blocks, and as many more as fast commits get; `None`: mke2fs's
    /// default.
    Internal(Option<u32>),
    /// On another device, made by `mkfs::format_journal_device`.
    External {
        /// The device.
        device: &'a Arc<dyn BlockDevice>,
        /// UUID of the journal.
        uuid: [u8; 16],
        /// Number of the block device; 0: unknown.
        number: u32,
    },
}

/// Gives the file system this journal instead of the one that it has. Replays the old one first;
/// without a new one the features `orphan_file` and `fast_commit` go as well. The caller is the
/// only user of the device; `options` are those of the mounts, with the old external journal.
///
/// # Errors
/// [`Error::NotSupported`] for a size that mke2fs would refuse, [`Error::NoSpace`] if the blocks
/// are not free; then nothing has changed, or if it is too fragmented, there is no journal.
/// [`Error::Resize`] if e2fsck has to run first.
/// Those of mounts.
pub fn set_journal(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    wanted: Journal<'_>,
) -> Result<()> {
    let before = read_superblock(&**device, None)?;
    let blocks = blocks_of(&before, wanted)?;
    check_sound(device, options)?;
    let had_one = before.features().has(Feature::HAS_JOURNAL);
    let wants_one = !matches!(wanted, Journal::None);
    check_space(device, blocks)?;
    match had_one {
        true => remove(device, options, wants_one)?,
        // What a mount refuses (damage, another host by MMP) is refused before the first write.
        false => Filesystem::mount(device.clone(), options.clone())?.unmount()?,
    }
    let mut options = options.clone();
    options.journal_device = None;
    match wanted {
        Journal::None => {}
        Journal::Internal(_) => add_internal(device, &options, blocks)?,
        Journal::External {
            device: other,
            uuid,
            number,
        } => {
            add_external(device, &**other, uuid, number)?;
            options.journal_device = Some(other.clone());
        }
    }
    // The first mount with the new journal writes the backups of the superblock.
    let fs = Filesystem::mount(device.clone(), options)?;
    fs.tune(&Tuning::default())?;
    fs.unmount()
}

/// Length of the new internal journal.
fn blocks_of(disk: &Superblock, wanted: Journal<'_>) -> Result<u32> {
    let Journal::Internal(asked) = wanted else {
        return Ok(0);
    };
    let default = mkfs::default_journal_blocks(disk.blocks_count);
    let blocks = asked.map_or(default, u64::from);
    if !mkfs::JOURNAL_BLOCKS.contains(&blocks) || blocks > disk.blocks_count / 2 {
        return Err(Error::NotSupported(
            "a journal has 1024 to 10240000 blocks, and at most half of the file system",
        ));
    }
    let fast_commits = match disk.features().has(Feature::FAST_COMMIT) {
        true => mkfs::fast_commit_blocks(blocks),
        false => 0,
    };
    Ok(clamp_u32(blocks + fast_commits))
}

/// Refuses an internal journal that does not fit with its map even in the place of the old one,
/// before that goes.
fn check_space(device: &Arc<dyn BlockDevice>, blocks: u32) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let old = match disk.jnl_backup_type {
        1 => u64::from(disk.jnl_blocks[16]) >> 10 >> disk.log_block_size.min(31),
        _ => 0,
    };
    let per_map_block = match disk.features().has(Feature::EXTENTS) {
        true => 2000,
        false => 255,
    };
    let wanted = u64::from(blocks) + u64::from(blocks) / per_map_block + 3;
    match blocks > 0 && disk.free_blocks_count.saturating_add(old) < wanted {
        true => Err(Error::NoSpace),
        false => Ok(()),
    }
}

fn remove(device: &Arc<dyn BlockDevice>, options: &MountOptions, replaced: bool) -> Result<()> {
    let fs = Filesystem::mount(device.clone(), options.clone())?;
    if !replaced {
        let features = [Feature::ORPHAN_FILE, Feature::FAST_COMMIT];
        let features = features.map(|feature| (feature, Presence::Absent)).to_vec();
        fs.tune(&Tuning {
            features,
            ..Tuning::default()
        })?;
    }
    fs.unmount()?;
    let before = reserved::change(device, |disk| {
        let mut features = disk.features();
        features.remove(Feature::HAS_JOURNAL);
        disk.set_features(features);
        (disk.journal_inum, disk.journal_dev, disk.jnl_backup_type) = (0, 0, 0);
        (disk.journal_uuid, disk.jnl_blocks) = ([0; 16], [0; 17]);
    })?;
    if let Some(journal) = options
        .journal_device
        .as_ref()
        .filter(|_| before.journal_inum == 0)
    {
        let removed = mkfs::remove_journal_user(&**journal, before.uuid);
        removed.map_err(|error| Error::Mount(format!("{}: {error}", journal.describe())))?;
    }
    if before.journal_inum == InodeNr::JOURNAL.0 {
        let freed = with_journal_inode(device, options, |fs, inode| {
            let blocks = inode.read().disk.size >> fs.geometry.block_bits;
            file::truncate(fs, inode.arc(), 0)?;
            Ok(blocks)
        })?;
        reserved::clear_inode(device, InodeNr::JOURNAL)?;
        reserved::change(device, |disk| count_overhead(disk, freed, Presence::Absent))?;
    }
    Ok(())
}

fn add_internal(device: &Arc<dyn BlockDevice>, options: &MountOptions, blocks: u32) -> Result<()> {
    reserved::empty_inode(device, options, InodeNr::JOURNAL)?;
    let disk = read_superblock(&**device, None)?;
    reserved::write_inode(
        device,
        InodeNr::JOURNAL,
        &reserved::new_inode(&disk, options)?,
    )?;
    let made = with_journal_inode(device, options, |fs, inode| {
        let filled = fill(fs, &inode, blocks);
        if filled.is_err() {
            file::truncate(fs, inode.arc(), 0)?;
        }
        filled?;
        let state = inode.read();
        let first = map::blocks_of(fs, &state, 1, || Error::NoSpace)?;
        let first = first.first().copied().ok_or(Error::NoSpace)?;
        Ok((first, mkfs::journal_backup(&state.disk)))
    });
    let (first, backup) = match made {
        Ok(made) => made,
        Err(error) => {
            reserved::clear_inode(device, InodeNr::JOURNAL)?;
            return Err(error);
        }
    };
    let log = mkfs::journal_superblock(&disk, blocks);
    device.write_at(first.0 << disk.geometry()?.block_bits, &log.encode())?;
    device.flush()?;
    reserved::change(device, |disk| {
        let mut features = disk.features();
        features.insert(Feature::HAS_JOURNAL);
        disk.set_features(features);
        disk.journal_inum = InodeNr::JOURNAL.0;
        disk.jnl_backup_type = 1;
        disk.jnl_blocks = backup;
        count_overhead(disk, blocks.into(), Presence::Present);
    })?;
    Ok(())
}

fn add_external(
    device: &Arc<dyn BlockDevice>,
    journal: &dyn BlockDevice,
    uuid: [u8; 16],
    number: u32,
) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let added = mkfs::add_journal_user(journal, disk.uuid);
    added.map_err(|error| Error::Mount(format!("{}: {error}", journal.describe())))?;
    reserved::change(device, |disk| {
        let mut features = disk.features();
        features.insert(Feature::HAS_JOURNAL);
        disk.set_features(features);
        (disk.journal_uuid, disk.journal_dev) = (uuid, number);
    })?;
    Ok(())
}

fn count_overhead(disk: &mut Superblock, journal_blocks: u64, presence: Presence) {
    let bits = disk.log_cluster_size.saturating_sub(disk.log_block_size);
    let clusters = clamp_u32(journal_blocks.div_ceil(1 << bits.min(31)));
    // 0 means that the overhead is unknown.
    disk.overhead_clusters = match (disk.overhead_clusters, presence) {
        (0, _) => 0,
        (old, Presence::Present) => old.saturating_add(clusters),
        (old, Presence::Absent) => old.saturating_sub(clusters),
    };
}

/// Mounts without a journal, and works on inode 8.
fn with_journal_inode<T>(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    work: impl FnOnce(&Fs, InodeRef) -> Result<T>,
) -> Result<T> {
    let mut options = options.clone();
    options.journal_device = None;
    reserved::on_mount(device, &options, |fs| {
        work(fs, reserved::load(fs, InodeNr::JOURNAL)?)
    })
}

/// Maps `blocks` blocks that read as zeroes.
fn fill(fs: &Fs, inode: &InodeRef, blocks: u32) -> Result<()> {
    let bytes: Range<u64> = 0..u64::from(blocks) << fs.geometry.block_bits;
    if map::has_extents(&inode.read()) {
        let mode = FallocateMode::WriteZeroes;
        return file::fallocate(fs, inode.arc(), mode, bytes, Terms::OWN);
    }
    let zeroes = vec![0; PIECE_BYTES];
    let mut at = bytes.start;
    while at < bytes.end {
        let len = clamp_usize(bytes.end - at).min(PIECE_BYTES);
        let position = Position::Offset(at);
        let written = file::write(fs, inode.arc(), position, &zeroes[..len], Terms::OWN)?;
        at += u64_of(written.len_bytes);
        file::write_out(fs, inode.arc())?;
    }
    Ok(())
}
