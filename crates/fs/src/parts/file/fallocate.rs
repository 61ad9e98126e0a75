//! `fallocate`: preallocation, holes, zeroed ranges.

use super::allocate::{NewBlocks, Shape};
use super::times::touch;
use super::write_out::write_out_locked;
use super::write_policy::{WritePolicy, check_may_change};
use super::{delay, inline, io, shift, size};
use crate::parts::map::{self, ExtentState, Mapping, Progress};
use crate::state::delayed::Buffer;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::ops::Range;
use uext4_format::{BlockNr, LogicalBlock, Timestamp};
use uext4_num::clamp_u32;
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

impl FallocateMode {
    /// Whether the file grows to hold the range.
    fn grows(self) -> bool {
        matches!(self, Self::Allocate | Self::ZeroRange | Self::WriteZeroes)
    }
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
    bytes: Range<u64>,
    policy: WritePolicy,
) -> Result<()> {
    let mut buffer = inode.io.write();
    fs.writable()?;
    if bytes.is_empty() {
        return Err(Error::Invalid("an empty range"));
    }
    let bytes = bytes.start..check_end(fs, inode, mode, bytes.end)?;
    size::allow(fs, bytes.end)?;
    if inline::is_inline(&inode.read()) {
        inline::convert(fs, inode, policy.reserve)?;
    }
    let change = Change {
        fs,
        inode,
        grown: mode.grows().then_some(bytes.end),
        policy,
        now: policy.times.now(fs),
    };
    if mode == FallocateMode::PunchHole {
        delay::discard(fs, inode, &mut buffer, change.inner_blocks(&bytes));
    }
    write_out_locked(fs, inode, &mut buffer)?;
    match mode {
        FallocateMode::PunchHole => change.punch(&mut buffer, &bytes)?,
        // These update the times in the transaction that maps blocks: the common case needs one
        // handle.
        FallocateMode::Allocate | FallocateMode::AllocateKeepSize => {
            return change.allocate(&mut buffer, &bytes);
        }
        FallocateMode::ZeroRange | FallocateMode::ZeroRangeKeepSize => {
            change.zero(&mut buffer, &bytes)?
        }
        FallocateMode::WriteZeroes => {
            change.zero(&mut buffer, &bytes)?;
            let blocks = change.outer_blocks(&bytes);
            change.each_mapped(blocks, ExtentState::Unwritten, Change::write_zeroes)?
        }
        FallocateMode::CollapseRange => shift::collapse(fs, inode, bytes)?,
        FallocateMode::InsertRange => shift::insert(fs, inode, bytes)?,
    }
    change.update_size_and_times(None)
}

/// The end of the range, if the file may grow to it.
fn check_end(fs: &Fs, inode: &Inode, mode: FallocateMode, end: u64) -> Result<u64> {
    let state = inode.read();
    check_may_change(&state)?;
    let punches = mode == FallocateMode::PunchHole;
    let extents = map::has_extents(&state)
        || (inline::is_inline(&state) && fs.base.features.has(uext4_format::Feature::EXTENTS));
    if !extents && !punches {
        return Err(Error::NotSupported(
            "space without data in a file without extents",
        ));
    }
    // A hole may also reach blocks behind the largest size: the limit was higher before a feature
    // was removed.
    let end_max = if punches {
        map::LOGICAL_END << fs.base.geometry.block_bits
    } else {
        map::size_end_bytes(fs, &state)
    };
    if end <= end_max || punches {
        Ok(end.min(end_max))
    } else {
        Err(Error::TooLarge)
    }
}

/// A change of a file whose data are locked.
struct Change<'a> {
    fs: &'a Fs,
    inode: &'a Arc<Inode>,
    /// The size up to which the file grows.
    grown: Option<u64>,
    policy: WritePolicy,
    /// The new mtime and ctime; `None` if the caller sets them itself.
    now: Option<Timestamp>,
}

