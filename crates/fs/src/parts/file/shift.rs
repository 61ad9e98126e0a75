//! `fallocate` that shifts extents: `COLLAPSE_RANGE` and `INSERT_RANGE`.
//!
//! Crash safety: the whole shift is one transaction, whose credits are counted before. If the file
//! has more extents than a quarter of a transaction can change, the shift spans several. A crash in
//! between leaves a valid file with only the front (collapse) or only the back (insert) shifted, as
//! in the kernel.

use super::times::touch;
use crate::parts::map::{self, LOGICAL_END, Progress};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_journal::Handle;
use uext4_num::clamp_u32;
use uext4_sync::Arc;

/// Shifting the extents of one leaf: it, the nodes above it, the inode; and a merge at the end.
const STEP: u32 = credits::MAP;

/// Removes the byte range: the data behind move to its start, and the file gets shorter.
///
/// # Errors
/// [`Error::Invalid`] unless the range consists of whole clusters and ends before the end of file.
pub(super) fn collapse(fs: &Fs, inode: &Arc<Inode>, bytes: Range<u64>) -> Result<()> {
    let size = inode.read().disk.size;
    check_aligned(fs, &bytes)?;
    if bytes.end >= size {
        return Err(Error::Invalid("the range reaches the end of the file"));
    }
    fs.discard_preallocation(inode);
    let blocks = blocks(fs, &bytes);
    let by = clamp_u32(blocks.end - blocks.start);
    let first = LogicalBlock(clamp_u32(blocks.start));
    let mut handle = fs.start(credits_of(fs, inode, &blocks)?)?;
    unmap(fs, &mut handle, inode, blocks.clone())?;
    let mut at = Some(blocks.end);
    while let Some(from) = at {
        make_room(&mut handle)?;
        at = map::shift_left(fs, &handle, &mut handle.write(inode), from, by)?;
    }
    make_room(&mut handle)?;
    let mut state = handle.write(inode);
    state.disk.size -= bytes.end - bytes.start;
    touch(&mut state, fs.now());
    map::join_at(fs, &handle, &mut state, first)
}

fn unmap(fs: &Fs, handle: &mut Handle<'_>, inode: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
    let mut left = blocks;
    loop {
        let progress = map::remove(fs, handle, &mut handle.write(inode), left.clone())?;
        match progress {
            Progress::Done => return Ok(()),
            Progress::More { end } => left.end = end,
        }
        handle.restart(credits::TRUNCATE)?;
    }
}

/// Continues in the next transaction only if the counted credits do not suffice.
fn make_room(handle: &mut Handle<'_>) -> Result<()> {
    if handle.credits_left() < STEP {
        Ok(handle.restart(credits::TRUNCATE)?)
    } else {
        Ok(())
    }
}

/// Credits to remove or insert `blocks` in one transaction, if a quarter of a transaction holds
/// them; else those of the first step.
fn credits_of(fs: &Fs, inode: &Inode, blocks: &Range<u64>) -> Result<u32> {
    let max = fs.base.journal.stats().transaction_limit_blocks / 4;
    let cost = map::shift_cost(fs, &inode.read(), blocks.clone(), max)?;
    let wanted = credits::TRUNCATE + STEP + cost;
    Ok(if wanted <= max {
        wanted
    } else {
        credits::TRUNCATE
    })
}

/// Inserts a hole: the data from the range's start on move to its end.
///
/// # Errors
/// [`Error::Invalid`] unless the range consists of whole clusters and begins inside the file;
/// [`Error::TooLarge`] if the file would be too large.
pub(super) fn insert(fs: &Fs, inode: &Arc<Inode>, bytes: Range<u64>) -> Result<()> {
    check_aligned(fs, &bytes)?;
    let len = bytes.end - bytes.start;
    let blocks = blocks(fs, &bytes);
    let by = clamp_u32(blocks.end - blocks.start);
    let first = LogicalBlock(clamp_u32(blocks.start));
    {
        let state = inode.read();
        if bytes.start >= state.disk.size {
            return Err(Error::Invalid(
                "the range begins behind the end of the file",
            ));
        }
        if len > map::size_end_bytes(fs, &state).saturating_sub(state.disk.size) {
            return Err(Error::TooLarge);
        }
        if map::mapped_end(fs, &state)? + u64::from(by) > LOGICAL_END {
            return Err(Error::Invalid(
                "space behind the end would move out of the file",
            ));
        }
    }
    fs.discard_preallocation(inode);
    let mut handle = fs.start(credits_of(fs, inode, &(blocks.start..blocks.start))?)?;
    {
        let mut state = handle.write(inode);
        map::split_at(fs, &handle, &mut state, first)?;
        state.disk.size += len;
        touch(&mut state, fs.now());
    }
    let mut end = LOGICAL_END;
    loop {
        make_room(&mut handle)?;
        let moved = map::shift_right(fs, &handle, &mut handle.write(inode), blocks.start..end, by)?;
        let Some(left) = moved else {
            return Ok(());
        };
        end = left;
    }
}

fn blocks(fs: &Fs, bytes: &Range<u64>) -> Range<u64> {
    bytes.start >> fs.base.geometry.block_bits..bytes.end >> fs.base.geometry.block_bits
}

fn check_aligned(fs: &Fs, bytes: &Range<u64>) -> Result<()> {
    let cluster_bytes =
        u64::from(fs.base.geometry.blocks_per_cluster()) << fs.base.geometry.block_bits;
    if bytes.start.is_multiple_of(cluster_bytes) && bytes.end.is_multiple_of(cluster_bytes) {
        Ok(())
    } else {
        Err(Error::Invalid("the range is not made of whole clusters"))
    }
}
