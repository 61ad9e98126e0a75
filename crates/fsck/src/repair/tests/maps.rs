//! Repairs of maps: each damaged image is sound afterwards, and keeps its other files.

use super::image::{BLOCK, FIRST, Image, SECOND, contents};
use crate::repair::Outcome;
use crate::repair::space::Space;
use uext4_device::BlockDevice;
use uext4_format::extent::{ExtentNode, ROOT_BYTES};
use uext4_format::indirect::{pointer, set_pointer};
use uext4_format::{BlockNr, FileType, GroupNr, InodeFlags, InodeNr};

const TREES: &str = "^has_journal";
const TABLES: &str = "^has_journal,^extents,^64bit";
const UNSEALED: &str = "^has_journal,^metadata_csum";
const CLUSTERS: &str = "^has_journal,bigalloc,^resize_inode";

/// Blocks of an inode's tree.
fn nodes(image: &Image) -> Vec<BlockNr> {
    let inode = image.inode(FIRST);
    let root = ExtentNode::new(&inode.i_block[..]);
    assert_eq!(root.depth(), 1);
    root.indexes().map(|index| index.child).collect()
}

fn change_block(image: &Image, nr: BlockNr, change: impl FnOnce(&mut [u8])) {
    let mut bytes = vec![0; BLOCK as usize];
    image.device.read_at(nr.0 * BLOCK, &mut bytes).unwrap();
    change(&mut bytes);
    image.device.write_at(nr.0 * BLOCK, &bytes).unwrap();
}

fn two_files(features: &str, blocks: usize) -> Image {
    let image = Image::new(features);
    image.add_file(FIRST, blocks);
    image.add_file(SECOND, 3);
    image
}

#[test]
fn files_are_as_they_were_made() {
    for features in [TREES, TABLES, UNSEALED, CLUSTERS] {
        let image = two_files(features, 100);
        assert_eq!(image.read(FIRST), contents(FIRST, 100), "{features}");
        assert_eq!(image.read(SECOND), contents(SECOND, 3), "{features}");
        assert_eq!(image.repair().n_repaired, 0, "{features}");
    }
}

/// Bytes in the header of the root: magic, count, limit and depth.
#[test]
fn a_root_with_a_wrong_header_keeps_its_entries() {
    for (at, byte, code) in [
        (0, 0x55, "extent-header.magic"),
        (2, 9, "extent-header.count-above-limit"),
        (4, 9, "extent-header.limit"),
        (6, 3, "extent-index.child-outside"),
        (6, 9, "extent-header.depth"),
    ] {
        for blocks in [3, 100] {
            let image = two_files(TREES, blocks);
            image.edit_inode(FIRST, |inode| inode.i_block[at] = byte);
            if code != "extent-index.child-outside" || blocks == 3 {
                image.repair_of(code);
            } else {
                image.repair();
            }
            assert_eq!(image.read(FIRST), contents(FIRST, blocks), "{code}");
            assert_eq!(image.read(SECOND), contents(SECOND, 3));
        }
    }
}

#[test]
fn a_node_with_a_wrong_checksum_is_read() {
    let image = two_files(TREES, 100);
    let node = nodes(&image)[0];
    change_block(&image, node, |bytes| bytes[1023] ^= 1);
    image.repair_of("extent-block.checksum");
    assert_eq!(image.read(FIRST), contents(FIRST, 100));
}

/// An extent of a node leads elsewhere in the file, or on the device.
#[test]
fn one_bad_extent_costs_its_own_block() {
    for (at, byte, code) in [
        (12 + 12, 0xFF, "extent.behind-node"),
        (12 + 24, 0, "extent.order"),
        (12 + 12 + 4, 0, "extent.zero-length"),
        (12 + 12 + 10, 0xFF, "extent.blocks-outside"),
    ] {
        let image = two_files(UNSEALED, 100);
        change_block(&image, nodes(&image)[0], |bytes| bytes[at] = byte);
        image.repair_of(code);
        let mut wanted = contents(FIRST, 100);
        let lost = at / 12 - 1;
        wanted[lost * BLOCK as usize..(lost + 1) * BLOCK as usize].fill(0);
        assert_eq!(image.read(FIRST), wanted, "{code}");
        assert_eq!(image.read(SECOND), contents(SECOND, 3));
    }
}

