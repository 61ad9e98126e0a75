//! The block of multiple mount protection: the user of the file system, and a sequence number that
//! changes while it is in use.
//!
//! References: kernel doc `filesystems/ext4/mmp.rst`.

use crate::bytes::{get_array, get_u16, get_u32, get_u64, put_slice, put_u16, put_u32, put_u64};
use crate::checksum::Checksums;
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation};

/// Bytes of the block that the structure takes.
pub const MMP_BYTES: usize = 1024;
/// The magic number of an MMP block (`mmp_magic`).
pub const MMP_MAGIC: u32 = 0x004D_4D50;
/// Sequence number of a file system that is not in use.
pub const MMP_SEQ_CLEAN: u32 = 0xFF4D_4D50;
/// Sequence number while a checker works.
pub const MMP_SEQ_FSCK: u32 = 0xE24D_4D50;
/// Largest sequence number of a mount.
pub const MMP_SEQ_MAX: u32 = 0xE24D_4D4F;
/// Seconds between updates unless the superblock says otherwise.
pub const MMP_UPDATE_INTERVAL_SECONDS: u16 = 5;
/// Least seconds to wait for a change of the sequence number.
pub const MMP_MIN_CHECK_INTERVAL_SECONDS: u16 = 5;

const CHECKSUM_AT: usize = 0x3FC;

/// The contents of the MMP block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmp {
    /// The sequence number, or one of the special values for clean and e2fsck.
    pub sequence: u32,
    /// Seconds since 1970 of the last update.
    pub time: u64,
    /// Name of the host that updated it last.
    pub node_name: [u8; 64],
    /// Name of the device there.
    pub device_name: [u8; 32],
    /// Seconds between two checks of the block (`mmp_check_interval`).
    pub check_interval: u16,
}

impl Mmp {
    /// The block that mkfs writes: the file system is not in use.
    pub fn clean(check_interval: u16) -> Mmp {
        let (node_name, device_name) = ([0; 64], [0; 32]);
        Mmp {
            sequence: MMP_SEQ_CLEAN,
            time: 0,
            node_name,
            device_name,
            check_interval,
        }
    }

    /// Parses the block's first 1024 bytes.
    ///
    /// # Errors
    /// [`Corrupt`] when it is cut short, or magic or checksum are wrong.
    pub fn parse(bytes: &[u8], nr: BlockNr, checksums: &Checksums) -> Result<Mmp, Corrupt> {
        let problem = |problem| Corrupt::new(DamageLocation::Block(nr), "mmp block", problem);
        let bytes = bytes
            .get(..MMP_BYTES)
            .ok_or_else(|| problem(CorruptKind::short(bytes)))?;
        let magic = get_u32(bytes, 0);
        if magic != MMP_MAGIC {
            return Err(problem(CorruptKind::magic(magic)));
        }
        let computed = checksum(bytes, checksums);
        CorruptKind::compare(get_u32(bytes, CHECKSUM_AT), computed).map_err(problem)?;
        Ok(Mmp {
            sequence: get_u32(bytes, 4),
            time: get_u64(bytes, 8),
            node_name: get_array(bytes, 0x10),
            device_name: get_array(bytes, 0x50),
            check_interval: get_u16(bytes, 0x70),
        })
    }

    /// Writes magic, fields and checksum into the first 1024 bytes of `out`, and leaves the rest.
    pub fn write_to(&self, out: &mut [u8], checksums: &Checksums) {
        put_u32(out, 0, MMP_MAGIC);
        put_u32(out, 4, self.sequence);
        put_u64(out, 8, self.time);
        put_slice(out, 0x10, &self.node_name);
        put_slice(out, 0x50, &self.device_name);
        put_u16(out, 0x70, self.check_interval);
        if let Some(checksum) = checksum(out, checksums) {
            put_u32(out, CHECKSUM_AT, checksum);
        }
    }
}

fn checksum(bytes: &[u8], checksums: &Checksums) -> Option<u32> {
    let covered = bytes.get(..CHECKSUM_AT).unwrap_or(bytes);
    checksums.metadata.map(|seed| seed.update(covered).value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{DescriptorChecksum, Seed};

    #[test]
    fn round_trip_and_damage() {
        let seed = Seed(77);
        let checksums = Checksums {
            metadata: Some(seed),
            descriptor: DescriptorChecksum::Crc32c(seed),
        };
        let mmp = Mmp {
            sequence: 9,
            time: 1 << 33,
            ..Mmp::clean(5)
        };
        let mut block = vec![0xAA; 4096];
        mmp.write_to(&mut block, &checksums);
        assert_eq!(Mmp::parse(&block, BlockNr(3), &checksums), Ok(mmp));
        block[9] ^= 1;
        let error = Mmp::parse(&block, BlockNr(3), &checksums).expect_err("damaged");
        assert_eq!(error.problem.phrase(), "checksum does not match");
        assert!(error.to_string().starts_with("block 3: mmp block: "));
        assert!(Mmp::parse(&block[..1000], BlockNr(3), &Checksums::NONE).is_err());
    }
}
