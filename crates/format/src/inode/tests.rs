use super::*;
use crate::CorruptKind;
use crate::{Checksums, DescriptorChecksum, Features, InodeNr, Seed, Superblock};

pub(super) fn geometry(inode_size: u16, features: &[Feature]) -> Geometry {
    let mut superblock = Superblock::blank();
    superblock.set_features(Features::of(features));
    superblock.rev_level = 1;
    superblock.inode_size = inode_size;
    superblock.first_ino = 11;
    superblock.log_block_size = 2;
    superblock.log_cluster_size = 2;
    superblock.blocks_count = 32768;
    superblock.blocks_per_group = 32768;
    superblock.clusters_per_group = 32768;
    superblock.inodes_per_group = 64;
    superblock.inodes_count = 64;
    superblock.geometry().expect("consistent")
}

fn with_checksums() -> Checksums {
    let seed = Seed(42);
    Checksums {
        metadata: Some(seed),
        descriptor: DescriptorChecksum::Crc32c(seed),
    }
}

fn filled(geometry: &Geometry, extra: u16) -> Inode {
    let mut inode = Inode::new(geometry, extra);
    inode.mode = FileType::Regular.mode_bits() | 0o644;
    inode.uid = 0x12_3456;
    inode.gid = 0x65_4321;
    inode.size = 1 << 40;
    inode.links = 3;
    inode.flags = InodeFlags::EXTENTS.union(InodeFlags(0x0040_0000));
    inode.generation = 99;
    inode.atime = Timestamp::new(1, 0);
    inode.mtime = Timestamp::new(-2, 0);
    inode.ctime = Timestamp::new(3, 0);
    inode.version = 77;
    inode.file_acl = BlockNr(0x1234_5678_9ABC);
    inode.i_block = std::array::from_fn(|i| i as u8);
    if extra > 0 {
        inode.tail.fill(0x3C);
    }
    inode.unknown.fill(0xC3);
    inode
}

#[test]
fn round_trip_for_every_extra_size() {
    let ino = InodeNr(12);
    for checksums in [Checksums::NONE, with_checksums()] {
        for (size, extra) in [
            (128, 0),
            (256, 0),
            (256, 4),
            (256, 28),
            (256, 32),
            (512, 200),
        ] {
            let geometry = geometry(size, &[Feature::HUGE_FILE]);
            let mut inode = filled(&geometry, extra);
            if extra >= 32 {
                inode.version = u64::MAX - 5;
                inode.projid = 7;
                inode.crtime = Timestamp::new(5 << 31, 999_999_999);
                inode.mtime = Timestamp::new(1 << 33, 1);
            }
            let mut bytes = vec![0xEE; usize::from(size)];
            inode.write_to(&mut bytes, ino, &geometry, &checksums);
            assert_eq!(Inode::parse(&bytes, ino, &geometry, &checksums), Ok(inode));
            if checksums.metadata.is_none() {
                continue;
            }
            for at in (0..bytes.len()).step_by(13) {
                bytes[at] ^= 0x10;
                Inode::parse(&bytes, ino, &geometry, &checksums).expect_err("damaged");
                bytes[at] ^= 0x10;
            }
            Inode::parse(&bytes, InodeNr(13), &geometry, &checksums).expect_err("another inode");
        }
    }
}

#[test]
fn zeroes_are_an_unused_inode() {
    let geometry = geometry(256, &[]);
    let inode = Inode::parse(&[0; 256], InodeNr(20), &geometry, &with_checksums());
    assert_eq!(inode.expect("unused").file_type(), None);
}

#[test]
fn hostile_extra_sizes_are_refused() {
    let geometry = geometry(256, &[]);
    for extra in [129u16, 130, 132, 3, u16::MAX] {
        let mut bytes = [0; 256];
        bytes[0x80..0x82].copy_from_slice(&extra.to_le_bytes());
        let parsed = Inode::parse(&bytes, InodeNr(20), &geometry, &Checksums::NONE);
        let problem = parsed.expect_err("wrong").problem;
        assert_eq!(problem, CorruptKind::ExtraSize { found: extra });
    }
    assert!(Inode::parse(&[0; 255], InodeNr(20), &geometry, &Checksums::NONE).is_err());
}

#[test]
fn block_counts_change_their_unit_when_large() {
    let huge = geometry(256, &[Feature::HUGE_FILE]);
    let mut inode = Inode::new(&huge, 32);
    for sectors in [0, 8, (1 << 48) - 8, 1 << 48, 1 << 50] {
        inode.set_sectors(sectors, &huge).expect("fits");
        assert_eq!(inode.sectors(&huge), sectors);
        assert_eq!(
            inode.flags.contains(InodeFlags::HUGE_FILE),
            sectors >= 1 << 48
        );
    }
    assert_eq!(inode.set_sectors(1 << 51, &huge), Err(TooManyBlocks));
    let plain = geometry(256, &[]);
    assert_eq!(inode.set_sectors(1 << 32, &plain), Err(TooManyBlocks));
}

#[test]
fn device_numbers_in_both_forms() {
    for (major, minor) in [
        (0, 0),
        (8, 1),
        (255, 255),
        (256, 0),
        (8, 256),
        (0xFFF, 0xF_FFFF),
    ] {
        let device = DeviceNumber { major, minor };
        assert_eq!(DeviceNumber::decode(&device.encode()), device);
    }
    assert_eq!(
        DeviceNumber { major: 8, minor: 1 }.encode()[..4],
        [1, 8, 0, 0]
    );
}

#[test]
fn types_and_modes_match() {
    for code in 0..=255 {
        if let Some(kind) = FileType::from_dirent_code(code) {
            assert_eq!(kind.dirent_code(), code);
            assert_eq!(FileType::from_mode(kind.mode_bits() | 0o7777), Some(kind));
        }
    }
}

#[test]
fn any_bytes_get_a_checksum() {
    use crate::fields::{INODE, Value, find, seal_inode};
    let checksums = Checksums {
        metadata: Some(crate::Seed(5)),
        ..Checksums::NONE
    };
    for (size, extra) in [(128, 0), (256, 0), (256, 32)] {
        let geometry = geometry(size, &[]);
        let mut bytes = vec![0; size.into()];
        let mut set = |name, value| {
            let field = find(INODE, name).unwrap();
            field.set(&mut bytes, &Value::Number(value)).unwrap();
        };
        set("mode", 0o100_644);
        set("size", 77);
        if size > 128 {
            set("extra_isize", extra);
        }
        seal_inode(&mut bytes, InodeNr(12), &checksums);
        let inode = Inode::parse(&bytes, InodeNr(12), &geometry, &checksums).unwrap();
        assert_eq!((inode.mode, inode.size), (0o100_644, 77));
        bytes[0x40] ^= 1;
        assert!(Inode::parse(&bytes, InodeNr(12), &geometry, &checksums).is_err());
    }
}
