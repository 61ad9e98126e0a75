//! `fallocate`: preallocation, holes, zeroed ranges.

use super::allocate::{NewBlocks, Shape};
use super::write_out::write_out_locked;
use super::{Times, check_may_change, delay, inline, io, shift, touch};
use crate::delayed::Buffer;
use crate::inode::Inode;
use crate::map::{self, ExtentState, Mapping, Progress};
use crate::space::Reserve;
use crate::{Error, Fs, Result, credits};
use std::ops::Range;
use uext4_format::{BlockNr, LogicalBlock};
use uext4_sync::Arc;

/// Operation of `fallocate` on a byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Allocates its holes; the file grows to hold it.
    Allocate,
    /// Allocates its holes, also behind the end; the size stays.
    AllocateKeepSize,
    /// Frees its whole blocks, zeroes the rest; the size stays.
    PunchHole,
    /// Makes it read as zeroes, allocated; the file grows to hold it.
    ZeroRange,
    /// Makes it read as zeroes, allocated; the size stays.
    ZeroRangeKeepSize,
    /// Writes zeroes to it on the device, so that later writes change no metadata; the file grows
    /// to hold it.
    WriteZeroes,
    /// Removes it: the data behind move to its start, and the file gets shorter.
    CollapseRange,
    /// Inserts a hole: the data from its start on move to its end.
    InsertRange,
}

/// Allocates, punches or zeroes the byte range; see [`FallocateMode`].
///
/// # Errors
/// [`Error::NotSupported`] for preallocation in files without extents; [`Error::NoSpace`], after
/// which the blocks allocated so far stay.
pub(crate) fn fallocate(
    fs: &Fs,
    inode: &Arc<Inode>,
    mode: FallocateMode,
    offset: u64,
    len: u64,
    reserve: Reserve,
    times: Times,
) -> Result<()> {
    let mut buffer = inode.io.write();
    fs.writable()?;
    if len == 0 {
        return Err(Error::Invalid("an empty range"));
    }
    let end = check_range(fs, inode, mode, offset, len)?;
    if inline::is_inline(&inode.read()) {
        inline::convert(fs, inode, reserve)?;
    }
    let bytes = offset..end;
    if mode == FallocateMode::PunchHole {
        delay::discard(fs, inode, &mut buffer, inner_blocks(fs, &bytes));
    }
    write_out_locked(fs, inode, &mut buffer)?;
    let grows = Growth {
        size: Size::Grows,
        reserve,
        times,
    };
    let stays = Growth {
        size: Size::Stays,
        reserve,
        times,
    };
    match mode {
        FallocateMode::PunchHole => punch(fs, inode, &mut buffer, bytes, times)?,
        // These update the times in the transaction that maps blocks: the common case needs one
        // handle.
        FallocateMode::Allocate => return allocate(fs, inode, &mut buffer, bytes, grows),
        FallocateMode::AllocateKeepSize => return allocate(fs, inode, &mut buffer, bytes, stays),
        FallocateMode::ZeroRange => zero(fs, inode, &mut buffer, bytes, grows)?,
        FallocateMode::ZeroRangeKeepSize => zero(fs, inode, &mut buffer, bytes, stays)?,
        FallocateMode::WriteZeroes => write_zeroes(fs, inode, &mut buffer, bytes, grows)?,
        FallocateMode::CollapseRange => shift::collapse(fs, inode, bytes)?,
        FallocateMode::InsertRange => shift::insert(fs, inode, bytes)?,
    }
    note_change(fs, inode, None, times)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Grows,
    Stays,
}

/// Permissions and limits of an allocation.
#[derive(Clone, Copy)]
struct Growth {
    size: Size,
    reserve: Reserve,
    times: Times,
}

/// The end of the range, if the file may grow to it.
fn check_range(fs: &Fs, inode: &Inode, mode: FallocateMode, offset: u64, len: u64) -> Result<u64> {
    let state = inode.read();
    check_may_change(&state)?;
    let punches = mode == FallocateMode::PunchHole;
    let extents = map::has_extents(&state)
        || (inline::is_inline(&state) && fs.features.has(uext4_format::Feature::EXTENTS));
    if !extents && !punches {
        return Err(Error::NotSupported(
            "space without data in a file without extents",
        ));
    }
    let size_end = if extents {
        map::LOGICAL_END << fs.geometry.block_bits
    } else {
        map::size_end_bytes(fs, &state)
    };
    match offset.checked_add(len) {
        Some(end) if end <= size_end => Ok(end),
        _ if punches => Ok(size_end),
        _ => Err(Error::TooLarge),
    }
}

