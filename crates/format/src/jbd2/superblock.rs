//! The journal superblock: first block of the log.

use super::layout::{ChecksumKind, Layout};
use super::{BlockType, Header};
use crate::bytes::{
    get_array, get_u8, get_u32_be, put_slice, put_u8, put_u32_be, rest, rest_mut, upto,
};
use crate::crc32c;
use crate::{Corrupt, CorruptKind, DamageLocation, Tid};
use uext4_num::usize_of;

/// Bytes of the superblock within its block.
pub const SUPERBLOCK_BYTES: usize = 1024;

/// Commit blocks carry a crc32 of their transaction.
pub const COMPAT_CHECKSUM: u32 = 0x1;
/// Revoke blocks may occur.
pub const INCOMPAT_REVOKE: u32 = 0x1;
/// Block numbers have 64 bits.
pub const INCOMPAT_64BIT: u32 = 0x2;
/// Commit blocks may be written together with their transaction.
pub const INCOMPAT_ASYNC_COMMIT: u32 = 0x4;
/// crc32c, 16 bits per image.
pub const INCOMPAT_CSUM_V2: u32 = 0x8;
/// crc32c, 32 bits per image.
pub const INCOMPAT_CSUM_V3: u32 = 0x10;
/// The log ends with an area for fast commits.
pub const INCOMPAT_FAST_COMMIT: u32 = 0x20;
/// All incompatible features that this format knows.
pub const INCOMPAT_KNOWN: u32 = 0x3F;

const BLOCK_SIZE: usize = 12;
const MAX_LEN: usize = 16;
const FIRST: usize = 20;
const SEQUENCE: usize = 24;
const START: usize = 28;
const ERRNO: usize = 32;
const COMPAT: usize = 36;
const INCOMPAT: usize = 40;
const RO_COMPAT: usize = 44;
const UUID: usize = 48;
const USERS: usize = 64;
const CHECKSUM_TYPE: usize = 80;
const FAST_COMMIT_BLOCKS: usize = 84;
const HEAD: usize = 88;
const CHECKSUM: usize = 252;
/// Value of the checksum type byte that means crc32c.
const CRC32C: u8 = 4;
/// Length of the fast-commit area when the superblock says 0.
const DEFAULT_FAST_COMMIT_BLOCKS: u32 = 256;
/// The kernel refuses shorter logs, and ignores a fast-commit area that would leave less.
const MIN_LOG_BLOCKS: u32 = 1024;

/// A journal superblock. Bytes without a field here are preserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes of a journal block (`s_blocksize`).
    pub block_size: u32,
    /// Blocks of the log, this one and the fast-commit area included.
    pub max_len_blocks: u32,
    /// First block of the circular part.
    pub first: u32,
    /// Transaction expected at `start`; the next to use when the log is clean.
    pub sequence: Tid,
    /// Start of the oldest live transaction; 0: the log is clean.
    pub start: u32,
    /// Error that stopped the journal earlier, as a (negative) errno; 0 is none.
    pub errno: i32,
    /// Features that may be ignored when unknown (`s_feature_compat`).
    pub compat: u32,
    /// Features that forbid any use when unknown (`s_feature_incompat`).
    pub incompat: u32,
    /// Features that forbid writing when unknown.
    pub ro_compat: u32,
    /// UUID of the journal (`s_uuid`).
    pub uuid: [u8; 16],
    /// Blocks of the fast-commit area as stored; 0 means the default when the feature is set.
    pub fast_commit_blocks: u32,
    /// Head of a clean log, where the next user continues; 0 is unknown.
    pub head: u32,
    version: BlockType,
    raw: Box<[u8; SUPERBLOCK_BYTES]>,
}

fn corrupt(problem: CorruptKind) -> Corrupt {
    Corrupt::new(
        DamageLocation::JournalBlock(0),
        "journal superblock",
        problem,
    )
}

