//! Attributes, access control lists and inline data written by the kernel.

use std::path::Path;

use super::volume::Node;
use super::{Volume, filled, run};
use uext4_format::RawInode;
use uext4_format::acl::Acl;
use uext4_format::inline_data::{parent, read_file, records};
use uext4_format::xattr::{
    EaInodeFields, NameIndex, XattrBlock, XattrName, XattrSet, XattrValue, block_capacity_bytes,
    decode_block, decode_ibody, encode_block, encode_ibody, entry_hash_of_inode, value_hash,
};
use uext4_format::{DamageLocation, InodeFlags, InodeNr};
use uext4_testkit::oracle::KernelMount;

fn set(file: &Path, name: &str, value: &str) {
    run("setfattr", &["-n", name, "-v", value], file);
}

fn fill(root: &Path) {
    for number in 0..6 {
        let file = root.join(format!("file{number}"));
        std::fs::write(&file, "x").expect("write");
        set(&file, "user.small", "value");
        set(&file, "trusted.of", "root");
        set(&file, "security.other", &"s".repeat(10 * number));
        set(&file, "user.shared", &"long".repeat(60));
        set(&file, "user.z", "");
        run("setfacl", &["-m", "u:1000:rw,g:50:r"], &file);
    }
    let dir = root.join("dir");
    std::fs::create_dir(&dir).expect("mkdir");
    run("setfacl", &["-d", "-m", "u:1000:rwx"], &dir);
    std::fs::write(dir.join("child"), "x").expect("write");
}

fn ibody(volume: &Volume, node: &Node) -> XattrSet {
    let start = RawInode(&node.raw).fields().len();
    let area = &node.raw[start..];
    let found =
        decode_ibody(area, DamageLocation::Inode(node.ino)).expect("attributes in the inode");
    let mut copy = area.to_vec();
    encode_ibody(&mut copy, &found).expect("fits where it was");
    assert_eq!(
        decode_ibody(&copy, DamageLocation::Inode(node.ino)).expect("ours"),
        found
    );
    check_values(volume, &found);
    found
}

fn block(volume: &Volume, node: &Node) -> Option<XattrSet> {
    let nr = node.inode.file_acl;
    if nr.0 == 0 {
        return None;
    }
    let bytes = volume.block(nr);
    let header = XattrBlock::new(&bytes[..]);
    if let Some(seed) = volume.seed() {
        header.verify_checksum(seed, nr).expect("checksum");
    }
    let found = decode_block(&bytes, DamageLocation::Block(nr)).expect("attributes in a block");
    assert!(found.area_bytes() <= block_capacity_bytes(bytes.len()));
    let mut copy = vec![0; bytes.len()];
    encode_block(&mut copy, &found).expect("fits where it was");
    assert_eq!(
        decode_block(&copy, DamageLocation::Block(nr)).expect("ours"),
        found,
        "same order"
    );
    assert_eq!(
        XattrBlock::new(&copy[..]).hash(),
        header.hash(),
        "same hashes"
    );
    check_values(volume, &found);
    Some(found)
}

fn check_values(volume: &Volume, set: &XattrSet) {
    for entry in set.iter() {
        match &entry.value {
            XattrValue::Here(value) if matches!(entry.name.index.0, 2 | 3) => {
                let acl = Acl::from_disk(value).expect("list").expect("entries");
                assert_eq!(&acl.to_disk(), value);
                assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl)));
            }
            XattrValue::Inode {
                inode,
                size,
                entry_hash,
            } => {
                let node = volume.node(*inode).expect("inode of a value");
                assert!(node.has(InodeFlags::EA_INODE));
                assert_eq!(node.inode.size, u64::from(*size));
                let mut value = Vec::new();
                for (_, nr, _) in volume.map(&node) {
                    value.extend(volume.block(nr));
                }
                value.truncate(*size as usize);
                let hash = value_hash(volume.seed().expect("checksums are on"), &value);
                let at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| node.raw[at + i]));
                let fields = EaInodeFields::from_raw(at(8), at(12), at(36));
                assert_eq!((fields.hash, fields.refcount), (hash, 2));
                assert_eq!(*entry_hash, entry_hash_of_inode(&entry.name.rest, hash));
            }
            XattrValue::Here(_) => {}
        }
    }
}

