//! The checksum tail of a directory leaf.

use crate::bytes::{get_u8, get_u16, get_u32, put_u8, put_u16, put_u32};

use crate::{Corrupt, Place, Seed};

/// Bytes of the tail.
pub const TAIL_BYTES: usize = 12;
const TAIL_TYPE: u8 = 0xDE;

/// Whether leaves end with a checksum, as with the feature `metadata_csum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafTail {
    /// Records up to the end of the block.
    None,
    /// Records up to a tail of 12 bytes.
    Checksum,
}

impl LeafTail {
    /// Bytes at the end of a leaf that hold no records.
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Checksum => TAIL_BYTES,
        }
    }
}

/// The start of the tail.
fn start(block: &[u8]) -> usize {
    block.len().saturating_sub(TAIL_BYTES)
}

/// Writes a tail with checksum 0.
pub(super) fn init(block: &mut [u8]) {
    let at = start(block);
    put_u32(block, at, 0);
    put_u16(block, at + 4, TAIL_BYTES as u16);
    put_u8(block, at + 6, 0);
    put_u8(block, at + 7, TAIL_TYPE);
    put_u32(block, at + 8, 0);
}

/// The correct checksum; `seed` is the inode's.
pub(super) fn checksum(block: &[u8], seed: Seed) -> u32 {
    seed.update(&block[..start(block)]).value()
}

/// Writes the checksum.
pub(super) fn update(block: &mut [u8], seed: Seed) {
    let (at, sum) = (start(block), checksum(block, seed));
    put_u32(block, at + 8, sum);
}

/// Checks shape and checksum of the tail.
pub(super) fn verify(block: &[u8], seed: Seed, place: Place) -> Result<(), Corrupt> {
    let at = start(block);
    let well_formed = block.len() > TAIL_BYTES
        && get_u32(block, at) == 0
        && get_u16(block, at + 4) == TAIL_BYTES as u16
        && get_u8(block, at + 6) == 0
        && get_u8(block, at + 7) == TAIL_TYPE;
    if !well_formed {
        return Err(Corrupt::new(place, "directory leaf", "no checksum tail"));
    }
    if get_u32(block, at + 8) != checksum(block, seed) {
        return Err(Corrupt::new(
            place,
            "directory leaf",
            "checksum does not match",
        ));
    }
    Ok(())
}
