//! The checksum tail of a directory leaf.

use crate::bytes::{get_u32, put_u8, put_u16, put_u32, rest, upto};
use crate::{Corrupt, CorruptKind, DamageLocation, Seed};

/// Bytes of the checksum tail, an entry without inode at the end of a leaf.
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

/// The tail with this checksum: a free record of type 0xDE.
fn tail(sum: u32) -> [u8; TAIL_BYTES] {
    let mut tail = [0; TAIL_BYTES];
    put_u16(&mut tail, 4, 12);
    put_u8(&mut tail, 7, TAIL_TYPE);
    put_u32(&mut tail, 8, sum);
    tail
}

/// Writes a tail with checksum 0.
pub(super) fn init(block: &mut [u8]) {
    if let Some(bytes) = block.last_chunk_mut() {
        *bytes = tail(0);
    }
}

/// The correct checksum; `seed` is the inode's.
pub(super) fn checksum(block: &[u8], seed: Seed) -> u32 {
    let covered = block.len().saturating_sub(TAIL_BYTES);
    seed.update(upto(block, covered)).value()
}

pub(super) fn update(block: &mut [u8], seed: Seed) {
    let sum = checksum(block, seed);
    if let Some(bytes) = block.last_chunk_mut::<TAIL_BYTES>() {
        put_u32(bytes, 8, sum);
    }
}

/// Whether a leaf ends with the record of a tail, whatever its checksum.
pub fn has_tail(block: &[u8]) -> bool {
    let bytes: &[u8; TAIL_BYTES] = block.last_chunk().unwrap_or(&[0; TAIL_BYTES]);
    block.len() > TAIL_BYTES && *bytes == tail(get_u32(bytes, 8))
}

/// Checks shape and checksum of the tail.
pub(super) fn verify(block: &[u8], seed: Seed, place: DamageLocation) -> Result<(), Corrupt> {
    let stored = get_u32(rest(block, block.len().saturating_sub(TAIL_BYTES)), 8);
    if !has_tail(block) {
        return Err(Corrupt::new(
            place,
            "directory leaf",
            CorruptKind::ChecksumTail,
        ));
    }
    let computed = checksum(block, seed);
    if stored != computed {
        let problem = CorruptKind::checksum(stored, computed);
        return Err(Corrupt::new(place, "directory leaf", problem));
    }
    Ok(())
}