#[test]
fn a_node_that_is_lost_costs_its_own_blocks() {
    let image = two_files(UNSEALED, 100);
    let all = nodes(&image);
    change_block(&image, all[0], |bytes| bytes.fill(0xA5));
    image.repair_of("extent-header.magic");
    let found = image.read(FIRST);
    let wanted = contents(FIRST, 100);
    let lost = found
        .chunks(BLOCK as usize)
        .take_while(|block| block.iter().all(|byte| *byte == 0));
    let lost = lost.count() * BLOCK as usize;
    assert!(lost > 0 && lost < found.len());
    assert_eq!(found[lost..], wanted[lost..]);
}

#[test]
fn data_that_two_files_map_is_copied() {
    for features in [TREES, TABLES, UNSEALED, CLUSTERS] {
        let image = two_files(features, 40);
        let (whole, part) = (image.inode(FIRST), image.inode(SECOND));
        // Both formats of maps begin with the first blocks, in roots of one level.
        let stolen = image.extents(FIRST)[0].start;
        image.edit_inode(SECOND, |inode| {
            if inode.flags.contains(InodeFlags::EXTENTS) {
                inode.i_block[12 + 8..12 + 12].copy_from_slice(&(stolen.0 as u32).to_le_bytes());
            } else {
                set_pointer(&mut inode.i_block, 0, stolen);
            }
        });
        assert_ne!(image.inode(SECOND), part);
        image.repair_of("inode-map.data-shared");
        assert_eq!(
            image.inode(FIRST),
            whole,
            "{features}: the first keeps its own"
        );
        assert_eq!(image.read(FIRST), contents(FIRST, 40), "{features}");
        let ratio = if features == CLUSTERS { 4 } else { 1 };
        let (own, other) = (contents(SECOND, 3), contents(FIRST, 40));
        let cut = (BLOCK as usize * ratio).min(own.len());
        let found = image.read(SECOND);
        assert_eq!(found[..cut], other[..cut], "{features}");
        assert_eq!(found[cut..], own[cut..], "{features}");
    }
}

#[test]
fn a_table_that_two_files_map_is_copied() {
    let image = Image::new(TABLES);
    image.add_file(FIRST, 40);
    image.add_file(SECOND, 40);
    let table = pointer(&image.inode(FIRST).i_block, 12);
    image.edit_inode(SECOND, |inode| set_pointer(&mut inode.i_block, 12, table));
    image.repair_of("inode-map.map-shared");
    assert_eq!(image.read(FIRST), contents(FIRST, 40));
    let (found, own, other) = (
        image.read(SECOND),
        contents(SECOND, 40),
        contents(FIRST, 40),
    );
    let direct = 12 * BLOCK as usize;
    assert_eq!(found[..direct], own[..direct]);
    assert_eq!(found[direct..], other[direct..]);
    assert_ne!(pointer(&image.inode(SECOND).i_block, 12), table);
}

/// The first file keeps its table, and the map of the other one stays as it is.
#[test]
fn a_table_that_two_files_map_is_not_read_again_without_space() {
    let image = Image::new(TABLES);
    image.add_file(FIRST, 40);
    image.add_file(SECOND, 40);
    let table = pointer(&image.inode(FIRST).i_block, 12);
    image.edit_inode(SECOND, |inode| set_pointer(&mut inode.i_block, 12, table));
    image.edit(|patch| {
        while patch.allocate(BlockNr(1))?.is_some() {}
        let inode = patch.inode(SECOND)?.expect("a file");
        // The first search for space ends the walk; the next one does not begin.
        for _ in 0..2 {
            let outcome = patch.repair_tables(SECOND, inode.clone())?;
            assert_eq!(outcome, Outcome::Impossible);
        }
        assert!(patch.blocks.is_empty());
        Ok(())
    });
}

#[test]
fn shared_tables_are_read_a_few_times_only() {
    let image = Image::new(TABLES);
    image.add_file(FIRST, 40);
    image.add_file(SECOND, 40);
    let table = pointer(&image.inode(FIRST).i_block, 12);
    image.edit_inode(SECOND, |inode| set_pointer(&mut inode.i_block, 12, table));
    image.edit(|patch| {
        patch.space = Space::new(0);
        let inode = patch.inode(SECOND)?.expect("a file");
        let outcome = patch.repair_tables(SECOND, inode)?;
        assert_eq!(outcome, Outcome::Impossible);
        Ok(())
    });
}