/// Updates times, and a size that grew.
fn note_change(fs: &Fs, inode: &Arc<Inode>, size: Option<u64>, times: Times) -> Result<()> {
    let now = times.now(fs);
    if now.is_none() && size.is_none_or(|size| size <= inode.read().disk.size) {
        return Ok(());
    }
    let handle = fs.start(credits::ATTRIBUTES)?;
    let mut state = handle.write(inode);
    state.disk.size = size.map_or(state.disk.size, |size| size.max(state.disk.size));
    if let Some(now) = now {
        touch(&mut state, now);
    }
    Ok(())
}

/// Blocks that overlap a byte range.
fn outer_blocks(fs: &Fs, bytes: &Range<u64>) -> Range<u64> {
    bytes.start >> fs.geometry.block_bits..io::blocks_for(fs, bytes.end)
}

/// Blocks entirely inside a byte range.
fn inner_blocks(fs: &Fs, bytes: &Range<u64>) -> Range<u64> {
    io::blocks_for(fs, bytes.start)..bytes.end >> fs.geometry.block_bits
}

/// Allocates unwritten blocks for the holes of the range, and updates size and times.
fn allocate(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    bytes: Range<u64>,
    growth: Growth,
) -> Result<()> {
    let old = inode.read().disk.size;
    if growth.size == Size::Grows && bytes.end > old {
        io::zero_tail(fs, inode, buffer, old)?;
    }
    let blocks = outer_blocks(fs, &bytes);
    let grown = (growth.size == Size::Grows).then_some(bytes.end);
    let mut at = blocks.start;
    let mut noted_to = blocks.start;
    while at < blocks.end {
        let logical = LogicalBlock(at as u32);
        at += match look(fs, inode, at..blocks.end)? {
            Mapping::Mapped { len_blocks, .. } => u64::from(len_blocks),
            Mapping::Hole { len_blocks } => {
                let blocks = NewBlocks::reserve(
                    fs,
                    inode,
                    logical,
                    len_blocks,
                    Shape::AsAsked,
                    growth.reserve,
                )?;
                let len = fill_hole(fs, inode, logical, blocks, grown, growth.times)?;
                noted_to = at + len;
                len
            }
        };
    }
    if noted_to < blocks.end {
        note_change(fs, inode, grown, growth.times)?;
    }
    Ok(())
}

/// Maps unwritten blocks at the front of a hole; answers how many. Updates the times, and the size
/// up to `grown`, in the same transaction.
fn fill_hole(
    fs: &Fs,
    inode: &Arc<Inode>,
    at: LogicalBlock,
    blocks: NewBlocks<'_>,
    grown: Option<u64>,
    times: Times,
) -> Result<u64> {
    let len = u64::from(blocks.run().len_blocks);
    let reached = (u64::from(at.0) + len) << fs.geometry.block_bits;
    let now = times.now(fs);
    let handle = fs.start(credits::MAP)?;
    blocks.map(&handle, inode, ExtentState::Unwritten, |state| {
        if let Some(grown) = grown {
            state.disk.size = state.disk.size.max(reached.min(grown));
        }
        if let Some(now) = now {
            touch(state, now);
        }
    })?;
    Ok(len)
}

/// Zeroes on disk the parts of the range that are not whole blocks.
fn zero_edges(fs: &Fs, inode: &Inode, buffer: &mut Buffer, bytes: &Range<u64>) -> Result<()> {
    let inner = inner_blocks(fs, bytes);
    let bits = fs.geometry.block_bits;
    if inner.start > inner.end {
        // The range is inside one block.
        return io::zero_within(fs, inode, buffer, bytes.start, bytes.end);
    }
    io::zero_within(fs, inode, buffer, bytes.start, inner.start << bits)?;
    io::zero_within(fs, inode, buffer, inner.end << bits, bytes.end)
}

