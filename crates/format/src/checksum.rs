//! crc32c, crc16 and the seeds that ext4 starts them from.
//!
//! ext4 uses the raw update of crc32c: no inversion at either end, the seed is the register.
//!
//! References: kernel doc `filesystems/ext4/checksums.rst`.

use crc_fast::{CrcAlgorithm, Digest};
use uext4_num::{low_u8, low_u16, low_u32};

use crate::InodeNr;

/// Up to this length the table is faster than setting up the vector code (break-even on x86-64:
/// between 32 and 64 bytes).
const TABLE_MAX_BYTES: usize = 48;

/// By the reversed polynomial of crc32c.
const CRC32C_TABLE: [u32; 256] = table(0x82F6_3B78);
/// By that of CRC-16/ARC; the entries have 16 bits.
const CRC16_TABLE: [u32; 256] = table(0xA001);

/// Remainders of all bytes modulo a reversed polynomial.
#[expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "evaluated by the compiler only, where an overflow or a bad index is an error"
)]
const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                crc >> 1 ^ polynomial
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// The register after one byte, by a table of remainders.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "a byte is below 256, the length of the table"
)]
fn step(table: &[u32; 256], crc: u32, byte: u8) -> u32 {
    crc >> 8 ^ table[usize::from(low_u8(crc) ^ byte)]
}

/// The crc32c register after `data`, starting from `register`; no inversion.
pub fn crc32c(register: u32, data: &[u8]) -> u32 {
    if data.len() <= TABLE_MAX_BYTES {
        return data
            .iter()
            .fold(register, |crc, byte| step(&CRC32C_TABLE, crc, *byte));
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(register));
    digest.update(data);
    low_u32(digest.get_state())
}

/// The CRC-16 (reversed 0x8005) register after `data`, starting from `register`; no inversion.
pub fn crc16(register: u16, data: &[u8]) -> u16 {
    let register = data.iter().fold(u32::from(register), |crc, byte| {
        step(&CRC16_TABLE, crc, *byte)
    });
    low_u16(register)
}

/// A crc32c register: a start value or an intermediate state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub u32);

impl Seed {
    /// The start value of a checksum that has no seed (superblock) and of seeds themselves.
    pub const ONES: Seed = Seed(!0);

    /// The seed of a file system without the `metadata_csum_seed` feature.
    pub fn from_uuid(uuid: &[u8; 16]) -> Seed {
        Seed::ONES.update(uuid)
    }

    /// The register after `data`, without the final inversion of the usual crc32c.
    pub fn update(self, data: &[u8]) -> Seed {
        Seed(crc32c(self.0, data))
    }

    /// The register after a little-endian 32-bit number.
    pub fn update_u32(self, value: u32) -> Seed {
        self.update(&value.to_le_bytes())
    }

    /// The register after a little-endian 64-bit number.
    pub fn update_u64(self, value: u64) -> Seed {
        self.update(&value.to_le_bytes())
    }

    /// From the file system's seed: the seed of an inode and of the blocks that belong to it.
    pub fn inode(self, ino: InodeNr, generation: u32) -> Seed {
        self.update_u32(ino.0).update_u32(generation)
    }

    /// The register as a checksum, in the form that ext4 stores: not inverted.
    pub fn value(self) -> u32 {
        self.0
    }
}

/// Checksum format of group descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorChecksum {
    /// Without `uninit_bg` and `metadata_csum`: descriptors have no checksum.
    None,
    /// `uninit_bg`: crc16 over UUID, group number and descriptor.
    Crc16 {
        /// UUID of the file system.
        uuid: [u8; 16],
    },
    /// `metadata_csum`: crc32c from the file system's seed, low 16 bits kept.
    Crc32c(Seed),
}

/// The checksums of a file system and their seed; copied to every parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// The file system's seed if it has `metadata_csum`; `None`: metadata carries no checksum.
    pub metadata: Option<Seed>,
    /// The checksum format of descriptors.
    pub descriptor: DescriptorChecksum,
}

impl Checksums {
    /// No checksums at all.
    pub const NONE: Checksums = Checksums {
        metadata: None,
        descriptor: DescriptorChecksum::None,
    };

    /// The seed of an inode and of its blocks, if metadata carries checksums.
    pub fn inode_seed(&self, ino: InodeNr, generation: u32) -> Option<Seed> {
        self.metadata.map(|seed| seed.inode(ino, generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue of CRCs: "123456789", with inversion at both ends.
    #[test]
    fn check_values() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
        assert_eq!(crc16(0, b"123456789"), 0xBB3D);
    }

    /// RFC 3720 appendix B.4.
    #[test]
    fn iscsi_vectors() {
        assert_eq!(!crc32c(!0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(!crc32c(!0, &[0xFF; 32]), 0x62A8_AB43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(!crc32c(!0, &ascending), 0x46DD_794E);
    }

    #[test]
    fn table_and_vector_code_agree_and_chain() {
        let data: Vec<u8> = (0..5000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let bytewise = data.chunks(1).fold(0x1234_5678, crc32c);
        assert_eq!(crc32c(0x1234_5678, &data), bytewise);
        for cut in [1, 47, 48, 49, 50, 1000, 4096] {
            let (a, b) = data.split_at(cut);
            assert_eq!(crc32c(crc32c(0x1234_5678, a), b), bytewise, "cut at {cut}");
        }
    }
}