#[test]
fn pointers_that_lead_nowhere_are_cleared() {
    let image = two_files(TABLES, 40);
    let table = pointer(&image.inode(FIRST).i_block, 12);
    change_block(&image, table, |bytes| {
        set_pointer(bytes, 3, BlockNr(0xFFFF_FFF0))
    });
    image.edit_inode(FIRST, |inode| {
        set_pointer(&mut inode.i_block, 13, BlockNr(0x00FF_0000));
        set_pointer(&mut inode.i_block, 5, BlockNr(2));
    });
    image.repair_of("inode-map.data-outside");
    let mut wanted = contents(FIRST, 40);
    for lost in [5, 15] {
        let start = lost * BLOCK as usize;
        wanted[start..start + BLOCK as usize].fill(0);
    }
    assert_eq!(image.read(FIRST), wanted);
    assert_eq!(pointer(&image.inode(FIRST).i_block, 12), table, "it stays");
}

#[test]
fn a_table_in_a_table_of_its_own_ends() {
    let image = two_files(TABLES, 40);
    let table = pointer(&image.inode(FIRST).i_block, 12);
    image.edit_inode(FIRST, |inode| {
        set_pointer(&mut inode.i_block, 13, table);
        set_pointer(&mut inode.i_block, 14, table);
    });
    image.repair_of("inode-map.map-shared");
    let found = image.read(FIRST);
    assert_eq!(found[..40 * BLOCK as usize - 100], contents(FIRST, 40)[..]);
}

/// With clusters a file has extents, whose blocks are where they are in their clusters.
#[test]
fn blocks_that_do_not_fit_their_clusters_move() {
    let image = two_files(CLUSTERS, 40);
    let extents = image.extents(SECOND);
    let from = extents[0].start;
    image.edit_inode(SECOND, |inode| {
        let start = from.0 as u32 + 1;
        inode.i_block[12 + 8..12 + 12].copy_from_slice(&start.to_le_bytes());
    });
    image.repair_of("inode-map.misaligned");
    let found = image.read(SECOND);
    let own = contents(SECOND, 3);
    assert_eq!(found[..2 * BLOCK as usize - 100], own[BLOCK as usize..]);
}

#[test]
fn memory_of_maps_is_given_back() {
    for features in [TREES, TABLES] {
        let image = two_files(features, 400);
        image.edit(|patch| {
            let before = patch.check.memory_bytes;
            let inode = patch.inode(FIRST)?.expect("a file");
            assert_eq!(patch.extents_of(FIRST, &inode)?.len(), 400);
            if features == TABLES {
                patch.repair_tables(FIRST, inode)?;
            }
            assert_eq!(patch.check.memory_bytes, before, "{features}");
            Ok(())
        });
    }
}

#[test]
fn extents_of_a_directory_that_were_never_written_are() {
    let image = two_files(TREES, 3);
    let root = uext4_format::InodeNr::ROOT;
    image.edit_inode(root, |inode| {
        let mut node = ExtentNode::new(&mut inode.i_block[..]);
        let mut extent = node.extent(0).unwrap();
        extent.state = uext4_format::extent::ExtentState::Unwritten;
        node.set_extent(0, extent);
    });
    image.repair_of("inode-map.never-written");
    assert_eq!(image.inode(root).i_block.len(), ROOT_BYTES);
    assert_eq!(image.read(FIRST), contents(FIRST, 3));
}