#[test]
fn attributes_of_the_kernel() {
    if !KernelMount::available_or_skip("attributes_of_the_kernel") {
        return;
    }
    let mut blocks = 0;
    let volume = filled(&["-b", "1024"], "half_md4", fill);
    let mut lists = [0; 2];
    for node in volume.nodes() {
        let inside = ibody(&volume, &node);
        let outside = block(&volume, &node);
        blocks += usize::from(outside.is_some());
        for entry in inside.iter().chain(outside.iter().flat_map(XattrSet::iter)) {
            lists[0] += usize::from(entry.name.index == NameIndex::POSIX_ACL_ACCESS);
            lists[1] += usize::from(entry.name.index == NameIndex::POSIX_ACL_DEFAULT);
        }
        let shared = XattrName::from_full(b"user.shared").expect("a name");
        if let Some(value) = outside.as_ref().and_then(|set| set.get(&shared)) {
            assert_eq!(*value, XattrValue::Here("long".repeat(60).into_bytes()));
        }
    }
    assert!(blocks >= 6, "{blocks} blocks of attributes");
    assert_eq!(lists, [7, 1]);
}

#[test]
fn values_in_inodes_of_the_kernel() {
    if !KernelMount::available_or_skip("values_in_inodes_of_the_kernel") {
        return;
    }
    let volume = filled(&["-b", "1024", "-O", "ea_inode"], "half_md4", |root| {
        for name in ["one", "two"] {
            std::fs::write(root.join(name), "x").expect("write");
            set(&root.join(name), "user.big", &"0123456789".repeat(500));
        }
    });
    let mut found = 0;
    for node in volume.nodes() {
        let sets = [Some(ibody(&volume, &node)), block(&volume, &node)];
        let entries = sets.iter().flatten().flat_map(XattrSet::iter);
        found += entries
            .filter(|e| matches!(e.value, XattrValue::Inode { .. }))
            .count();
    }
    assert_eq!(found, 2);
}

#[test]
fn inline_data_of_the_kernel() {
    if !KernelMount::available_or_skip("inline_data_of_the_kernel") {
        return;
    }
    // 128 is the largest that fits an inode of 256 bytes.
    let sizes = [1_usize, 59, 60, 61, 100, 128];
    let volume = filled(&["-O", "inline_data", "-I", "256"], "half_md4", |root| {
        let dir = root.join("dir");
        std::fs::create_dir(&dir).expect("mkdir");
        std::fs::write(root.join("too-large"), [129; 129]).expect("write");
        for size in sizes {
            std::fs::write(dir.join(format!("f{size}")), vec![size as u8; size]).expect("write");
        }
    });
    let (mut files, mut names) = (0, Vec::new());
    for node in volume
        .nodes()
        .filter(|node| node.has(InodeFlags::INLINE_DATA))
    {
        let set = ibody(&volume, &node);
        let value = match set.get(&XattrName::inline_data()).expect("system.data") {
            XattrValue::Here(value) => value.clone(),
            XattrValue::Inode { .. } => panic!("inline data is inline"),
        };
        if node.inode.mode >> 12 == 4 {
            assert_eq!(parent(&node.inode.i_block), InodeNr(2));
            let records = records(&node.inode.i_block, &value, DamageLocation::Inode(node.ino));
            let records: Vec<_> = records.map(|record| record.expect("record")).collect();
            let used = records.iter().filter(|record| !record.is_free());
            names.extend(used.map(|record| record.name.to_vec()));
        } else {
            let data = read_file(&node.inode.i_block, &value, node.inode.size).expect("fits");
            assert_eq!(data, vec![data.len() as u8; data.len()]);
            assert!(sizes.contains(&data.len()));
            files += 1;
        }
    }
    names.sort();
    let mut wanted = sizes.map(|size| format!("f{size}").into_bytes()).to_vec();
    wanted.sort();
    assert_eq!((files, names), (sizes.len(), wanted));
}
