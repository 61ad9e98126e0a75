//! Blocks of the orphan file: an array of inode numbers, 0 where free, and an 8-byte tail.
//!
//! Layout: `(block_size - 8) / 4` slots, then magic, then the checksum over the physical block
//! number and the slots, which starts from the seed of the orphan file's inode.
//!
//! References: kernel doc `filesystems/ext4/orphan.rst`.

use crate::bytes::{get_u32, put_u32, rest_mut};
use crate::checksum::Seed;
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation, InodeNr};

/// Magic number in the tail of each block of the orphan file.
pub const ORPHAN_BLOCK_MAGIC: u32 = 0x0B10_CA04;
const TAIL_BYTES: usize = 8;
/// Most blocks that the file may have.
pub const ORPHAN_FILE_BLOCKS_MAX: u32 = 512;

/// Slots of a block of this many bytes.
pub const fn orphan_slots_per_block(block_size: usize) -> usize {
    block_size.saturating_sub(TAIL_BYTES) / 4
}

/// The inode in a slot; `None` for a free slot.
pub fn orphan_slot(block: &[u8], slot: usize) -> Option<InodeNr> {
    let ino = slots(block).get(slot).map(|ino| u32::from_le_bytes(*ino))?;
    (ino != 0).then_some(InodeNr(ino))
}

/// Fills a slot, or frees it with `None`; a slot past the last is a bug of the caller.
pub fn set_orphan_slot(block: &mut [u8], slot: usize, ino: Option<InodeNr>) {
    assert!(
        slot < orphan_slots_per_block(block.len()),
        "slot {slot} of an orphan block"
    );
    put_u32(block, slot.saturating_mul(4), ino.map_or(0, |ino| ino.0));
}

/// Writes magic and checksum after the slots; `seed` is the orphan file's inode seed.
pub fn seal_orphan_block(block: &mut [u8], nr: BlockNr, seed: Option<Seed>) {
    let tail_at = block.len().saturating_sub(TAIL_BYTES);
    let value = seed.map_or(0, |seed| checksum(block, nr, seed));
    let tail = rest_mut(block, tail_at);
    put_u32(tail, 0, ORPHAN_BLOCK_MAGIC);
    put_u32(tail, 4, value);
}

/// Checks magic and, with a seed, the checksum.
///
/// # Errors
/// [`Corrupt`], naming the wrong one.
pub fn verify_orphan_block(block: &[u8], nr: BlockNr, seed: Option<Seed>) -> Result<(), Corrupt> {
    let problem = |problem| Corrupt::new(DamageLocation::Block(nr), "orphan file block", problem);
    let tail: &[u8; TAIL_BYTES] = block
        .last_chunk()
        .ok_or_else(|| problem(CorruptKind::short(block)))?;
    let magic = get_u32(tail, 0);
    if magic != ORPHAN_BLOCK_MAGIC {
        return Err(problem(CorruptKind::magic(magic)));
    }
    let computed = seed.map(|seed| checksum(block, nr, seed));
    CorruptKind::compare(get_u32(tail, 4), computed).map_err(problem)
}

/// The checksum in the tail, also of a file system without checksums, where it has to be 0.
pub fn orphan_checksum(block: &[u8]) -> u32 {
    block
        .last_chunk()
        .map_or(0, |tail: &[u8; TAIL_BYTES]| get_u32(tail, 4))
}

fn checksum(block: &[u8], nr: BlockNr, seed: Seed) -> u32 {
    let slots = slots(block).as_flattened();
    seed.update_u64(nr.0).update(slots).value()
}

/// The slots of a block, without the tail.
fn slots(block: &[u8]) -> &[[u8; 4]] {
    let (slots, _) = block.as_chunks();
    slots
        .get(..orphan_slots_per_block(block.len()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seal_then_verify_then_damage() {
        let mut block = vec![0; 1024];
        let last = orphan_slots_per_block(1024) - 1;
        assert_eq!(last, 253);
        set_orphan_slot(&mut block, last, Some(InodeNr(12)));
        seal_orphan_block(&mut block, BlockNr(7), Some(Seed(1)));
        assert_eq!(
            verify_orphan_block(&block, BlockNr(7), Some(Seed(1))),
            Ok(())
        );
        assert_eq!(orphan_slot(&block, last), Some(InodeNr(12)));
        assert_eq!(orphan_slot(&block, last + 1), None);
        assert!(verify_orphan_block(&block, BlockNr(8), Some(Seed(1))).is_err());
        set_orphan_slot(&mut block, last, None);
        assert!(verify_orphan_block(&block, BlockNr(7), Some(Seed(1))).is_err());
        assert!(verify_orphan_block(&block, BlockNr(7), None).is_ok());
        assert!(verify_orphan_block(&[0; 4], BlockNr(7), None).is_err());
    }
}