impl Change<'_> {
    /// Updates times, and a size that grew, in the transaction that logs `state`.
    fn store_size_and_times(&self, state: &mut InodeState, size: Option<u64>) {
        state.disk.size = state.disk.size.max(size.unwrap_or(0));
        if let Some(now) = self.now {
            touch(state, now);
        }
    }

    fn update_size_and_times(&self, size: Option<u64>) -> Result<()> {
        if self.now.is_some() || size > Some(self.inode.read().disk.size) {
            let handle = self.fs.start_recorded(credits::ATTRIBUTES)?;
            self.store_size_and_times(&mut handle.write(self.inode), size);
        }
        Ok(())
    }

    /// Blocks that overlap a byte range.
    fn outer_blocks(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start >> self.fs.base.geometry.block_bits..io::blocks_for(self.fs, bytes.end)
    }

    /// Blocks entirely inside a byte range.
    fn inner_blocks(&self, bytes: &Range<u64>) -> Range<u64> {
        io::blocks_for(self.fs, bytes.start)..bytes.end >> self.fs.base.geometry.block_bits
    }

    /// Allocates unwritten blocks for the holes of the range, and updates size and times.
    fn allocate(&self, buffer: &mut Buffer, bytes: &Range<u64>) -> Result<()> {
        let old = self.inode.read().disk.size;
        if self.grown > Some(old) {
            io::zero_tail(self.fs, self.inode, buffer, old)?;
        }
        let blocks = self.outer_blocks(bytes);
        let (mut at, mut updated_to) = (blocks.start, blocks.start);
        while at < blocks.end {
            match self.mapping_of(at..blocks.end)? {
                Mapping::Mapped { len_blocks, .. } => at += u64::from(len_blocks),
                Mapping::Hole { len_blocks } => {
                    at += self.fill_hole(LogicalBlock(clamp_u32(at)), len_blocks)?;
                    updated_to = at;
                }
            }
        }
        if updated_to < blocks.end {
            self.update_size_and_times(self.grown)
        } else {
            Ok(())
        }
    }

    /// Maps unwritten blocks at the front of a hole; returns how many. Updates size and times in
    /// the same transaction.
    fn fill_hole(&self, at: LogicalBlock, len_blocks: u32) -> Result<u64> {
        let (fs, shape, reserve) = (self.fs, Shape::AsAsked, self.policy.reserve);
        let blocks = NewBlocks::reserve(fs, self.inode, at, len_blocks, shape, reserve)?;
        let len = u64::from(blocks.run().len_blocks);
        let reached = (u64::from(at.0) + len) << fs.base.geometry.block_bits;
        let size = self.grown.map(|grown| grown.min(reached));
        let handle = fs.start_recorded(credits::MAP)?;
        blocks.map(&handle, self.inode, ExtentState::Unwritten, |state| {
            self.store_size_and_times(state, size)
        })?;
        Ok(len)
    }

    /// Zeroes on disk the parts of the range that are not whole blocks.
    fn zero_edges(&self, buffer: &mut Buffer, bytes: &Range<u64>) -> Result<()> {
        let (fs, inode, inner) = (self.fs, self.inode, self.inner_blocks(bytes));
        let bits = fs.base.geometry.block_bits;
        if inner.start > inner.end {
            // The range is inside one block.
            return io::zero_within(fs, inode, buffer, bytes.start, bytes.end);
        }
        io::zero_within(fs, inode, buffer, bytes.start, inner.start << bits)?;
        io::zero_within(fs, inode, buffer, inner.end << bits, bytes.end)
    }

    fn punch(&self, buffer: &mut Buffer, bytes: &Range<u64>) -> Result<()> {
        let (fs, inode) = (self.fs, self.inode);
        let size = inode.read().disk.size;
        fs.discard_preallocation(inode);
        // Preallocated space behind the end stays, as in the kernel.
        let end = bytes.end.min(size.next_multiple_of(fs.block_bytes()));
        let bytes = bytes.start.min(end)..end;
        self.zero_edges(buffer, &bytes)?;
        let mut blocks = self.inner_blocks(&bytes);
        if blocks.is_empty() {
            return Ok(());
        }
        let mut handle = fs.start_recorded(credits::TRUNCATE)?;
        loop {
            let progress = {
                let mut state = handle.write(inode);
                let progress = map::remove(fs, &handle, &mut state, blocks.clone())?;
                self.store_size_and_times(&mut state, None);
                progress
            };
            match progress {
                Progress::Done => return Ok(()),
                Progress::More { end } => blocks.end = end,
            }
            handle.restart(credits::TRUNCATE)?;
        }
    }

    fn zero(&self, buffer: &mut Buffer, bytes: &Range<u64>) -> Result<()> {
        // Updates size and times before anything is zeroed.
        self.allocate(buffer, bytes)?;
        self.zero_edges(buffer, bytes)?;
        self.each_mapped(
            self.inner_blocks(bytes),
            ExtentState::Written,
            Self::unwrite,
        )
    }

    /// Runs `work` on each mapped run of these blocks in the state `wanted`.
    fn each_mapped(
        &self,
        blocks: Range<u64>,
        wanted: ExtentState,
        work: fn(&Self, LogicalBlock, BlockNr, u32) -> Result<()>,
    ) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            let mapping = self.mapping_of(at..blocks.end)?;
            match mapping {
                Mapping::Mapped {
                    start,
                    len_blocks,
                    state,
                } if state == wanted => work(self, LogicalBlock(clamp_u32(at)), start, len_blocks)?,
                _ => {}
            }
            at += u64::from(mapping.len_blocks());
        }
        Ok(())
    }

    /// The mapping at the front of these blocks.
    fn mapping_of(&self, blocks: Range<u64>) -> Result<Mapping> {
        let max_blocks = clamp_u32(blocks.end - blocks.start);
        let logical = LogicalBlock(clamp_u32(blocks.start));
        map::lookup(self.fs, &self.inode.read(), logical, max_blocks)
    }

    /// Zeroes unwritten blocks on disk, and marks them written.
    fn write_zeroes(&self, at: LogicalBlock, start: BlockNr, len_blocks: u32) -> Result<()> {
        let fs = self.fs;
        fs.begin_unflushed(self.inode);
        io::zero_blocks(fs, start, len_blocks.into())?;
        let handle = fs.start_recorded(credits::MAP)?;
        map::mark_written(fs, &handle, &mut handle.write(self.inode), at, len_blocks)
    }

    /// Makes written blocks read as zeroes: marks them unwritten, or zeroes them when the map
    /// cannot grow.
    fn unwrite(&self, at: LogicalBlock, start: BlockNr, len_blocks: u32) -> Result<()> {
        let fs = self.fs;
        let marked = {
            let handle = fs.start_recorded(credits::MAP)?;
            map::mark_unwritten(fs, &handle, &mut handle.write(self.inode), at, len_blocks)
        };
        match marked {
            Err(Error::NoSpace) => {
                fs.begin_unflushed(self.inode);
                io::zero_blocks(fs, start, u64::from(len_blocks))
            }
            other => other,
        }
    }
}