fn punch(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    bytes: Range<u64>,
    times: Times,
) -> Result<()> {
    let size = inode.read().disk.size;
    fs.discard_preallocation(inode);
    // Preallocated space behind the end stays, as in the kernel.
    let block_size = fs.block_size() as u64;
    let end = bytes.end.min(size.next_multiple_of(block_size));
    let bytes = bytes.start.min(end)..end;
    zero_edges(fs, inode, buffer, &bytes)?;
    let mut blocks = inner_blocks(fs, &bytes);
    if blocks.is_empty() {
        return Ok(());
    }
    let mut handle = fs.start(credits::TRUNCATE)?;
    loop {
        let progress = {
            let mut state = handle.write(inode);
            let progress = map::remove(fs, &handle, &mut state, blocks.clone())?;
            if let Some(now) = times.now(fs) {
                touch(&mut state, now);
            }
            progress
        };
        match progress {
            Progress::Done => return Ok(()),
            Progress::More { end } => blocks.end = end,
        }
        handle.restart(credits::TRUNCATE)?;
    }
}

fn zero(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    bytes: Range<u64>,
    growth: Growth,
) -> Result<()> {
    // Updates size and times before anything is zeroed.
    allocate(fs, inode, buffer, bytes.clone(), growth)?;
    zero_edges(fs, inode, buffer, &bytes)?;
    let blocks = inner_blocks(fs, &bytes);
    each_mapped(fs, inode, blocks, ExtentState::Written, unwrite)
}

fn write_zeroes(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    bytes: Range<u64>,
    growth: Growth,
) -> Result<()> {
    zero(fs, inode, buffer, bytes.clone(), growth)?;
    let blocks = outer_blocks(fs, &bytes);
    each_mapped(fs, inode, blocks, ExtentState::Unwritten, write_zeroes_to)
}

/// Runs `work` on each mapped run of these blocks in the state `wanted`.
fn each_mapped(
    fs: &Fs,
    inode: &Arc<Inode>,
    blocks: Range<u64>,
    wanted: ExtentState,
    work: fn(&Fs, &Arc<Inode>, LogicalBlock, BlockNr, u32) -> Result<()>,
) -> Result<()> {
    let mut at = blocks.start;
    while at < blocks.end {
        let logical = LogicalBlock(at as u32);
        let mapping = look(fs, inode, at..blocks.end)?;
        match mapping {
            Mapping::Mapped {
                start,
                len_blocks,
                state,
            } if state == wanted => work(fs, inode, logical, start, len_blocks)?,
            _ => {}
        }
        at += u64::from(mapping.len_blocks());
    }
    Ok(())
}

/// The mapping at the front of these blocks.
fn look(fs: &Fs, inode: &Inode, blocks: Range<u64>) -> Result<Mapping> {
    let max_blocks = (blocks.end - blocks.start).min(u64::from(u32::MAX)) as u32;
    let logical = LogicalBlock(blocks.start as u32);
    map::lookup(fs, &inode.read(), logical, max_blocks)
}

/// Zeroes unwritten blocks on disk, and marks them written.
fn write_zeroes_to(
    fs: &Fs,
    inode: &Arc<Inode>,
    at: LogicalBlock,
    start: BlockNr,
    len_blocks: u32,
) -> Result<()> {
    fs.begin_unflushed(inode);
    io::zero_blocks(fs, start, len_blocks.into())?;
    let handle = fs.start(credits::MAP)?;
    let mut state = handle.write(inode);
    map::mark_written(fs, &handle, &mut state, at, len_blocks)
}

/// Makes written blocks read as zeroes: marks them unwritten, or zeroes them when the map cannot
/// grow.
fn unwrite(
    fs: &Fs,
    inode: &Arc<Inode>,
    at: LogicalBlock,
    start: BlockNr,
    len_blocks: u32,
) -> Result<()> {
    let marked = {
        let handle = fs.start(credits::MAP)?;
        let mut state = handle.write(inode);
        map::mark_unwritten(fs, &handle, &mut state, at, len_blocks)
    };
    match marked {
        Err(Error::NoSpace) => {
            fs.begin_unflushed(inode);
            io::zero_blocks(fs, start, u64::from(len_blocks))
        }
        other => other,
    }
}
