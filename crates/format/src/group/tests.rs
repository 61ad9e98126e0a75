use super::*;
use crate::{Features, Superblock};

fn geometry(features: &[Feature]) -> Geometry {
    let mut superblock = Superblock::blank();
    superblock.set_features(Features::of(features));
    superblock.desc_size = 64;
    superblock.rev_level = 1;
    superblock.inode_size = 256;
    superblock.first_ino = 11;
    superblock.log_block_size = 2;
    superblock.log_cluster_size = 2;
    superblock.blocks_count = 5 << 32;
    superblock.blocks_per_group = 32768;
    superblock.clusters_per_group = 32768;
    superblock.inodes_per_group = 32;
    superblock.inodes_count = 32 * (5 << 17);
    superblock.geometry().expect("consistent")
}

fn descriptor() -> GroupDescriptor {
    GroupDescriptor {
        block_bitmap: BlockNr(1 << 33),
        inode_bitmap: BlockNr((1 << 33) + 1),
        inode_table: BlockNr((1 << 33) + 2),
        free_clusters: 32768,
        free_inodes: 32,
        used_dirs: 1,
        flags: group_flag::INODE_ZEROED,
        itable_unused: 12,
        block_bitmap_checksum: 0x1234_5678,
        inode_bitmap_checksum: 0x9ABC_DEF0,
        exclude_bitmap: 0,
        reserved: 9,
        tail: Box::default(),
    }
}

fn policies() -> [Checksums; 3] {
    let seed = Seed(42);
    let crc32c = DescriptorChecksum::Crc32c(seed);
    let crc16 = DescriptorChecksum::Crc16 { uuid: [7; 16] };
    [
        Checksums {
            metadata: Some(seed),
            descriptor: crc32c,
        },
        Checksums {
            metadata: None,
            descriptor: crc16,
        },
        Checksums::NONE,
    ]
}

#[test]
fn round_trip_with_every_checksum() {
    let geometry = geometry(&[Feature::SIXTY_FOUR_BIT, Feature::FLEX_BG]);
    for checksums in policies() {
        let mut bytes = [0xFF; 64];
        descriptor().write_to(&mut bytes, GroupNr(5), &geometry, &checksums);
        let parsed = GroupDescriptor::parse(&bytes, GroupNr(5), &geometry, &checksums);
        if checksums == Checksums::NONE {
            // Slots that were never written need a checksum.
            let plain = GroupDescriptor {
                itable_unused: 0,
                ..descriptor()
            };
            assert_eq!(parsed, Ok(plain));
            continue;
        }
        assert_eq!(parsed, Ok(descriptor()));
        let other = GroupDescriptor::parse(&bytes, GroupNr(6), &geometry, &checksums);
        assert_eq!(
            other.expect_err("another group").problem.phrase(),
            "checksum does not match"
        );
        bytes[0x30] ^= 1;
        GroupDescriptor::parse(&bytes, GroupNr(5), &geometry, &checksums).expect_err("damaged");
    }
}

#[test]
fn pointers_and_counts_are_checked() {
    let flexible = geometry(&[Feature::SIXTY_FOUR_BIT, Feature::FLEX_BG]);
    let problem = |change: &dyn Fn(&mut GroupDescriptor), geometry: &Geometry| {
        let mut descriptor = descriptor();
        change(&mut descriptor);
        let checked = descriptor.check(GroupNr(5), geometry);
        checked.err().map(|problem| problem.phrase())
    };
    assert_eq!(problem(&|_| {}, &flexible), None);
    let bitmap = Some("block bitmap is out of range");
    assert_eq!(problem(&|d| d.block_bitmap = BlockNr(0), &flexible), bitmap);
    assert_eq!(
        problem(&|d| d.block_bitmap = BlockNr(5 << 32), &flexible),
        bitmap
    );
    assert_eq!(
        problem(&|d| d.block_bitmap = BlockNr(u64::MAX), &flexible),
        bitmap
    );
    let table = Some("inode table is out of range");
    assert_eq!(
        problem(&|d| d.inode_table = BlockNr((5 << 32) - 1), &flexible),
        table
    );
    let count = Some("free cluster count exceeds the group");
    assert_eq!(problem(&|d| d.free_clusters = 32769, &flexible), count);
    assert!(problem(&|d| d.itable_unused = 33, &flexible).is_some());
    let rigid = geometry(&[Feature::SIXTY_FOUR_BIT]);
    assert_eq!(problem(&|_| {}, &rigid), bitmap);
}

#[test]
fn bitmap_checksums_are_cut_in_small_descriptors() {
    let mut small = geometry(&[Feature::SIXTY_FOUR_BIT]);
    small.desc_size = 32;
    let [checksums, ..] = policies();
    let seed = checksums.metadata.expect("the first policy has it");
    let bitmap = [0xF0; 4096];
    let mut descriptor = descriptor();
    descriptor.set_block_bitmap_checksum(block_bitmap_checksum(seed, &bitmap, &small), &small);
    assert!(descriptor.block_bitmap_checksum <= 0xFFFF);
    assert_eq!(
        descriptor.verify_block_bitmap(&bitmap, GroupNr(0), &small, &checksums),
        Ok(())
    );
    let mut damaged = bitmap;
    damaged[4095] ^= 1;
    descriptor
        .verify_block_bitmap(&damaged, GroupNr(0), &small, &checksums)
        .expect_err("damaged");
    descriptor.set_inode_bitmap_checksum(inode_bitmap_checksum(seed, &bitmap, &small), &small);
    // Only 32 inodes, so 4 bytes, are covered.
    descriptor
        .verify_inode_bitmap(&damaged, GroupNr(0), &small, &checksums)
        .expect("covered");
}
