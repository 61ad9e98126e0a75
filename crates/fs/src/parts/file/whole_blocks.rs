//! Length of a file in whole blocks, for logs: blocks of zeroes come and go at its end.
//!
//! Invariant: after each transaction the size is the end of the mapped blocks. So a crash on the
//! way leaves an ordinary file, without an orphan to track.

use super::allocate::{NewBlocks, Shape};
use super::io;
use crate::parts::map::{self, ExtentState, LOGICAL_END, Progress};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::space::Reserve;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::LogicalBlock;
use uext4_num::clamp_u32;
use uext4_sync::Arc;

/// Appends zeroed blocks until the file has `blocks`. They are on the device before the map refers
/// to them.
///
/// # Errors
/// [`Error::NoSpace`], after which the blocks appended so far stay.
pub(crate) fn append_zeroes(fs: &Fs, inode: &Arc<Inode>, blocks: u32) -> Result<()> {
    let _buffer = inode.io.write();
    fs.writable()?;
    let bits = fs.base.geometry.block_bits;
    if u64::from(blocks) << bits > map::size_end_bytes(fs, &inode.read()) {
        return Err(Error::TooLarge);
    }
    loop {
        let at = clamp_u32(io::blocks_for(fs, inode.read().disk.size));
        if at >= blocks {
            return Ok(());
        }
        let (first, len, shape) = (LogicalBlock(at), blocks - at, Shape::AsAsked);
        let new = NewBlocks::reserve(fs, inode, first, len, shape, Reserve::MayUse)?;
        let run = new.run();
        fs.begin_unflushed(inode);
        io::zero_blocks(fs, run.start, run.len_blocks.into())?;
        let handle = fs.start(credits::MAP)?;
        new.map(&handle, inode, ExtentState::Written, |state| {
            state.disk.size = u64::from(at + run.len_blocks) << bits;
        })?;
    }
}

/// Frees the blocks behind the first `blocks`, from the end on.
pub(crate) fn cut_to(fs: &Fs, inode: &Arc<Inode>, blocks: u32) -> Result<()> {
    let _buffer = inode.io.write();
    fs.writable()?;
    let mut handle = fs.start(credits::TRUNCATE)?;
    let mut end = LOGICAL_END;
    loop {
        let mut state = handle.write(inode);
        let progress = map::remove(fs, &handle, &mut state, u64::from(blocks)..end)?;
        let left = match progress {
            Progress::Done => blocks.into(),
            Progress::More { end } => end,
        };
        state.disk.size = state.disk.size.min(left << fs.base.geometry.block_bits);
        drop(state);
        if progress == Progress::Done {
            return Ok(());
        }
        end = left;
        handle.restart(credits::TRUNCATE)?;
    }
}
