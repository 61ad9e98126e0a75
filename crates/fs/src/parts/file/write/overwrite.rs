//! Data that change no map: in the inode, over delayed blocks, over written blocks.

use super::super::{inline, io};
use super::Write;
use crate::types::error::Result;
use uext4_format::BlockNr;
use uext4_num::{clamp_usize, u64_of};

impl Write<'_> {
    /// Stores all data in the inode, or gives the file a map.
    pub(super) fn write_inline(&mut self) -> Result<usize> {
        let (fs, inode, start, data) = (self.fs, self.inode, self.start, self.data);
        let end = start + u64_of(data.len());
        let stored = inline::write(fs, inode, start, data, |state| {
            self.store_size_and_times(state, end);
        })?;
        if stored == inline::Stored::Inline {
            return Ok(data.len());
        }
        inline::convert(fs, inode, self.policy.reserve)?;
        self.file.inline = false;
        Ok(0)
    }

    /// Zeroes the last block behind the end of the file.
    pub(super) fn zero_gap(&mut self) -> Result<usize> {
        io::zero_tail(self.fs, self.inode, self.buffer, self.file.sizes.seen)?;
        self.file.gap = false;
        Ok(0)
    }

    /// Overwrites consecutive delayed blocks.
    pub(super) fn overwrite_buffered(&mut self) -> usize {
        let (block, within) = self.block_and_offset();
        let (mut within, mut rest) = (clamp_usize(within), &self.data[self.done..]);
        let len_bytes = rest.len();
        for block in u64::from(block.0).. {
            let Some(bytes) = self.buffer.get_mut(block).filter(|_| !rest.is_empty()) else {
                break;
            };
            let (here, behind) = rest.split_at(rest.len().min(bytes.len() - within));
            bytes[within..within + here.len()].copy_from_slice(here);
            (within, rest) = (0, behind);
        }
        len_bytes - rest.len()
    }

    /// Overwrites written blocks in place.
    pub(super) fn overwrite(&mut self, start: BlockNr, len_blocks: u32) -> Result<usize> {
        let (fs, data) = (self.fs, self.front(len_blocks));
        let (_, within) = self.block_and_offset();
        fs.begin_unflushed(self.inode);
        fs.base
            .device
            .write_at(io::byte_of(fs, start) + within, data)?;
        Ok(data.len())
    }
}
