use super::*;

/// A consistent superblock of one group of 8 MiB with blocks of 1 KiB.
fn small() -> Superblock {
    let mut superblock = Superblock::blank();
    superblock.rev_level = 1;
    superblock.inode_size = 128;
    superblock.first_ino = 11;
    superblock.blocks_count = 8192;
    superblock.first_data_block = 1;
    superblock.blocks_per_group = 8192;
    superblock.clusters_per_group = 8192;
    superblock.inodes_per_group = 64;
    superblock.inodes_count = 64;
    superblock
}

fn problem_of(change: impl FnOnce(&mut Superblock)) -> &'static str {
    let mut superblock = small();
    change(&mut superblock);
    superblock
        .geometry()
        .expect_err("the change must be refused")
        .problem
        .phrase()
}

#[test]
fn small_is_fine_and_round_trips() {
    let superblock = small();
    let parsed = Superblock::parse(&superblock.to_bytes()).expect("consistent");
    assert_eq!(parsed.to_bytes(), superblock.to_bytes());
    assert_eq!(parsed.geometry().expect("consistent").group_count, 1);
}

#[test]
fn unknown_bytes_survive() {
    let mut raw = small().to_bytes();
    raw[0x177] = 0x5A;
    raw[0x300] = 0xA5;
    // Without 64bit the high halves are not part of the counts, and stay.
    raw[0x150] = 7;
    let parsed = Superblock::parse(&raw).expect("consistent");
    assert_eq!(parsed.blocks_count, 8192);
    assert_eq!(parsed.to_bytes(), raw);
}

#[test]
fn checksum_is_written_and_verified() {
    let mut superblock = small();
    superblock.feature_ro_compat = Feature::METADATA_CSUM.bit;
    superblock.checksum_type = 1;
    let mut raw = superblock.to_bytes();
    Superblock::parse(&raw).expect("consistent");
    raw[0x78] ^= 1;
    assert_eq!(
        Superblock::parse(&raw)
            .expect_err("damaged")
            .problem
            .phrase(),
        "checksum does not match"
    );
}

#[test]
fn hostile_numbers_are_refused() {
    assert_eq!(
        problem_of(|s| s.log_block_size = 7),
        "block size is out of range"
    );
    assert_eq!(
        problem_of(|s| s.log_block_size = u32::MAX),
        "block size is out of range"
    );
    assert_eq!(
        problem_of(|s| s.log_cluster_size = 3),
        "fragment size is not block size"
    );
    assert_eq!(
        problem_of(|s| (s.log_block_size, s.log_cluster_size) = (2, 0)),
        "fragment size is not block size"
    );
    assert_eq!(
        problem_of(|s| s.blocks_per_group = 0),
        "group size does not fit its bitmap"
    );
    assert_eq!(
        problem_of(|s| s.blocks_per_group = 8193),
        "group size does not fit its bitmap"
    );
    assert_eq!(
        problem_of(|s| s.blocks_per_group = 8191),
        "group size is no multiple of 8"
    );
    assert_eq!(
        problem_of(|s| s.inodes_per_group = 0),
        "inodes of a group do not fill a block"
    );
    assert_eq!(
        problem_of(|s| s.inodes_per_group = 1 << 31),
        "inodes of a group do not fit their bitmap"
    );
    assert_eq!(problem_of(|s| s.inodes_count = 65), "inode count is wrong");
    assert_eq!(problem_of(|s| s.inode_size = 0), "inode size is wrong");
    assert_eq!(problem_of(|s| s.inode_size = 2048), "inode size is wrong");
    assert_eq!(problem_of(|s| s.inode_size = 192), "inode size is wrong");
    assert_eq!(problem_of(|s| s.first_ino = 2), "first inode is too small");
    assert_eq!(
        problem_of(|s| s.first_ino = 65),
        "inode count is below the reserved inodes"
    );
    assert_eq!(
        problem_of(|s| s.first_data_block = 0),
        "first data block is wrong"
    );
    assert_eq!(
        problem_of(|s| s.blocks_count = 0),
        "block count is too small"
    );
    assert_eq!(
        problem_of(|s| s.r_blocks_count = 8193),
        "reserved blocks exceed all blocks"
    );
    let reserved = "reserved descriptor blocks exceed a block";
    assert_eq!(problem_of(|s| s.reserved_gdt_blocks = u16::MAX), reserved);
    let wide = |s: &mut Superblock, size| {
        s.feature_incompat = Feature::SIXTY_FOUR_BIT.bit;
        s.desc_size = size;
    };
    assert_eq!(problem_of(|s| wide(s, 32)), "descriptor size is wrong");
    assert_eq!(problem_of(|s| wide(s, 96)), "descriptor size is wrong");
    assert_eq!(problem_of(|s| wide(s, 2048)), "descriptor size is wrong");
    let large = |s: &mut Superblock| {
        wide(s, 64);
        s.blocks_count = u64::MAX;
    };
    assert_eq!(problem_of(large), "size in bytes is out of range");
    let flexible = |s: &mut Superblock| {
        s.feature_incompat = Feature::FLEX_BG.bit;
        s.log_groups_per_flex = 32;
    };
    assert_eq!(problem_of(flexible), "flexible group size is out of range");
    let meta = |s: &mut Superblock| {
        s.feature_incompat = Feature::META_BG.bit;
        s.first_meta_bg = 2;
    };
    assert_eq!(problem_of(meta), "first meta group is out of range");
    let clusters = |s: &mut Superblock, log| {
        s.feature_ro_compat = Feature::BIGALLOC.bit;
        s.log_cluster_size = log;
    };
    assert_eq!(
        problem_of(|s| clusters(s, 21)),
        "cluster size is out of range"
    );
    assert_eq!(
        problem_of(|s| clusters(s, 4)),
        "clusters and blocks of a group differ"
    );
}

/// Random damage gives an error or a geometry whose methods do not panic.
#[test]
fn damage_never_panics() {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let clean = small().to_bytes();
    let mut survivors = 0;
    for _ in 0..20_000 {
        let mut raw = clean;
        for _ in 0..1 + random() % 3 {
            let at = (random() % 0x180) as usize;
            raw[at] = random() as u8;
        }
        let Ok(superblock) = Superblock::parse(&raw) else {
            continue;
        };
        let geometry = superblock.geometry().expect("parse checked it");
        survivors += 1;
        for group in [0, 1, geometry.group_count - 1].map(crate::GroupNr) {
            geometry.base_metadata_blocks(group);
            geometry.blocks_in_group(group);
            geometry.descriptor_location(group);
            geometry.superblock_block(group);
        }
        geometry.split_inode(crate::InodeNr(geometry.inodes_count));
        geometry.group_of_block(crate::BlockNr(u64::MAX));
    }
    assert!(
        survivors > 1000,
        "only {survivors} survived: the test tests nothing"
    );
}