impl Superblock {
    /// Reads and validates a superblock. Does not check features (see [`Self::unknown_incompat`]).
    pub fn parse(block: &[u8]) -> Result<Superblock, Corrupt> {
        let raw: [u8; SUPERBLOCK_BYTES] = *block
            .first_chunk()
            .ok_or_else(|| corrupt(CorruptKind::short(block)))?;
        let magic = CorruptKind::magic(get_u32_be(&raw, 0));
        let header = Header::parse(&raw).ok_or_else(|| corrupt(magic))?;
        let v2 = match header.block_type {
            BlockType::SuperblockV1 => false,
            BlockType::SuperblockV2 => true,
            _ => return Err(corrupt(CorruptKind::NotSuperblock)),
        };
        let word = |at| get_u32_be(&raw, at);
        let feature = |at| if v2 { word(at) } else { 0 };
        let parsed = Superblock {
            block_size: word(BLOCK_SIZE),
            max_len_blocks: word(MAX_LEN),
            first: word(FIRST),
            sequence: Tid(word(SEQUENCE)),
            start: word(START),
            errno: word(ERRNO).cast_signed(),
            compat: feature(COMPAT),
            incompat: feature(INCOMPAT),
            ro_compat: feature(RO_COMPAT),
            uuid: if v2 { get_array(&raw, UUID) } else { [0; 16] },
            fast_commit_blocks: feature(FAST_COMMIT_BLOCKS),
            head: feature(HEAD),
            version: header.block_type,
            raw: Box::new(raw),
        };
        parsed.validate()?;
        Ok(parsed)
    }

    fn validate(&self) -> Result<(), Corrupt> {
        let found = get_u8(&self.raw[..], CHECKSUM_TYPE);
        if self.has_crc32c() && found != CRC32C {
            return Err(corrupt(CorruptKind::ChecksumType { found }));
        }
        let stored = get_u32_be(&self.raw[..], CHECKSUM);
        let computed = checksum(&self.raw);
        if self.has_crc32c() && stored != computed {
            return Err(corrupt(CorruptKind::checksum(stored, computed)));
        }
        if self.incompat & INCOMPAT_CSUM_V2 != 0 && self.incompat & INCOMPAT_CSUM_V3 != 0 {
            return Err(corrupt(CorruptKind::TwoChecksums));
        }
        if !self.block_size.is_power_of_two() || !(1024..=65536).contains(&self.block_size) {
            return Err(corrupt(CorruptKind::BlockSize {
                found: self.block_size,
            }));
        }
        if self.first == 0 || self.first >= self.max_len_blocks {
            return Err(corrupt(CorruptKind::FirstOutside {
                first: self.first,
                len: self.max_len_blocks,
            }));
        }
        if self.start != 0 && !(self.first..self.end()).contains(&self.start) {
            return Err(corrupt(CorruptKind::StartOutside { start: self.start }));
        }
        Ok(())
    }

    /// The superblock of a new, clean journal without features.
    pub fn new(block_size: u32, max_len_blocks: u32, first: u32, uuid: [u8; 16]) -> Superblock {
        Superblock {
            block_size,
            max_len_blocks,
            first,
            sequence: Tid(1),
            start: 0,
            errno: 0,
            compat: 0,
            incompat: 0,
            ro_compat: 0,
            uuid,
            fast_commit_blocks: 0,
            head: 0,
            version: BlockType::SuperblockV2,
            raw: Box::new([0; SUPERBLOCK_BYTES]),
        }
    }

