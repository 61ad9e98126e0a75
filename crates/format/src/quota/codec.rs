//! Entries, the info block and headers as bytes.

use super::{LEAF_HEADER_BYTES, QUOTA_ENTRY_BYTES, QuotaKind};
use crate::CorruptKind;
use crate::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64, upto};

/// Version that follows the magic number: entries of 72 bytes.
const VERSION: u32 = 1;
/// Bytes of the info block that are in use.
const INFO_BYTES: usize = 32;

/// Usage and limits of one owner. A limit of zero means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaEntry {
    /// User, group or project.
    pub id: u32,
    /// Hard limit of inodes.
    pub inodes_hard: u64,
    /// Soft limit of inodes, which may be exceeded for the grace time.
    pub inodes_soft: u64,
    /// The number of inodes that the owner has.
    pub inodes: u64,
    /// Hard limit of space, in KiB.
    pub space_hard_kib: u64,
    /// Soft limit of space, which may be exceeded for the grace time, in KiB.
    pub space_soft_kib: u64,
    /// Space in use, in bytes.
    pub space_bytes: u64,
    /// End of the grace time for space, in seconds since 1970; 0 while under the soft limit.
    pub space_grace_end: u64,
    /// End of the grace time for inodes, in seconds since 1970; 0 while under the soft limit.
    pub inodes_grace_end: u64,
}

/// Encoding of an entry whose fields are all zero, since zeroes mean "unused".
const ALL_ZERO: QuotaEntry = QuotaEntry {
    id: 0,
    inodes_hard: 0,
    inodes_soft: 0,
    inodes: 0,
    space_hard_kib: 0,
    space_soft_kib: 0,
    space_bytes: 0,
    space_grace_end: 0,
    inodes_grace_end: 1,
};

impl QuotaEntry {
    /// Reads an entry of [`QUOTA_ENTRY_BYTES`]; `None` when it is unused.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = upto(bytes, QUOTA_ENTRY_BYTES);
        if bytes.iter().all(|byte| *byte == 0) {
            return None;
        }
        let entry = Self {
            id: get_u32(bytes, 0),
            inodes_hard: get_u64(bytes, 0x08),
            inodes_soft: get_u64(bytes, 0x10),
            inodes: get_u64(bytes, 0x18),
            space_hard_kib: get_u64(bytes, 0x20),
            space_soft_kib: get_u64(bytes, 0x28),
            space_bytes: get_u64(bytes, 0x30),
            space_grace_end: get_u64(bytes, 0x38),
            inodes_grace_end: get_u64(bytes, 0x40),
        };
        Some(if entry == ALL_ZERO {
            Self::default()
        } else {
            entry
        })
    }

    /// The entry as stored in a block.
    pub fn encode(&self) -> [u8; QUOTA_ENTRY_BYTES] {
        let entry = if *self == Self::default() {
            &ALL_ZERO
        } else {
            self
        };
        let mut bytes = [0; QUOTA_ENTRY_BYTES];
        put_u32(&mut bytes, 0, entry.id);
        put_u64(&mut bytes, 0x08, entry.inodes_hard);
        put_u64(&mut bytes, 0x10, entry.inodes_soft);
        put_u64(&mut bytes, 0x18, entry.inodes);
        put_u64(&mut bytes, 0x20, entry.space_hard_kib);
        put_u64(&mut bytes, 0x28, entry.space_soft_kib);
        put_u64(&mut bytes, 0x30, entry.space_bytes);
        put_u64(&mut bytes, 0x38, entry.space_grace_end);
        put_u64(&mut bytes, 0x40, entry.inodes_grace_end);
        bytes
    }

    /// True when there is any limit.
    pub const fn is_limited(&self) -> bool {
        let space = self.space_hard_kib | self.space_soft_kib;
        space | self.inodes_hard | self.inodes_soft != 0
    }
}

/// Block 0: grace times of all owners, and the heads of the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaInfo {
    /// Grace time of the soft limit of space, in seconds.
    pub space_grace_seconds: u32,
    /// Grace time of the soft limit of inodes, in seconds.
    pub inodes_grace_seconds: u32,
    /// Flags; none is known here, all are preserved.
    pub flags: u32,
    /// Length of the file in blocks of 1 KiB.
    pub blocks: u32,
    /// First block of the list of unused blocks, or 0.
    pub free_block: u32,
    /// First block of the list of blocks of entries with free slots, or 0.
    pub free_leaf: u32,
}

impl QuotaInfo {
    /// Reads block 0 of a file of this kind.
    ///
    /// # Errors
    /// Another magic number or version.
    pub fn decode(bytes: &[u8], kind: QuotaKind) -> Result<Self, CorruptKind> {
        let (magic, found) = (get_u32(bytes, 0), get_u32(bytes, 4));
        if magic != kind.magic() {
            return Err(CorruptKind::magic(magic));
        }
        if found != VERSION {
            return Err(CorruptKind::Version { found });
        }
        Ok(Self {
            space_grace_seconds: get_u32(bytes, 8),
            inodes_grace_seconds: get_u32(bytes, 12),
            flags: get_u32(bytes, 16),
            blocks: get_u32(bytes, 20),
            free_block: get_u32(bytes, 24),
            free_leaf: get_u32(bytes, 28),
        })
    }

    /// The front of block 0; the rest is zero.
    pub fn encode(&self, kind: QuotaKind) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        put_u32(&mut bytes, 0, kind.magic());
        put_u32(&mut bytes, 4, VERSION);
        put_u32(&mut bytes, 8, self.space_grace_seconds);
        put_u32(&mut bytes, 12, self.inodes_grace_seconds);
        put_u32(&mut bytes, 16, self.flags);
        put_u32(&mut bytes, 20, self.blocks);
        put_u32(&mut bytes, 24, self.free_block);
        put_u32(&mut bytes, 28, self.free_leaf);
        bytes
    }
}

/// The front of a block of entries, or of an unused block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafHeader {
    /// Next block of its list, or 0.
    pub next: u32,
    /// The block before it in the list, or 0.
    pub previous: u32,
    /// The number of used slots of the leaf.
    pub entries: u16,
}

impl LeafHeader {
    /// Reads the front of a block.
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            next: get_u32(bytes, 0),
            previous: get_u32(bytes, 4),
            entries: get_u16(bytes, 8),
        }
    }

    /// The first 16 bytes of the block; the last six are zero.
    pub fn encode(&self) -> [u8; LEAF_HEADER_BYTES] {
        let mut bytes = [0; LEAF_HEADER_BYTES];
        put_u32(&mut bytes, 0, self.next);
        put_u32(&mut bytes, 4, self.previous);
        put_u16(&mut bytes, 8, self.entries);
        bytes
    }
}
