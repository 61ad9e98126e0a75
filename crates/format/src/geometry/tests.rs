use super::*;

fn geometry(features: &[Feature], block_bits: u32, group_count: u32) -> Geometry {
    let features = Features::of(features);
    let wide = features.has(Feature::SIXTY_FOUR_BIT);
    let blocks_per_group = 8 << block_bits;
    let first_data_block = u32::from(block_bits == 10);
    Geometry {
        features,
        block_bits,
        cluster_bits: 0,
        blocks_count: u64::from(group_count) * u64::from(blocks_per_group)
            + u64::from(first_data_block)
            - 100,
        inodes_count: group_count * 512,
        first_data_block,
        blocks_per_group,
        clusters_per_group: blocks_per_group,
        inodes_per_group: 512,
        group_count,
        desc_size: if wide { 64 } else { 32 },
        inode_size: 256,
        first_inode: 11,
        reserved_gdt_blocks: 0,
        first_meta_bg: 0,
        backup_bgs: [0, 0],
        log_groups_per_flex: 4,
    }
}

#[test]
fn sparse_superblocks_are_powers_of_3_5_and_7() {
    let geometry = geometry(&[Feature::SPARSE_SUPER], 12, 400);
    let with: Vec<u32> = (0..400)
        .filter(|nr| geometry.has_super(GroupNr(*nr)))
        .collect();
    assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343]);
}

#[test]
fn sparse_super2_names_its_groups() {
    let mut geometry = geometry(&[Feature::SPARSE_SUPER2], 12, 10);
    geometry.backup_bgs = [1, 9];
    let with: Vec<u32> = (0..10)
        .filter(|nr| geometry.has_super(GroupNr(*nr)))
        .collect();
    assert_eq!(with, [0, 1, 9]);
}

#[test]
fn meta_groups_keep_their_descriptors_in_three_places() {
    let features = [
        Feature::META_BG,
        Feature::SPARSE_SUPER,
        Feature::SIXTY_FOUR_BIT,
    ];
    let geometry = geometry(&features, 12, 200);
    let at = |nr| {
        geometry
            .descriptor_run(GroupNr(nr))
            .map(|(index, run)| (index, run.start.0))
    };
    assert_eq!(at(0), Some((0, 1)));
    assert_eq!(at(1), Some((0, 32768 + 1)));
    assert_eq!(at(2), None);
    assert_eq!(at(63), Some((0, 63 * 32768)));
    assert_eq!(at(64), Some((1, 64 * 32768)));
    assert_eq!(
        geometry.descriptor_location(GroupNr(65)),
        (BlockNr(64 * 32768), 64)
    );
    assert_eq!(geometry.base_metadata_blocks(GroupNr(3)), 1);
    assert_eq!(geometry.base_metadata_blocks(GroupNr(64)), 1);
}

#[test]
fn blocks_and_inodes_split_and_join() {
    let geometry = geometry(&[], 10, 3);
    assert_eq!(geometry.split_block(BlockNr(8193)), (GroupNr(1), 0));
    assert_eq!(geometry.split_block(BlockNr(8192)), (GroupNr(0), 8191));
    assert_eq!(geometry.blocks_in_group(GroupNr(2)), 8192 - 100);
    assert_eq!(geometry.blocks_in_group(GroupNr(3)), 0);
    assert!(!geometry.contains(BlockNr(0)));
    assert_eq!(geometry.split_inode(InodeNr(513)), Some((GroupNr(1), 0)));
    assert_eq!(geometry.inode_at(GroupNr(1), 0), InodeNr(513));
    assert_eq!(geometry.split_inode(InodeNr(0)), None);
    assert_eq!(geometry.split_inode(InodeNr(1537)), None);
    assert_eq!(
        geometry.inode_location(BlockNr(100), 5),
        (BlockNr(101), 256)
    );
}
