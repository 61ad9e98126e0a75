//! Writing.

use super::allocate::{NewBlocks, Shape};
use super::{check_may_change, inline, io, stale_times, touch};
use crate::inode::{Inode, InodeState};
use crate::map::{self, ExtentState, Mapping};
use crate::space::Reserve;
use crate::{Error, Fs, Result, credits};
use std::sync::Arc;
use uext4_format::{BlockNr, LogicalBlock, Timestamp};

/// Writes `data` from byte `offset` on; answers how many bytes were written: less than all when
/// space or the largest size was reached, never zero unless `data` is empty.
pub(crate) fn write(
    fs: &Fs,
    inode: &Arc<Inode>,
    offset: u64,
    data: &[u8],
    reserve: Reserve,
) -> Result<usize> {
    let _exclusive = inode.io.write();
    write_locked(fs, inode, offset, data, reserve)
}

/// Writes `data` at the end; answers where that was and how many bytes.
pub(crate) fn append(
    fs: &Fs,
    inode: &Arc<Inode>,
    data: &[u8],
    reserve: Reserve,
) -> Result<(u64, usize)> {
    let _exclusive = inode.io.write();
    let offset = inode.read().disk.size;
    let written = write_locked(fs, inode, offset, data, reserve)?;
    Ok((offset, written))
}

fn write_locked(
    fs: &Fs,
    inode: &Arc<Inode>,
    offset: u64,
    data: &[u8],
    reserve: Reserve,
) -> Result<usize> {
    fs.writable()?;
    if data.is_empty() {
        return Ok(0);
    }
    let (size, inline, size_end) = {
        let state = inode.read();
        check_may_change(&state)?;
        (
            state.disk.size,
            inline::is_inline(&state),
            map::size_end_bytes(fs, &state),
        )
    };
    let room = size_end
        .checked_sub(offset)
        .filter(|room| *room > 0)
        .ok_or(Error::TooLarge)?;
    let data = &data[..room.min(data.len() as u64) as usize];
    if inline {
        if inline::write(fs, inode, offset, data)? == inline::Stored::Inline {
            return Ok(data.len());
        }
        inline::convert(fs, inode, reserve)?;
    }
    if offset > size {
        io::zero_tail(fs, inode, size)?;
    }
    write_slices(fs, inode, offset, data, reserve)
}

