//! Another length of the internal journal.
//!
//! ```text
//! longer inode    a mount with the old log       blocks behind the log are not used
//! length          the log's superblock, between mounts: one sector
//! shorter inode   a mount with the new log       the same
//! ```
//!
//! The inode of a journal may be longer than the log, which says its own length. So each state in
//! between has a journal, the old one or the new one, and each block has one owner. The steps do
//! not depend on where an earlier try ended.
//!
//! Limit: a map that gets more nodes goes home in any order. After a crash in that moment the log
//! is found by its own length, or by the copy of its inode in the superblock. Linux does not read
//! the copy: a log with extents and more than 131,068 blocks needs a mount by this engine, or
//! e2fsck, before one by Linux.

use super::reserved;
use crate::parts::file;
use crate::parts::map::{self, Mapping};
use crate::state::engine::Fs;
use crate::state::inode::{InodeRef, InodeState};
use crate::state::superblock::read_superblock;
use crate::types::error::{Error, Result};
use crate::types::options::MountOptions;
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::jbd2;
use uext4_format::{Feature, InodeNr, LogicalBlock, Superblock};
use uext4_mkfs as mkfs;
use uext4_mkfs::LogLength;
use uext4_num::{clamp_u32, low_u32};
use uext4_sync::Arc;

/// Makes the log, which is in inode 8, of another length.
///
/// # Errors
/// [`Error::NoSpace`], with nothing changed; those of mounts.
pub(super) fn set(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    length: LogLength,
) -> Result<()> {
    let blocks = length.blocks;
    let disk = read_superblock(&**device, None)?;
    let new = mkfs::journal_superblock(&disk, length);
    let area = blocks - new.fast_commit_blocks..blocks;
    let [start, area] = reserved::on_mount(device, options, |fs| {
        let inode = reserved::load(fs, InodeNr::JOURNAL)?;
        let old = clamp_u32(inode.read().disk.size >> fs.base.geometry.block_bits);
        file::cut_to(fs, inode.arc(), old)?;
        let made = lengthen(fs, &inode, blocks, area);
        if made.is_err() {
            file::cut_to(fs, inode.arc(), old)?;
        }
        made
    })?;
    let start = start.first().ok_or(Error::NoSpace)?.start;
    reserved::at_rest(device, options, |device| {
        write_length(device, start, &area, &new)
    })?;
    reserved::on_mount(device, options, |fs| {
        let inode = reserved::load(fs, InodeNr::JOURNAL)?;
        file::cut_to(fs, inode.arc(), blocks)?;
        let backup = mkfs::journal_backup(&inode.read().disk);
        let handle = fs.start(1)?;
        fs.base
            .superblock
            .update(&handle, |disk| set_backup(disk, backup));
        Ok(())
    })
}

/// Gives the inode at least `blocks` blocks; returns where the first one is, and where `area`.
fn lengthen(
    fs: &Fs,
    inode: &InodeRef,
    blocks: u32,
    area: Range<u32>,
) -> Result<[Vec<Range<u64>>; 2]> {
    file::append_zeroes(fs, inode.arc(), blocks)?;
    let state = inode.read();
    // A log without holes, also where the size was more than what is mapped.
    places(fs, &state, 0..blocks)?;
    Ok([places(fs, &state, 0..1)?, places(fs, &state, area)?])
}

/// Bytes of the device that hold these blocks of a file without holes.
fn places(fs: &Fs, state: &InodeState, blocks: Range<u32>) -> Result<Vec<Range<u64>>> {
    let mut places = Vec::new();
    let (mut at, bits) = (blocks.start, fs.base.geometry.block_bits);
    while at < blocks.end {
        match map::lookup(fs, state, LogicalBlock(at), blocks.end - at)? {
            Mapping::Hole { .. } => {
                return Err(Error::NotSupported(
                    "the journal has holes; `uext4 fsck -f` repairs it",
                ));
            }
            Mapping::Mapped {
                start, len_blocks, ..
            } => {
                places.push(start.0 << bits..(start.0 + u64::from(len_blocks)) << bits);
                at += len_blocks;
            }
        }
    }
    Ok(places)
}

/// Says the length of the log, which is empty. Its area of fast commits is zeroed before, because
/// it may have been a part of the log that no superblock delimits.
fn write_length(
    device: &Arc<dyn BlockDevice>,
    start: u64,
    area: &[Range<u64>],
    new: &jbd2::Superblock,
) -> Result<()> {
    let mut bytes = [0; jbd2::SUPERBLOCK_BYTES];
    device.read_at(start, &mut bytes)?;
    let mut log = jbd2::Superblock::parse(&bytes)?;
    if log.start != 0 {
        return Err(Error::NotSupported("the journal is not empty"));
    }
    for part in area {
        device.write_zeroes(part.start, part.end - part.start)?;
    }
    device.flush()?;
    log.max_len_blocks = new.max_len_blocks;
    log.fast_commit_blocks = new.fast_commit_blocks;
    log.head = 0;
    device.write_at(start, &log.encode())?;
    Ok(device.flush()?)
}

/// Bytes of the journal that the superblock knows from its copy of the inode; `None` without one.
pub(super) fn known_bytes(disk: &Superblock) -> Option<u64> {
    let [.., high, low] = disk.jnl_blocks;
    (disk.jnl_backup_type == 1).then_some(u64::from(high) << 32 | u64::from(low))
}

/// Replaces the copy of the journal's inode, and counts its blocks as overhead instead of those of
/// the former copy: both are in one write, so the count is right after a crash too.
pub(super) fn set_backup(disk: &mut Superblock, backup: [u32; 17]) {
    let before = if disk.features().has(Feature::HAS_JOURNAL) && disk.journal_inum != 0 {
        known_bytes(disk)
    } else {
        Some(0)
    };
    (disk.jnl_backup_type, disk.jnl_blocks) = (1, backup);
    count_overhead(disk, before, known_bytes(disk).unwrap_or(0));
}

/// Removes the copy of the journal inode from the superblock.
pub(super) fn forget_inode(disk: &mut Superblock) {
    let before = known_bytes(disk);
    (disk.jnl_backup_type, disk.jnl_blocks) = (0, [0; 17]);
    count_overhead(disk, before, 0);
}

/// 0 means that the overhead is unknown.
fn count_overhead(disk: &mut Superblock, before: Option<u64>, after: u64) {
    let bits = (disk.log_cluster_size.min(31) + 10).min(40);
    let clusters = |bytes: u64| bytes.div_ceil(1 << bits);
    let old = u64::from(disk.overhead_clusters);
    disk.overhead_clusters = match before {
        Some(before) if old != 0 => {
            low_u32((old + clusters(after)).saturating_sub(clusters(before)))
        }
        _ => 0,
    };
}
