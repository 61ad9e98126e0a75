//! `SEEK_DATA` and `SEEK_HOLE`. Unwritten blocks are holes.

use super::{inline, io};
use crate::parts::map::{self, ExtentState, Mapping};
use crate::state::delayed::Buffer;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::{Error, Result};
use uext4_format::LogicalBlock;
use uext4_num::clamp_u32;

/// What `lseek` searches for: `SEEK_DATA` or `SEEK_HOLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that holds data.
    Data,
    /// The next byte in a hole; the end of the file counts as a hole.
    Hole,
}

/// The first byte of that kind at or after `offset`.
///
/// # Errors
/// [`Error::NoOffset`] when `offset` is at the end or behind it, or no data follow.
pub(crate) fn seek(fs: &Fs, inode: &Inode, offset: u64, what: Seek) -> Result<u64> {
    let buffer = inode.io.read();
    let size = inode.read().disk.size;
    if offset >= size {
        return Err(Error::NoOffset);
    }
    let found = if inline::is_inline(&inode.read()) {
        (what == Seek::Data).then_some(offset)
    } else {
        search(fs, inode, &buffer, offset, size, what)?
    };
    match (found, what) {
        (Some(found), _) if found < size => Ok(found),
        (_, Seek::Hole) => Ok(size),
        (_, Seek::Data) => Err(Error::NoOffset),
    }
}

fn search(
    fs: &Fs,
    inode: &Inode,
    buffer: &Buffer,
    offset: u64,
    size: u64,
    what: Seek,
) -> Result<Option<u64>> {
    let end = io::blocks_for(fs, size).min(map::LOGICAL_END);
    let mut at = offset;
    while at >> fs.base.geometry.block_bits < end {
        let (block, within) = io::split(fs, at);
        let max_blocks = clamp_u32(end - u64::from(block.0));
        let (data, len_blocks) = holds_data(fs, inode, buffer, block, max_blocks)?;
        if data == (what == Seek::Data) {
            return Ok(Some(at));
        }
        at += (u64::from(len_blocks) << fs.base.geometry.block_bits) - within;
    }
    Ok(None)
}

/// Whether the block holds data, mapped or buffered, and for how many blocks that holds.
fn holds_data(
    fs: &Fs,
    inode: &Inode,
    buffer: &Buffer,
    block: LogicalBlock,
    max_blocks: u32,
) -> Result<(bool, u32)> {
    let waiting = buffer.len_from(block.0.into());
    if waiting > 0 {
        return Ok((true, clamp_u32(waiting).min(max_blocks)));
    }
    let mapping = map::lookup(fs, &inode.read(), block, max_blocks)?;
    Ok(match mapping {
        Mapping::Hole { len_blocks } => (false, buffer.cut_hole(block.0.into(), len_blocks)),
        Mapping::Mapped {
            len_blocks, state, ..
        } => (state == ExtentState::Written, len_blocks),
    })
}
