//! Revoke blocks: numbers of blocks whose images up to this transaction must not be replayed.
//!
//! Layout: header, then at 12 the number of bytes in use (header included), then 32- or 64-bit
//! block numbers, and a checksum tail with crc32c sums.

use super::layout::Layout;
use super::{BlockType, HEADER_BYTES, Header};
use crate::bytes::{get_u32_be, get_u64_be, part, put_u32_be, put_u64_be};
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation, Tid};
use uext4_num::{clamp_u32, low_u32, usize_of};

const FIRST: usize = HEADER_BYTES + 4;

/// The block numbers in a revoke block.
pub struct Revoked<'a> {
    layout: Layout,
    entries: &'a [u8],
}

impl<'a> Revoked<'a> {
    /// Reads the revoke block at `log_block`. Fails when its count reaches past the payload.
    pub fn parse(layout: &Layout, block: &'a [u8], log_block: u32) -> Result<Self, Corrupt> {
        let bytes = get_u32_be(block, HEADER_BYTES);
        let used = usize_of(bytes);
        let end = layout.payload_end().min(block.len());
        if used > end {
            let problem = CorruptKind::RevokeCount { bytes };
            let place = DamageLocation::JournalBlock(log_block);
            return Err(Corrupt::new(place, "revoke block", problem));
        }
        let entries = part(block, FIRST..used);
        Ok(Self {
            layout: *layout,
            entries,
        })
    }

    /// The revoked blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = BlockNr> + '_ {
        let width = self.layout.revoke_entry_bytes();
        self.entries
            .chunks_exact(width)
            .map(move |entry| match width {
                8 => BlockNr(get_u64_be(entry, 0)),
                _ => BlockNr(u64::from(get_u32_be(entry, 0))),
            })
    }
}

/// Builds one revoke block.
pub struct RevokeWriter {
    layout: Layout,
    block: Vec<u8>,
    at: usize,
}

impl RevokeWriter {
    /// An empty revoke block of transaction `sequence`.
    pub fn new(layout: &Layout, sequence: Tid) -> Self {
        let mut block = vec![0; layout.block_size];
        Header {
            block_type: BlockType::Revoke,
            sequence,
        }
        .write(&mut block);
        Self {
            layout: *layout,
            block,
            at: FIRST,
        }
    }

    /// Numbers that fit one block.
    pub fn capacity(layout: &Layout) -> usize {
        let space = layout.payload_end().saturating_sub(FIRST);
        space.checked_div(layout.revoke_entry_bytes()).unwrap_or(0)
    }

    /// Adds a block. False when the revoke block is full.
    pub fn push(&mut self, block: BlockNr) -> bool {
        let width = self.layout.revoke_entry_bytes();
        let end = self.at.saturating_add(width);
        if end > self.layout.payload_end() {
            return false;
        }
        match width {
            8 => put_u64_be(&mut self.block, self.at, block.0),
            _ => put_u32_be(&mut self.block, self.at, low_u32(block.0)),
        }
        self.at = end;
        true
    }

    /// Writes the header and the checksum, and returns the block.
    pub fn finish(mut self) -> Vec<u8> {
        put_u32_be(&mut self.block, HEADER_BYTES, clamp_u32(self.at));
        self.layout.seal(&mut self.block);
        self.block
    }
}
