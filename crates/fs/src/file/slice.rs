//! One step of a write: the part with one kind of mapping from its first block on.
//!
//! Invariant: blocks become written in the transaction in which the size on disk reaches them, so
//! no commit contains written extents behind that size. Delayed data in front would keep that size
//! back, so they are written out first.

use super::allocate::{NewBlocks, Shape};
use super::delay::{self, Fresh};
use super::io;
use super::write::{Part, note_write};
use super::write_out::write_out_locked;
use crate::delayed::Buffer;
use crate::inode::{Inode, InodeState};
use crate::map::{self, ExtentState, Mapped, Mapping};
use crate::space::Reserve;
use crate::{Error, Fs, Result, credits};
use uext4_format::{BlockNr, LogicalBlock, Timestamp};
use uext4_journal::Object;
use uext4_sync::Arc;

pub(super) struct Slice<'a> {
    pub(super) fs: &'a Fs,
    pub(super) inode: &'a Arc<Inode>,
    pub(super) buffer: &'a mut Buffer,
    pub(super) part: Part<'a>,
    /// The block of the file that contains the first byte.
    pub(super) block: LogicalBlock,
    /// Byte offset of the data in it.
    pub(super) within: u64,
    pub(super) now: Option<Timestamp>,
}

impl<'a> Slice<'a> {
    /// The data for the first `len_blocks` blocks.
    fn front(&self, len_blocks: u32) -> &'a [u8] {
        let room = (u64::from(len_blocks) << self.fs.geometry.block_bits) - self.within;
        let data = self.part.data;
        &data[..room.min(data.len() as u64) as usize]
    }

    fn end(&self, written: usize) -> u64 {
        self.part.at + written as u64
    }

    /// Buffers the data; when the space cannot be reserved, allocates their blocks at once.
    pub(super) fn keep(&mut self, len_blocks: u32, reserve: Reserve) -> Result<usize> {
        let fresh = Fresh {
            fs: self.fs,
            inode: self.inode,
            block: self.block.0.into(),
            within: self.within as usize,
            data: self.front(len_blocks),
        };
        let blocks = io::blocks_for(self.fs, self.within + fresh.data.len() as u64) as u32;
        match fresh.keep(self.buffer, reserve) {
            Ok(()) => Ok(fresh.data.len()),
            Err(Error::NoSpace) => self.fill_hole(len_blocks, reserve),
            // The quota may suffice for a part.
            Err(Error::Quota) if blocks > 1 => self.keep(blocks / 2, reserve),
            Err(error) => Err(error),
        }
    }

    pub(super) fn overwrite(&self, start: BlockNr, len_blocks: u32) -> Result<usize> {
        let data = self.front(len_blocks);
        self.fs
            .device
            .write_at(io::byte_of(self.fs, start) + self.within, data)?;
        Ok(data.len())
    }

    /// Writes out the delayed data, which may be of this write.
    fn write_out_before(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let reached = self.part.reached;
        delay::show_size(&mut self.inode.live().write_unlogged(), reached);
        write_out_locked(self.fs, self.inode, self.buffer)
    }

    /// Writes out delayed data first, so that blocks follow each other as the data do.
    pub(super) fn fill_hole(&mut self, len_blocks: u32, reserve: Reserve) -> Result<usize> {
        let fs = self.fs;
        self.write_out_before()?;
        let blocks =
            NewBlocks::reserve(fs, self.inode, self.block, len_blocks, Shape::Data, reserve)?;
        let data = self.front(blocks.run().len_blocks);
        fs.begin_unflushed(self.inode);
        io::write_padded(fs, blocks.run().start, self.within, data)?;
        let (now, end) = (self.now, self.end(data.len()));
        let handle = fs.start(credits::MAP)?;
        blocks.map(&handle, self.inode, ExtentState::Written, |state| {
            note_write(fs, state, self.buffer, end, now)
        })?;
        Ok(data.len())
    }

    pub(super) fn fill_unwritten(&mut self, start: BlockNr, len_blocks: u32) -> Result<usize> {
        let data = self.front(len_blocks);
        if self.is_held_back(self.end(data.len())) {
            self.write_out_before()?;
        }
        io::write_padded(self.fs, start, self.within, data)?;
        match self.mark_written(data.len()) {
            Err(Error::NoSpace) => self.mark_without_room(data.len()),
            other => other,
        }
    }

    /// Whether delayed data in front keep the size on disk below `end`.
    fn is_held_back(&self, end: u64) -> bool {
        if self.buffer.is_empty() {
            return false;
        }
        let state = self.inode.read();
        let size = end.max(state.disk.size);
        let reach = delay::disksize(self.fs, &state, self.buffer, size);
        reach.is_some_and(|reach| reach < end)
    }

    /// Marks the blocks of the first `len_bytes` bytes written, and updates the size; answers how
    /// many bytes were covered.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there were none, because no tree block was free.
    fn mark_written(&self, len_bytes: usize) -> Result<usize> {
        let fs = self.fs;
        let blocks = io::blocks_for(fs, self.within + len_bytes as u64) as u32;
        let handle = fs.start(credits::MAP)?;
        let mut state = handle.write(self.inode);
        let done = match map::mark_written(fs, &handle, &mut state, self.block, blocks) {
            Ok(()) => len_bytes,
            Err(Error::NoSpace) => self.written_bytes(&state, blocks)?.min(len_bytes),
            Err(error) => return Err(error),
        };
        if done == 0 {
            return Err(Error::NoSpace);
        }
        note_write(fs, &mut state, self.buffer, self.end(done), self.now);
        Ok(done)
    }

    /// Bytes in written blocks, counted from the first of `blocks` on.
    fn written_bytes(&self, state: &InodeState, blocks: u32) -> Result<usize> {
        let fs = self.fs;
        Ok(match map::lookup(fs, state, self.block, blocks)? {
            Mapping::Mapped {
                len_blocks,
                state: ExtentState::Written,
                ..
            } => ((u64::from(len_blocks) << fs.geometry.block_bits) - self.within) as usize,
            _ => 0,
        })
    }

    /// Handles an extent that cannot be split because no tree block is free. If it ends before the
    /// new end of the file, all of it becomes written, zeroed around the data: writes to
    /// preallocated space always succeed. Otherwise the part behind the end must stay unwritten; it
    /// is freed cluster by cluster until a split succeeds.
    fn mark_without_room(&self, len_bytes: usize) -> Result<usize> {
        let fs = self.fs;
        loop {
            let state = self.inode.read();
            let size = self.end(len_bytes).max(state.disk.size);
            let found = map::extent_around(fs, &state, self.block)?;
            drop(state);
            let Some(extent) = found.filter(|extent| extent.state == ExtentState::Unwritten) else {
                return Err(Error::NoSpace);
            };
            let end = u64::from(extent.logical.0) + u64::from(extent.len_blocks);
            let size_blocks = io::blocks_for(fs, size);
            if end <= size_blocks {
                return self.zero_out_around(extent, len_bytes);
            }
            let ratio = u64::from(fs.geometry.blocks_per_cluster());
            let last_cluster = (end - 1) / ratio * ratio;
            let handle = fs.start(credits::TRUNCATE)?;
            let given_up = last_cluster.max(size_blocks)..end;
            map::remove(fs, &handle, &mut handle.write(self.inode), given_up)?;
            drop(handle);
            // Freed clusters are usable after the commit.
            fs.journal.commit_running()?;
            match self.mark_written(len_bytes) {
                Err(Error::NoSpace) => continue,
                other => return other,
            }
        }
    }

    /// Zeroes the extent's other blocks on disk, and marks all of it written.
    fn zero_out_around(&self, extent: Mapped, len_bytes: usize) -> Result<usize> {
        let fs = self.fs;
        let before = u64::from(self.block.0 - extent.logical.0);
        let behind = before + io::blocks_for(fs, self.within + len_bytes as u64);
        io::zero_blocks(fs, extent.start, before)?;
        let rest = u64::from(extent.len_blocks).saturating_sub(behind);
        io::zero_blocks(fs, BlockNr(extent.start.0 + behind), rest)?;
        let room = (u64::from(extent.len_blocks) - before) << fs.geometry.block_bits;
        let done = len_bytes.min((room - self.within) as usize);
        let handle = fs.start(credits::MAP)?;
        let mut state = handle.write(self.inode);
        map::mark_written_around(fs, &handle, &mut state, self.block)?;
        note_write(fs, &mut state, self.buffer, self.end(done), self.now);
        Ok(done)
    }
}
