//! Data for unwritten blocks, which become written.

use super::super::io;
use super::Write;
use crate::parts::map::{self, ExtentState, Mapped, Mapping};
use crate::state::inode::InodeState;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::BlockNr;
use uext4_num::{clamp_u32, u64_of};

impl Write<'_> {
    pub(super) fn fill_unwritten(&mut self, start: BlockNr, len_blocks: u32) -> Result<usize> {
        let data = self.front(len_blocks);
        let end = self.at() + u64_of(data.len());
        self.fs.begin_unflushed(self.inode);
        if self.sizes_at(end).on_disk < end {
            self.write_out_before()?;
        }
        io::write_padded(self.fs, start, self.block_and_offset().1, data)?;
        match self.mark_written(data.len()) {
            Err(Error::NoSpace) => self.mark_without_room(data.len()),
            other => other,
        }
    }

    /// Marks the blocks of the next `len_bytes` bytes written, and updates the size; returns how
    /// many bytes were covered.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there were none, because no tree block was free.
    fn mark_written(&mut self, len_bytes: usize) -> Result<usize> {
        let (fs, (block, within)) = (self.fs, self.block_and_offset());
        let blocks = clamp_u32(io::blocks_for(fs, within + u64_of(len_bytes)));
        let handle = fs.start_recorded(credits::MAP)?;
        let mut state = handle.write(self.inode);
        let done = match map::mark_written(fs, &handle, &mut state, block, blocks) {
            Ok(()) => len_bytes,
            Err(Error::NoSpace) => self.written_bytes(&state, blocks)?.min(len_bytes),
            Err(error) => return Err(error),
        };
        if done == 0 {
            return Err(Error::NoSpace);
        }
        self.store_size_and_times(&mut state, self.at() + u64_of(done));
        Ok(done)
    }

    /// Bytes in written blocks, counted from the next one, among the next `blocks` blocks.
    fn written_bytes(&self, state: &InodeState, blocks: u32) -> Result<usize> {
        let (block, _) = self.block_and_offset();
        Ok(match map::lookup(self.fs, state, block, blocks)? {
            Mapping::Mapped {
                len_blocks,
                state: ExtentState::Written,
                ..
            } => self.front(len_blocks).len(),
            _ => 0,
        })
    }

    /// Handles an extent that cannot be split because no tree block is free. If it ends before the
    /// new end of the file, all of it becomes written, zeroed around the data: writes to
    /// preallocated space always succeed. Otherwise the part behind the end must stay unwritten; it
    /// is freed cluster by cluster until a split succeeds.
    fn mark_without_room(&mut self, len_bytes: usize) -> Result<usize> {
        let fs = self.fs;
        let end = self.at() + u64_of(len_bytes);
        let size_blocks = io::blocks_for(fs, end.max(self.file.sizes.seen));
        loop {
            let found = map::extent_around(fs, &self.inode.read(), self.block_and_offset().0)?;
            let Some(extent) = found.filter(|extent| extent.state == ExtentState::Unwritten) else {
                return Err(Error::NoSpace);
            };
            let end = u64::from(extent.logical.0) + u64::from(extent.len_blocks);
            if end <= size_blocks {
                return self.zero_out_around(extent, len_bytes);
            }
            let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
            let last_cluster = (end - 1) / ratio * ratio;
            let handle = fs.start_recorded(credits::TRUNCATE)?;
            let given_up = last_cluster.max(size_blocks)..end;
            map::remove(fs, &handle, &mut handle.write(self.inode), given_up)?;
            drop(handle);
            // Freed clusters are usable after the commit.
            fs.base.journal.commit_running()?;
            match self.mark_written(len_bytes) {
                Err(Error::NoSpace) => continue,
                other => return other,
            }
        }
    }

    /// Zeroes the extent's other blocks on disk, and marks all of it written.
    fn zero_out_around(&mut self, extent: Mapped, len_bytes: usize) -> Result<usize> {
        let (fs, (block, within)) = (self.fs, self.block_and_offset());
        let before = block.0 - extent.logical.0;
        let behind = u64::from(before) + io::blocks_for(fs, within + u64_of(len_bytes));
        io::zero_blocks(fs, extent.start, before.into())?;
        let rest = u64::from(extent.len_blocks).saturating_sub(behind);
        io::zero_blocks(fs, BlockNr(extent.start.0 + behind), rest)?;
        let done = len_bytes.min(self.front(extent.len_blocks - before).len());
        let handle = fs.start_recorded(credits::MAP)?;
        let mut state = handle.write(self.inode);
        map::mark_written_around(fs, &handle, &mut state, block)?;
        self.store_size_and_times(&mut state, self.at() + u64_of(done));
        Ok(done)
    }
}