/// A chain of nodes, deeper than any file needs.
#[test]
fn a_tree_that_is_too_deep_keeps_its_blocks() {
    let image = Image::new("^has_journal,^metadata_csum");
    image.add_file(FIRST, 1);
    let data = image.extents(FIRST)[0].start;
    let header = |depth: u8, max: u8| [0x0A, 0xF3, 1, 0, max, 0, depth, 0, 0, 0, 0, 0];
    let entry = |block: BlockNr| (block.0 as u32).to_le_bytes();
    image.edit(|patch| {
        let mut below = data;
        for depth in 0..7 {
            let home = patch.allocate(BlockNr(3000))?.expect("there is space");
            let mut bytes = vec![0; BLOCK as usize];
            bytes[..12].copy_from_slice(&header(depth, 84));
            if depth == 0 {
                bytes[16] = 1;
                bytes[20..24].copy_from_slice(&entry(below));
            } else {
                bytes[16..20].copy_from_slice(&entry(below));
            }
            patch.write(home, bytes)?;
            below = home;
        }
        let mut inode = patch.inode(FIRST)?.expect("it can be read");
        inode.i_block.fill(0);
        inode.i_block[..12].copy_from_slice(&header(7, 4));
        inode.i_block[16..20].copy_from_slice(&entry(below));
        patch.write_inode(FIRST, &inode)
    });
    image.repair_of("extent-header.depth");
    assert!(image.read(FIRST) == contents(FIRST, 1));
}

/// What is free is not known before the other map is repaired.
#[test]
fn shared_blocks_wait_for_the_repair_of_other_maps() {
    let image = Image::new("^has_journal");
    image.add_file(FIRST, 3);
    image.add_file(SECOND, 3);
    image.add_file(InodeNr(14), 3);
    let shared = image.extents(SECOND)[0].start;
    image.edit_inode(InodeNr(14), |inode| {
        inode.i_block[20..24].copy_from_slice(&(shared.0 as u32).to_le_bytes());
    });
    let expected = image.read(InodeNr(14));
    image.edit_inode(FIRST, |inode| inode.i_block[0] = 0x55);
    let bitmap = image.edit(|patch| Ok(patch.descriptor(GroupNr(0))?.block_bitmap));
    let at = bitmap.0 * BLOCK + 900;
    image.device.write_at(at, &[0x55]).unwrap();
    image.repair_of("inode-map.data-shared");
    assert!(image.read(FIRST) == contents(FIRST, 3));
    assert!(image.read(SECOND) == contents(SECOND, 3));
    assert!(image.read(InodeNr(14)) == expected);
}

/// The second half of a cluster of the file is in another cluster of the device.
#[test]
fn parts_of_a_cluster_come_together() {
    let image = Image::new("^has_journal,bigalloc,^resize_inode");
    image.add(FIRST, FileType::Regular, &contents(FIRST, 4));
    image.add_file(SECOND, 4);
    let own = image.extents(FIRST)[0].start;
    let other = image.extents(SECOND)[0].start;
    let rest = &contents(FIRST, 4)[2 * BLOCK as usize..];
    image.device.write_at((other.0 + 2) * BLOCK, rest).unwrap();
    image.edit_inode(SECOND, |inode| {
        inode.links = 0;
        inode.dtime = u32::MAX;
    });
    image.edit_inode(FIRST, |inode| {
        let extent = |logical: u32, start: u64| {
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&logical.to_le_bytes());
            bytes[4] = 2;
            bytes[8..].copy_from_slice(&(start as u32).to_le_bytes());
            bytes
        };
        inode.i_block[2] = 2;
        inode.i_block[12..24].copy_from_slice(&extent(0, own.0));
        inode.i_block[24..36].copy_from_slice(&extent(2, other.0 + 2));
    });
    image.repair_of("inode-map.misaligned");
    assert!(image.read(FIRST) == contents(FIRST, 4));
    assert_eq!(image.extents(FIRST).len(), 1);
}

/// Fewer blocks than the size says, and one of them far behind it.
#[test]
fn a_block_far_behind_the_end_is_cut_off() {
    let image = two_files(UNSEALED, 100);
    let size = 110 * BLOCK;
    image.edit_inode(FIRST, |inode| inode.size = size);
    let last = *nodes(&image).last().unwrap();
    let entries = image.extents(FIRST).len() - (nodes(&image).len() - 1) * NODE_ENTRIES;
    change_block(&image, last, |bytes| {
        bytes[entries * 12..][..4].copy_from_slice(&5000u32.to_le_bytes());
    });
    let before = image.read(FIRST);
    image.repair_of("inode.size-wrong");
    assert_eq!(image.inode(FIRST).size, size);
    assert_eq!(image.read(FIRST), before);
}

/// Entries of a full node.
const NODE_ENTRIES: usize = (BLOCK as usize - 12) / 12;
