//! The superblock: 1024 bytes at byte 1024 of the device, and copies in some groups.
//!
//! [`Superblock::parse`] checks the magic, the checksum, the features and every number that later
//! arithmetic relies on. Bytes without a field here are kept and written back as they were.
//!
//! References: kernel doc `filesystems/ext4/super.rst`.

mod fields;
mod validate;

#[cfg(test)]
mod tests;

pub use fields::Superblock;
pub use validate::DESC_SIZE_MAX;

use crate::bytes::{get_u16, get_u32, put_u32};
use crate::checksum::{Checksums, DescriptorChecksum, Seed};
use crate::quota::QuotaKind;
use crate::{Corrupt, CorruptKind, DamageLocation, Feature, Features, InodeNr};

/// Bytes of a superblock, independent of the block size.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// Offset of the primary superblock, in bytes from the start of the device.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// The magic number of a superblock (`s_magic`).
pub const SUPERBLOCK_MAGIC: u16 = 0xEF53;
/// Offset of the checksum, which covers everything before it.
const CHECKSUM_AT: usize = 0x3FC;

/// Flags of `s_state`.
pub mod state {
    /// The file system was unmounted cleanly.
    pub const VALID: u16 = 0x1;
    /// Errors were found and not repaired.
    pub const ERROR: u16 = 0x2;
    /// Orphans are being recovered.
    pub const ORPHAN: u16 = 0x4;
    /// Fast commits are to be replayed (in memory only, in the kernel).
    pub const FC_REPLAY: u16 = 0x20;
}

/// Flags of `s_flags`.
pub mod flag {
    /// Directory hashes take name bytes as signed.
    pub const SIGNED_HASH: u32 = 0x1;
    /// Directory hashes take name bytes as unsigned.
    pub const UNSIGNED_HASH: u32 = 0x2;
    /// Made to test development code.
    pub const TEST_FILESYS: u32 = 0x4;
}

/// Flags of `s_default_mount_opts`, with the mount option that each stands for.
pub mod default_mount_option {
    /// `debug`.
    pub const DEBUG: u32 = 0x1;
    /// `bsdgroups`.
    pub const BSDGROUPS: u32 = 0x2;
    /// `user_xattr`.
    pub const XATTR_USER: u32 = 0x4;
    /// `acl`.
    pub const ACL: u32 = 0x8;
    /// `nouid32`.
    pub const UID16: u32 = 0x10;
    /// Mask of the data journalling mode.
    pub const JMODE: u32 = 0x60;
    /// `data=journal`.
    pub const JMODE_DATA: u32 = 0x20;
    /// `data=ordered`.
    pub const JMODE_ORDERED: u32 = 0x40;
    /// `data=writeback`.
    pub const JMODE_WBACK: u32 = 0x60;
    /// `nobarrier`.
    pub const NOBARRIER: u32 = 0x100;
    /// `block_validity`.
    pub const BLOCK_VALIDITY: u32 = 0x200;
    /// `discard`.
    pub const DISCARD: u32 = 0x400;
    /// `nodelalloc`.
    pub const NODELALLOC: u32 = 0x800;
}

/// Reaction to an error that was found (`s_errors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBehaviour {
    /// The file system stays writable.
    Continue,
    /// The file system becomes read-only.
    RemountReadOnly,
    /// The machine stops, if the kernel mounts it.
    Panic,
}

impl ErrorBehaviour {
    /// From `s_errors`; unknown values count as [`Self::Continue`].
    pub fn from_raw(raw: u16) -> Self {
        match raw {
            2 => Self::RemountReadOnly,
            3 => Self::Panic,
            _ => Self::Continue,
        }
    }

    /// As stored in `s_errors`.
    pub fn raw(self) -> u16 {
        match self {
            Self::Continue => 1,
            Self::RemountReadOnly => 2,
            Self::Panic => 3,
        }
    }
}

impl Superblock {
    /// Parses and validates the superblock in the first 1024 bytes of `bytes`.
    ///
    /// # Errors
    /// [`Corrupt`] when it is too short, has another magic, a wrong checksum, or contradictory
    /// numbers. Features are not checked: see [`Features::check_readable`].
    pub fn parse(bytes: &[u8]) -> Result<Superblock, Corrupt> {
        let superblock = Self::parse_unverified(bytes)?;
        superblock.verify_checksum()?;
        superblock.geometry()?;
        Ok(superblock)
    }

