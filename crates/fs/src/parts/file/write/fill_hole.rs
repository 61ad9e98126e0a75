//! Data for a hole whose blocks are allocated at once.

use super::super::allocate::{NewBlocks, Shape};
use super::super::io;
use super::Write;
use crate::parts::map::ExtentState;
use crate::types::credits;
use crate::types::error::Result;
use uext4_num::u64_of;

impl Write<'_> {
    /// Writes out delayed data first, so that blocks follow each other as the data do.
    pub(super) fn fill_hole(&mut self, len_blocks: u32) -> Result<usize> {
        self.write_out_before()?;
        let (fs, inode, (block, within)) = (self.fs, self.inode, self.block_and_offset());
        let (shape, reserve) = (Shape::Data, self.policy.reserve);
        let blocks = NewBlocks::reserve(fs, inode, block, len_blocks, shape, reserve)?;
        let data = self.front(blocks.run().len_blocks);
        fs.begin_unflushed(inode);
        io::write_padded(fs, blocks.run().start, within, data)?;
        let end = self.at() + u64_of(data.len());
        let handle = fs.start_recorded(credits::MAP)?;
        blocks.map(&handle, inode, ExtentState::Written, |state| {
            self.store_size_and_times(state, end)
        })?;
        Ok(data.len())
    }
}
