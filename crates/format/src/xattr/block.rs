//! The block form: header, sorted entries, hashes; may be shared by inodes with equal attributes.

use super::area::{END_BYTES, parse, set_hash, write};
use super::{XattrSet, XattrValue, block_hash, entry_hash};
use crate::bytes::{get_u32, put_u32};
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation, Full, Seed};

/// First four bytes of the block.
pub const BLOCK_MAGIC: u32 = 0xEA02_0000;
/// Bytes before the first entry.
pub const BLOCK_HEADER_BYTES: usize = 32;
/// Inodes that may share a block.
pub const REFCOUNT_MAX: u32 = 1024;
const CHECKSUM_AT: usize = 16;

/// Bytes for entries and values in a block: compare with [`XattrSet::area_bytes`].
pub const fn block_capacity_bytes(block_size: usize) -> usize {
    block_size.saturating_sub(BLOCK_HEADER_BYTES + END_BYTES)
}

/// Reads the entries of a block. Checks all but the checksum and the hashes.
pub fn decode_block(block: &[u8], place: DamageLocation) -> Result<XattrSet, Corrupt> {
    let bad = |problem| Err(Corrupt::new(place, "xattr block", problem));
    let header = XattrBlock::new(block);
    if block.len() < BLOCK_HEADER_BYTES + END_BYTES {
        return bad(CorruptKind::short(block));
    }
    if header.magic() != BLOCK_MAGIC {
        return bad(CorruptKind::magic(header.magic()));
    }
    if header.block_count() != 1 {
        return bad(CorruptKind::XattrBlocks {
            found: header.block_count(),
        });
    }
    if header.refcount() == 0 || header.refcount() > REFCOUNT_MAX {
        return bad(CorruptKind::XattrReferences {
            found: header.refcount(),
        });
    }
    parse(block, BLOCK_HEADER_BYTES, place)
}

/// Writes a block with one reference; the caller writes the checksum. If the set does not fit, the
/// block is unchanged.
pub fn encode_block(block: &mut [u8], set: &XattrSet) -> Result<(), Full> {
    if set.area_bytes() > block_capacity_bytes(block.len()) {
        return Err(Full);
    }
    block.fill(0);
    put_u32(block, 0, BLOCK_MAGIC);
    put_u32(block, 4, 1);
    put_u32(block, 8, 1);
    let mut hashes = Vec::with_capacity(set.len());
    for (at, entry) in write(block, BLOCK_HEADER_BYTES, set.sorted().into_iter()) {
        let hash = match &entry.value {
            XattrValue::Here(value) => entry_hash(&entry.name.rest, value),
            XattrValue::Inode { entry_hash, .. } => *entry_hash,
        };
        set_hash(block, at, hash);
        hashes.push(hash);
    }
    put_u32(block, 12, block_hash(hashes));
    Ok(())
}

/// The header of a block, read and edited in place.
#[derive(Clone, Copy, Debug)]
pub struct XattrBlock<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> XattrBlock<B> {
    /// A view of a block, without checks.
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    fn raw(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The magic number, as stored.
    pub fn magic(&self) -> u32 {
        get_u32(self.raw(), 0)
    }

    /// Inodes that share the block.
    pub fn refcount(&self) -> u32 {
        get_u32(self.raw(), 4)
    }

    /// Number of blocks; always 1.
    pub fn block_count(&self) -> u32 {
        get_u32(self.raw(), 8)
    }

    /// The hash over all entries; 0 when the block must not be shared.
    pub fn hash(&self) -> u32 {
        get_u32(self.raw(), 12)
    }

    /// True if both blocks hold the same attributes: all but the header is equal.
    pub fn same_content(&self, other: &[u8]) -> bool {
        self.raw().get(BLOCK_HEADER_BYTES..) == other.get(BLOCK_HEADER_BYTES..)
    }

    /// The correct checksum of the block at `nr`; `seed` is the file system's.
    pub fn checksum(&self, seed: Seed, nr: BlockNr) -> u32 {
        let raw = self.raw();
        let (before, rest) = raw.split_at(CHECKSUM_AT.min(raw.len()));
        let after = rest.get(4..).unwrap_or(&[]);
        seed.update_u64(nr.0)
            .update(before)
            .update_u32(0)
            .update(after)
            .value()
    }

    /// Compares the checksum; `seed` is the file system's.
    pub fn verify_checksum(&self, seed: Seed, nr: BlockNr) -> Result<(), Corrupt> {
        let (stored, computed) = (get_u32(self.raw(), CHECKSUM_AT), self.checksum(seed, nr));
        if stored == computed {
            return Ok(());
        }
        let problem = CorruptKind::checksum(stored, computed);
        Err(Corrupt::new(
            DamageLocation::Block(nr),
            "xattr block",
            problem,
        ))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> XattrBlock<B> {
    /// Writes the number of inodes that share the block.
    pub fn set_refcount(&mut self, refcount: u32) {
        debug_assert!((1..=REFCOUNT_MAX).contains(&refcount));
        put_u32(self.bytes.as_mut(), 4, refcount);
    }

    /// Writes the checksum; `seed` is the file system's.
    pub fn update_checksum(&mut self, seed: Seed, nr: BlockNr) {
        let sum = self.checksum(seed, nr);
        put_u32(self.bytes.as_mut(), CHECKSUM_AT, sum);
    }
}