    /// Parses without checking checksum and numbers: for tools that show or repair.
    ///
    /// # Errors
    /// [`Corrupt`] when it is too short or has another magic.
    pub fn parse_unverified(bytes: &[u8]) -> Result<Superblock, Corrupt> {
        let raw = bytes
            .first_chunk::<SUPERBLOCK_BYTES>()
            .ok_or_else(|| corrupt(CorruptKind::short(bytes)))?;
        let superblock = Self::from_raw(raw);
        if !Self::has_magic(raw) {
            return Err(corrupt(CorruptKind::magic(superblock.magic.into())));
        }
        Ok(superblock)
    }

    /// True when the bytes of a superblock have its magic number.
    pub fn has_magic(bytes: &[u8]) -> bool {
        get_u16(bytes, 0x38) == SUPERBLOCK_MAGIC
    }

    /// Sets the seed of directory hashes from 16 bytes.
    pub fn set_hash_seed(&mut self, seed: &[u8; 16]) {
        let (words, _) = seed.as_chunks();
        for (old, word) in self.hash_seed.iter_mut().zip(words) {
            *old = u32::from_le_bytes(*word);
        }
    }

    /// The 1024 bytes, with the checksum up to date if the features ask for one.
    pub fn to_bytes(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut raw = self.to_raw();
        if self.features().has(Feature::METADATA_CSUM) {
            let checksum = checksum_of(&raw);
            put_u32(&mut raw, CHECKSUM_AT, checksum);
        }
        raw
    }

    /// The three feature sets, with unknown bits.
    pub fn features(&self) -> Features {
        Features {
            compat: self.feature_compat,
            ro_compat: self.feature_ro_compat,
            incompat: self.feature_incompat,
        }
    }

    /// Replaces the three feature words.
    pub fn set_features(&mut self, features: Features) {
        self.feature_compat = features.compat;
        self.feature_ro_compat = features.ro_compat;
        self.feature_incompat = features.incompat;
    }

    /// The seed of all crc32c on this file system, whether or not `metadata_csum` uses it.
    pub fn seed(&self) -> Seed {
        if self.features().has(Feature::CSUM_SEED) {
            Seed(self.checksum_seed)
        } else {
            Seed::from_uuid(&self.uuid)
        }
    }

    /// The kinds of owners whose usage is counted, with the inodes of their files.
    pub fn quota_files(&self) -> impl Iterator<Item = (QuotaKind, InodeNr)> + use<> {
        let is_counted = self.features().has(Feature::QUOTA);
        let files = [
            (QuotaKind::User, self.usr_quota_inum),
            (QuotaKind::Group, self.grp_quota_inum),
            (QuotaKind::Project, self.prj_quota_inum),
        ];
        let there = files
            .into_iter()
            .filter(move |(_, nr)| is_counted && *nr != 0);
        there.map(|(kind, nr)| (kind, InodeNr(nr)))
    }

    /// The checksums of the file system.
    pub fn checksums(&self) -> Checksums {
        let features = self.features();
        if features.has(Feature::METADATA_CSUM) {
            let seed = self.seed();
            let descriptor = DescriptorChecksum::Crc32c(seed);
            return Checksums {
                metadata: Some(seed),
                descriptor,
            };
        }
        let descriptor = if features.has(Feature::UNINIT_BG) {
            DescriptorChecksum::Crc16 { uuid: self.uuid }
        } else {
            DescriptorChecksum::None
        };
        Checksums {
            metadata: None,
            descriptor,
        }
    }

    /// The volume label, up to its first zero byte.
    pub fn label(&self) -> &[u8] {
        let end = self.volume_name.iter().position(|byte| *byte == 0);
        self.volume_name
            .split_at(end.unwrap_or(self.volume_name.len()))
            .0
    }

    fn verify_checksum(&self) -> Result<(), Corrupt> {
        if !self.features().has(Feature::METADATA_CSUM) {
            return Ok(());
        }
        if self.checksum_type != 1 {
            return Err(corrupt(CorruptKind::ChecksumType {
                found: self.checksum_type,
            }));
        }
        let (stored, computed) = (get_u32(self.raw(), CHECKSUM_AT), checksum_of(self.raw()));
        if stored != computed {
            return Err(corrupt(CorruptKind::checksum(stored, computed)));
        }
        Ok(())
    }
}

fn checksum_of(raw: &[u8; SUPERBLOCK_BYTES]) -> u32 {
    let (covered, _) = raw.split_at(CHECKSUM_AT);
    Seed::ONES.update(covered).value()
}

const fn corrupt(problem: CorruptKind) -> Corrupt {
    Corrupt::new(DamageLocation::Superblock, "superblock", problem)
}
