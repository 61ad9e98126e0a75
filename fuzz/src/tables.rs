//! Superblock, descriptors, inodes and what they refer to.

use uext4_format::acl::Acl;
use uext4_format::extent::{Expect, ExtentNode};
use uext4_format::mmp::Mmp;
use uext4_format::orphan_file::{orphan_slot, orphan_slots_per_block, verify_orphan_block};
use uext4_format::quota::{QUOTA_BLOCK_BYTES, QuotaKind, QuotaTree};
use uext4_format::xattr::{
    Area, decode_block, decode_ibody, encode_block, encode_ibody, hashes_match,
    offsets_fit,
};
use uext4_format::{
    BlockNr, Checksums, GroupDescriptor, GroupNr, Inode, InodeNr, DamageLocation, RawInode, Superblock,
    indirect,
};

const PLACE: DamageLocation = DamageLocation::Superblock;

/// The superblock; if its numbers fit together, the layout of its first and last groups.
pub fn superblock(data: &[u8]) {
    let Ok(superblock) = Superblock::parse_unverified(data) else {
        return;
    };
    let again = Superblock::parse_unverified(&superblock.to_bytes()).expect("it has the magic");
    assert_eq!(again.geometry(), superblock.geometry());
    let Ok(geometry) = superblock.geometry() else {
        return;
    };
    for nr in [0, 1, geometry.group_count / 2, geometry.group_count - 1] {
        let group = GroupNr(nr.min(geometry.group_count - 1));
        let first = geometry.group_first_block(group);
        assert_eq!(geometry.split_block(first), (group, 0));
        assert!(geometry.base_metadata_blocks(group) <= geometry.blocks_per_group);
        let _ = (
            geometry.descriptor_location(group),
            geometry.clusters_in_group(group),
        );
        let _ = uext4_format::bitmap::uninit_inode_bitmap(&geometry);
    }
}

/// A group descriptor of 64 bytes.
pub fn group(data: &[u8]) {
    let geometry = crate::geometry();
    let parse =
        |bytes: &[u8]| GroupDescriptor::parse(bytes, GroupNr(1), &geometry, &Checksums::NONE);
    if let Ok(descriptor) = parse(data) {
        let mut bytes = [0; 64];
        descriptor.write_to(&mut bytes, GroupNr(1), &geometry, &Checksums::NONE);
        assert_eq!(parse(&bytes), Ok(descriptor));
    }
}

/// An inode of 256 bytes, its map, and its attributes.
pub fn inode(data: &[u8]) {
    let raw = RawInode(data);
    assert!(raw.fields().len() <= data.len());
    let geometry = crate::geometry();
    let parse = |bytes: &[u8]| Inode::parse(bytes, InodeNr(12), &geometry, &Checksums::NONE);
    let Ok(inode) = parse(data) else { return };
    let mut bytes = [0; 256];
    inode.write_to(&mut bytes, InodeNr(12), &geometry, &Checksums::NONE);
    assert_eq!(parse(&bytes), Ok(inode.clone()));
    let _ = (
        inode.sectors(&geometry),
        inode.file_type(),
        inode.device_number(),
    );
    extent(&inode.i_block);
    xattr(&inode.tail);
}

/// An extent node (60 bytes are a root) and a table of block pointers.
pub fn extent(data: &[u8]) {
    let node = ExtentNode::new(data);
    if node.validate(&Expect::root(1..1 << 48), PLACE).is_ok() {
        for at in 0..node.count() {
            let key = node.key(at).expect("it is counted");
            assert_eq!(node.search(key), Some(at));
        }
        if node.depth() == 0 && !node.is_full() {
            let mut copy = data.to_vec();
            let mut copy = ExtentNode::new(&mut copy[..]);
            if let Some(first) = node.extent(0) {
                copy.insert_extent(0, first).expect("it is not full");
                copy.remove(0..1);
                assert!(copy.extents().eq(node.extents()));
            }
        }
    }
    let _ = indirect::validate(data, &(1..1 << 20), PLACE);
}

/// A block and an inode's area of extended attributes, and lists of access rights in the values.
pub fn xattr(data: &[u8]) {
    if let Ok(set) = decode_block(data, PLACE) {
        let mut block = vec![0; data.len()];
        if encode_block(&mut block, &set).is_ok() {
            let again = decode_block(&block, PLACE).expect("it was encoded");
            assert_eq!(again.area_bytes(), set.area_bytes());
        }
        let _ = (
            hashes_match(data, Area::InBlock),
            offsets_fit(data, Area::InBlock),
        );
    }
    if let Ok(set) = decode_ibody(data, PLACE) {
        let mut area = vec![0; data.len()];
        if encode_ibody(&mut area, &set).is_ok() {
            assert_eq!(decode_ibody(&area, PLACE), Ok(set));
        }
        let _ = (
            hashes_match(data, Area::InInode),
            offsets_fit(data, Area::InInode),
        );
    }
    acl(data);
}

/// Access control lists in both encodings.
pub fn acl(data: &[u8]) {
    if let Ok(Some(acl)) = Acl::from_disk(data) {
        assert_eq!(Acl::from_disk(&acl.to_disk()), Ok(Some(acl.clone())));
        assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl)));
    }
    if let Ok(Some(acl)) = Acl::from_xattr(data) {
        assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl)));
    }
}

/// The MMP block and a block of the orphan file.
pub fn mmp_and_orphans(data: &[u8]) {
    if let Ok(mmp) = Mmp::parse(data, BlockNr(9), &Checksums::NONE) {
        let mut block = vec![0; 1024];
        mmp.write_to(&mut block, &Checksums::NONE);
        assert_eq!(Mmp::parse(&block, BlockNr(9), &Checksums::NONE), Ok(mmp));
    }
    let _ = verify_orphan_block(data, BlockNr(9), None);
    let slots = orphan_slots_per_block(data.len());
    assert_eq!(orphan_slot(data, slots), None);
    let _ = (0..slots)
        .filter_map(|slot| orphan_slot(data, slot))
        .count();
}

/// A quota file, and an insert into one that can be read.
pub fn quota(data: &[u8]) {
    let read = |nr: u32| {
        let at = nr as usize * QUOTA_BLOCK_BYTES;
        let block = data.get(at..).and_then(<[u8]>::first_chunk);
        block.copied().ok_or(uext4_format::CorruptKind::Hole)
    };
    if let Ok((mut tree, _)) = QuotaTree::read(QuotaKind::User, read, |problem| problem) {
        let (at, patches) = tree.insert(0x0102_0304);
        assert!(at < tree.used_bytes() && !patches.is_empty());
    }
}