    /// The bytes, with a checksum if the features require one. A v1 superblock stays v1 as long as
    /// it has no feature.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut raw = *self.raw;
        let features = self.compat | self.incompat | self.ro_compat != 0;
        let v2 = features || self.version == BlockType::SuperblockV2;
        let block_type = if v2 {
            BlockType::SuperblockV2
        } else {
            BlockType::SuperblockV1
        };
        Header {
            block_type,
            sequence: Tid(get_u32_be(&raw, 8)),
        }
        .write(&mut raw);
        for (at, value) in [
            (BLOCK_SIZE, self.block_size),
            (MAX_LEN, self.max_len_blocks),
            (FIRST, self.first),
            (SEQUENCE, self.sequence.0),
            (START, self.start),
            (ERRNO, self.errno.cast_unsigned()),
        ] {
            put_u32_be(&mut raw, at, value);
        }
        if v2 {
            self.encode_v2(&mut raw);
        }
        raw
    }

    fn encode_v2(&self, raw: &mut [u8; SUPERBLOCK_BYTES]) {
        if self.version == BlockType::SuperblockV1 {
            rest_mut(raw, COMPAT).fill(0); // v1 left these bytes undefined
        }
        put_u32_be(raw, COMPAT, self.compat);
        put_u32_be(raw, INCOMPAT, self.incompat);
        put_u32_be(raw, RO_COMPAT, self.ro_compat);
        put_slice(raw, UUID, &self.uuid);
        put_u32_be(raw, FAST_COMMIT_BLOCKS, self.fast_commit_blocks);
        put_u32_be(raw, HEAD, self.head);
        put_u8(
            raw,
            CHECKSUM_TYPE,
            if self.has_crc32c() { CRC32C } else { 0 },
        );
        let sum = if self.has_crc32c() { checksum(raw) } else { 0 };
        put_u32_be(raw, CHECKSUM, sum);
    }

    /// Whether a superblock of version 1 has fields that only version 2 has: features, or users.
    pub fn has_fields_of_version_2(&self) -> bool {
        let fields = [COMPAT, INCOMPAT, RO_COMPAT, USERS];
        self.version == BlockType::SuperblockV1
            && fields.iter().any(|at| get_u32_be(&self.raw[..], *at) != 0)
    }

    /// Whether it says that several file systems use the journal.
    pub fn has_users(&self) -> bool {
        get_u32_be(&self.raw[..], USERS) > 1
    }

    /// Says that one file system uses the journal.
    pub fn set_one_user(&mut self) {
        put_u32_be(&mut self.raw[..], USERS, 1);
    }

    /// Clears the fields that a superblock of version 1 must not have.
    pub fn clear_fields_of_version_2(&mut self) {
        if self.has_fields_of_version_2() {
            rest_mut(&mut self.raw[..], COMPAT).fill(0);
        }
    }

    /// The bytes as they were read, with later changes of those without a field here.
    pub(super) fn raw(&self) -> &[u8] {
        &self.raw[..]
    }

    pub(super) fn raw_mut(&mut self) -> &mut [u8] {
        &mut self.raw[..]
    }

    /// The shape of this journal's blocks.
    pub fn layout(&self) -> Layout {
        let wide = self.incompat & INCOMPAT_64BIT != 0;
        Layout::new(
            usize_of(self.block_size),
            self.checksum_kind(),
            wide,
            &self.uuid,
        )
    }

    /// The checksum format of this journal.
    pub fn checksum_kind(&self) -> ChecksumKind {
        if self.incompat & INCOMPAT_CSUM_V3 != 0 {
            ChecksumKind::V3
        } else if self.incompat & INCOMPAT_CSUM_V2 != 0 {
            ChecksumKind::V2
        } else if self.compat & COMPAT_CHECKSUM != 0 {
            ChecksumKind::V1
        } else {
            ChecksumKind::None
        }
    }

    /// Incompatible features that this format does not know; 0 if there are none.
    pub fn unknown_incompat(&self) -> u32 {
        self.incompat & !INCOMPAT_KNOWN
    }

    /// One past the last block of the circular part: `max_len_blocks` less the fast-commit area.
    pub fn end(&self) -> u32 {
        let area = self.fast_commit_len_blocks();
        match self.max_len_blocks.checked_sub(area) {
            Some(end) if end >= MIN_LOG_BLOCKS && end > self.first => end,
            _ => self.max_len_blocks,
        }
    }

    /// The fast-commit area as (first block, one past the last), empty without the feature.
    pub fn fast_commit_area(&self) -> (u32, u32) {
        if self.end() < self.max_len_blocks {
            (self.end().saturating_add(1), self.max_len_blocks)
        } else {
            (self.max_len_blocks, self.max_len_blocks)
        }
    }

    fn fast_commit_len_blocks(&self) -> u32 {
        match (
            self.incompat & INCOMPAT_FAST_COMMIT != 0,
            self.fast_commit_blocks,
        ) {
            (false, _) => 0,
            (true, 0) => DEFAULT_FAST_COMMIT_BLOCKS,
            (true, blocks) => blocks,
        }
    }

    fn has_crc32c(&self) -> bool {
        self.incompat & (INCOMPAT_CSUM_V2 | INCOMPAT_CSUM_V3) != 0
    }
}

fn checksum(raw: &[u8; SUPERBLOCK_BYTES]) -> u32 {
    let head = crc32c(!0, upto(raw, CHECKSUM));
    crc32c(crc32c(head, &[0; 4]), rest(raw, CHECKSUM + 4))
}
