//! Identifies the content of a device without ext4 and suggests a remedy: known signatures,
//! partition tables, backup superblocks. It runs only after a command failed.
//!
//! References: `file(1)` magic, `libblkid`'s list of signatures; kernel documentation, "Super
//! Block", for the places of backups.

use uext4::device::BlockDevice;
use uext4::device::partition;
use uext4_format::Superblock;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_num::clamp_usize;

/// Length of the prefix that contains all signatures, in bytes.
const FRONT_BYTES: u64 = 68 << 10;

/// A signature: byte offset, bytes, name of the format, remedy.
type Sign = (usize, &'static [u8], &'static str, &'static str);

const UNPACK: &str = "unpack it first";
const CONVERT: &str = "`qemu-img convert -O raw` makes a raw image of it";
const OTHER: &str = "mount that one with its own tools";

const SIGNS: &[Sign] = &[
    (0, b"\x1f\x8b", "gzip data", "`gunzip` it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data", "`zstd -d` it first"),
    (0, b"\xfd7zXZ\0", "xz data", "`xz -d` it first"),
    (0, b"BZh", "bzip2 data", "`bunzip2` it first"),
    (0, b"\x04\x22\x4d\x18", "lz4 data", "`lz4 -d` it first"),
    (0, b"PK\x03\x04", "a zip archive", UNPACK),
    (
        257,
        b"ustar",
        "a tar archive",
        "`uext4 put -r` imports an unpacked tree",
    ),
    (0, b"QFI\xfb", "a qcow2 image", CONVERT),
    (0, b"KDMV", "a VMDK image", CONVERT),
    (0, b"vhdxfile", "a VHDX image", CONVERT),
    (0, b"conectix", "a VHD image", CONVERT),
    (0x40, b"\x7f\x10\xda\xbe", "a VDI image", CONVERT),
    (
        0,
        b"\x3a\xff\x26\xed",
        "an Android sparse image",
        "`simg2img` makes a raw image of it",
    ),
    (
        0,
        b"LUKS\xba\xbe",
        "a LUKS container",
        "`cryptsetup open` it and use the device below /dev/mapper",
    ),
    (
        3,
        b"-FVE-FS-",
        "a BitLocker volume",
        "`cryptsetup bitlkOpen` it first",
    ),
    (
        512,
        b"LABELONE",
        "an LVM physical volume",
        "`vgchange -ay` makes its volumes devices",
    ),
    (
        0,
        b"\xfc\x4e\x2b\xa9",
        "a member of a RAID",
        "`mdadm --assemble` makes it a device",
    ),
    (
        4096,
        b"\xfc\x4e\x2b\xa9",
        "a member of a RAID",
        "`mdadm --assemble` makes it a device",
    ),
    (0, b"XFSB", "an XFS file system", OTHER),
    (0x10040, b"_BHRfS_M", "a btrfs file system", OTHER),
    (0, b"hsqs", "a squashfs file system", OTHER),
    (1024, b"\xe2\xe1\xf5\xe0", "an EROFS file system", OTHER),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system", OTHER),
    (3, b"NTFS    ", "an NTFS file system", OTHER),
    (3, b"EXFAT   ", "an exFAT file system", OTHER),
    (54, b"FAT12   ", "a FAT file system", OTHER),
    (54, b"FAT16   ", "a FAT file system", OTHER),
    (82, b"FAT32   ", "a FAT file system", OTHER),
    (32769, b"CD001", "an ISO 9660 file system", OTHER),
    (0x8000, b"JFS1", "a JFS file system", OTHER),
    (0x10034, b"ReIsEr", "a ReiserFS file system", OTHER),
    (4086, b"SWAPSPACE2", "swap space", "it holds no files"),
    (65526, b"SWAPSPACE2", "swap space", "it holds no files"),
];

/// Content of `device` and the remedy, as the second half of a sentence. `None` if no signature,
/// partition table or backup superblock is found and the start is not blank.
pub(crate) fn describe(device: &dyn BlockDevice) -> Option<String> {
    let front = read(device, 0, clamp_usize(FRONT_BYTES.min(device.size_bytes())))?;
    let sign = SIGNS.iter().find(|sign| {
        front
            .get(sign.0..)
            .is_some_and(|rest| rest.starts_with(sign.1))
    });
    if let Some((_, _, what, remedy)) = sign {
        return Some(format!("it holds {what}; {remedy}"));
    }
    partitions(device)
        .or_else(|| backup(device))
        .or_else(|| is_blank(&front))
}

fn read(device: &dyn BlockDevice, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    device.read_at(at, &mut bytes).ok()?;
    Some(bytes)
}

/// A partition table, and the first of its partitions with ext4.
fn partitions(device: &dyn BlockDevice) -> Option<String> {
    let table = partition::read_table(device).ok()?;
    let first = table.first()?;
    let with_ext4 = table.iter().find(|found| {
        let at = found.start_bytes.saturating_add(SUPERBLOCK_OFFSET);
        read(device, at, SUPERBLOCK_BYTES).is_some_and(|bytes| Superblock::has_magic(&bytes))
    });
    let remedy = match with_ext4 {
        Some(found) => format!("--partition {} is the first with ext4", found.number),
        None => format!(
            "none of its partitions, from number {} on, holds ext4",
            first.number
        ),
    };
    Some(format!("it holds a partition table; {remedy}"))
}

/// The first backup superblock: at the start of group 1, for each block size.
fn backup(device: &dyn BlockDevice) -> Option<String> {
    (0..7).find_map(|log: u32| {
        let block_size = 1024_u64 << log;
        let per_group = 8 * block_size;
        let block = per_group + u64::from(log == 0);
        let at = block * block_size;
        let found = Superblock::parse_unverified(&read(device, at, SUPERBLOCK_BYTES)?);
        let is_superblock = found.is_ok_and(|found| found.log_block_size == log);
        is_superblock.then(|| {
            format!(
                "its superblock is gone, but a backup stands in block {block}; \
                 `uext4 fsck -y -b {block} -B {block_size}` restores it"
            )
        })
    })
}

fn is_blank(front: &[u8]) -> Option<String> {
    let is_blank = !front.is_empty() && front.iter().all(|byte| *byte == 0);
    is_blank.then(|| "it begins with zeroes only; `uext4 mkfs` makes a file system".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4::device::MemDevice;

    fn said(at: usize, bytes: &[u8]) -> Option<String> {
        let device = MemDevice::new(32 << 20);
        device.write_at(100, b"not zero").expect("it fits");
        device.write_at(at as u64, bytes).expect("it fits");
        describe(&device)
    }

    #[test]
    fn every_signature_is_told() {
        for (at, bytes, what, remedy) in SIGNS {
            let said = said(*at, bytes).unwrap_or_default();
            assert_eq!(said, format!("it holds {what}; {remedy}"));
        }
        assert_eq!(said(2000, b"nothing known"), None);
        let blank = describe(&MemDevice::new(1 << 20)).expect("zeroes");
        assert!(blank.contains("zeroes"), "{blank}");
    }
}
