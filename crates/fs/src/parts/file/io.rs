//! Byte-granular I/O on blocks of the device.

use crate::parts::map::{self, ExtentState, Mapping};
use crate::state::delayed::Buffer;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::Result;
use uext4_format::{BlockNr, LogicalBlock};
use uext4_num::{clamp_u32, clamp_usize, u64_of};

/// Zeroes, up to the size of the largest block.
fn zeroes(len_bytes: u64) -> &'static [u8] {
    static ZEROES: [u8; 65536] = [0; 65536];
    &ZEROES[..clamp_usize(len_bytes)]
}

/// Byte offset of a block on the device.
pub(super) fn byte_of(fs: &Fs, block: BlockNr) -> u64 {
    block.0 << fs.base.geometry.block_bits
}

/// The block of a file that contains a byte, and the offset in it. Bytes past the last block give
/// that block's successor, which is never mapped.
pub(super) fn split(fs: &Fs, byte: u64) -> (LogicalBlock, u64) {
    let block = LogicalBlock(clamp_u32(byte >> fs.base.geometry.block_bits));
    (block, byte & (fs.block_bytes() - 1))
}

/// Blocks that hold `bytes` bytes, rounded up.
pub(super) fn blocks_for(fs: &Fs, bytes: u64) -> u64 {
    bytes.div_ceil(fs.block_bytes())
}

/// Writes `data` from byte `within` of block `start` on, and zeroes the rest of these blocks.
pub(super) fn write_padded(fs: &Fs, start: BlockNr, within: u64, data: &[u8]) -> Result<()> {
    let end = within + u64_of(data.len());
    let tail = blocks_for(fs, end) * fs.block_bytes() - end;
    let bufs = [zeroes(within), data, zeroes(tail)];
    let used: Vec<&[u8]> = bufs.into_iter().filter(|buf| !buf.is_empty()).collect();
    Ok(fs
        .base
        .device
        .write_vectored_at(byte_of(fs, start), &used)?)
}

/// Zeroes bytes of one block of a file, if the block is mapped or buffered.
pub(super) fn zero_within(
    fs: &Fs,
    inode: &Inode,
    buffer: &mut Buffer,
    from: u64,
    to: u64,
) -> Result<()> {
    if from >= to {
        return Ok(());
    }
    let (block, within) = split(fs, from);
    debug_assert!(within + (to - from) <= fs.block_bytes());
    if let Some(bytes) = buffer.get_mut(block.0.into()) {
        bytes[clamp_usize(within)..][..clamp_usize(to - from)].fill(0);
        return Ok(());
    }
    let mapping = map::lookup(fs, &inode.read(), block, 1)?;
    if let Mapping::Mapped {
        start,
        state: ExtentState::Written,
        ..
    } = mapping
    {
        fs.begin_unflushed(inode);
        let zeroes = zeroes(to - from);
        fs.base
            .device
            .write_at(byte_of(fs, start) + within, zeroes)?;
    }
    Ok(())
}

/// Zeroes the block of byte `size` from that byte on.
pub(super) fn zero_tail(fs: &Fs, inode: &Inode, buffer: &mut Buffer, size: u64) -> Result<()> {
    let end = size.checked_next_multiple_of(fs.block_bytes());
    zero_within(fs, inode, buffer, size, end.unwrap_or(size))
}

/// Zeroes whole blocks of the device.
pub(super) fn zero_blocks(fs: &Fs, start: BlockNr, len_blocks: u64) -> Result<()> {
    let len_bytes = len_blocks << fs.base.geometry.block_bits;
    Ok(fs.base.device.write_zeroes(byte_of(fs, start), len_bytes)?)
}