fn write_slices(
    fs: &Fs,
    inode: &Arc<Inode>,
    offset: u64,
    data: &[u8],
    reserve: Reserve,
) -> Result<usize> {
    let mut done = 0;
    let mut stopped = None;
    while done < data.len() {
        match write_slice(fs, inode, offset + done as u64, &data[done..], reserve) {
            Ok(written) => done += written,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    if done > 0 {
        settle(fs, inode, offset + done as u64)?;
    }
    match stopped {
        Some(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

/// Size and times, as far as the slices have not noted them.
fn settle(fs: &Fs, inode: &Arc<Inode>, end: u64) -> Result<()> {
    let now = fs.now();
    let (grows, stale) = {
        let state = inode.read();
        (end > state.disk.size, stale_times(&state, now))
    };
    if grows {
        let handle = fs.start(credits::ATTRIBUTES)?;
        note_write(&mut handle.write(inode), end, now);
    } else if stale {
        fs.change_times(inode, now, |state| touch(state, now))?;
    }
    Ok(())
}

fn note_write(state: &mut InodeState, end: u64, now: Timestamp) {
    state.disk.size = state.disk.size.max(end);
    touch(state, now);
}

/// Writes the front of `data`, as far as one mapping reaches; answers how many bytes.
fn write_slice(
    fs: &Fs,
    inode: &Arc<Inode>,
    at: u64,
    data: &[u8],
    reserve: Reserve,
) -> Result<usize> {
    let (block, within) = io::split(fs, at);
    let blocks = io::blocks_for(fs, within + data.len() as u64).min(u64::from(u32::MAX)) as u32;
    let mapping = map::lookup(fs, &inode.read(), block, blocks)?;
    let slice = Slice {
        fs,
        inode,
        at,
        block,
        within,
        data,
    };
    match mapping {
        Mapping::Mapped {
            start,
            len_blocks,
            state: ExtentState::Written,
        } => slice.overwrite(start, len_blocks),
        Mapping::Mapped {
            start,
            len_blocks,
            state: ExtentState::Unwritten,
        } => slice.fill_unwritten(start, len_blocks),
        Mapping::Hole { len_blocks } => slice.fill_hole(len_blocks, reserve),
    }
}

/// A write whose first block has one kind of mapping.
struct Slice<'a> {
    fs: &'a Fs,
    inode: &'a Arc<Inode>,
    at: u64,
    block: LogicalBlock,
    within: u64,
    data: &'a [u8],
}

impl Slice<'_> {
    /// The data that go to the first `len_blocks` blocks.
    fn front(&self, len_blocks: u32) -> &[u8] {
        let room = (u64::from(len_blocks) << self.fs.geometry.block_bits) - self.within;
        &self.data[..room.min(self.data.len() as u64) as usize]
    }

    fn end(&self, written: usize) -> u64 {
        self.at + written as u64
    }

    fn overwrite(&self, start: BlockNr, len_blocks: u32) -> Result<usize> {
        let data = self.front(len_blocks);
        self.fs
            .device
            .write_at(io::byte_of(self.fs, start) + self.within, data)?;
        Ok(data.len())
    }

    fn fill_hole(&self, len_blocks: u32, reserve: Reserve) -> Result<usize> {
        let fs = self.fs;
        let blocks =
            NewBlocks::reserve(fs, self.inode, self.block, len_blocks, Shape::Data, reserve)?;
        let data = self.front(blocks.run().len_blocks);
        io::write_padded(fs, blocks.run().start, self.within, data)?;
        let (now, end) = (fs.now(), self.end(data.len()));
        let handle = fs.start(credits::MAP)?;
        blocks.map(&handle, self.inode, ExtentState::Written, |state| {
            note_write(state, end, now)
        })?;
        Ok(data.len())
    }

    fn fill_unwritten(&self, start: BlockNr, len_blocks: u32) -> Result<usize> {
        let fs = self.fs;
        let data = self.front(len_blocks);
        io::write_padded(fs, start, self.within, data)?;
        let blocks = io::blocks_for(fs, self.within + data.len() as u64) as u32;
        let now = fs.now();
        let end = self.end(data.len());
        let marked = {
            let handle = fs.start(credits::MAP)?;
            let mut state = handle.write(self.inode);
            let marked = map::mark_written(fs, &handle, &mut state, self.block, blocks);
            if marked.is_ok() {
                note_write(&mut state, end, now);
            }
            marked
        };
        match marked {
            Err(Error::NoSpace) => self.zero_out_around(blocks)?,
            other => other?,
        }
        Ok(data.len())
    }

    /// No tree block is left to split the extent: its other blocks are zeroed on disk, and all of
    /// it becomes written. Space that was allocated before can always be written to.
    fn zero_out_around(&self, data_blocks: u32) -> Result<()> {
        let fs = self.fs;
        let found = map::extent_around(fs, &self.inode.read(), self.block)?;
        let Some(extent) = found.filter(|extent| extent.state == ExtentState::Unwritten) else {
            return Err(Error::NoSpace);
        };
        let before = u64::from(self.block.0 - extent.logical.0);
        let behind = before + u64::from(data_blocks);
        io::zero_blocks(fs, extent.start, before)?;
        let rest = u64::from(extent.len_blocks).saturating_sub(behind);
        io::zero_blocks(fs, BlockNr(extent.start.0 + behind), rest)?;
        let handle = fs.start(credits::MAP)?;
        let mut state = handle.write(self.inode);
        map::mark_written_around(fs, &handle, &mut state, self.block)
    }
}
