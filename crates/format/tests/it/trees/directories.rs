//! Hashed and linear directories written by the kernel.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::volume::Node;
use super::{Volume, filled};
use uext4_format::dirent::{DirLeaf, LeafTail, NewEntry};
use uext4_format::hash::{CharSign, DirHasher, HashVersion};
use uext4_format::htree::{DxNode, MaxLevels, RootInfo};
use uext4_format::superblock::flag;
use uext4_format::{DamageLocation, InodeFlags};
use uext4_testkit::oracle::KernelMount;

fn name(number: u32) -> Vec<u8> {
    let mut name = format!("file-{number:0>width$}", width = 1 + number as usize % 60).into_bytes();
    name.extend([0x80 + (number % 128) as u8, 0xFF]);
    name
}

fn fill(root: &Path, count: u32) {
    let dir = root.join("many");
    std::fs::create_dir(&dir).expect("mkdir");
    for number in 0..count {
        File::create(dir.join(OsStr::from_bytes(&name(number)))).expect("create");
    }
    for number in (0..count).step_by(3) {
        std::fs::remove_file(dir.join(OsStr::from_bytes(&name(number)))).expect("remove");
    }
}

/// A directory under check.
struct Walk<'a> {
    volume: &'a Volume,
    node: &'a Node,
    map: BTreeMap<u32, Vec<u8>>,
    tail: LeafTail,
    place: DamageLocation,
    names: Vec<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn new(volume: &'a Volume, node: &'a Node) -> Self {
        let blocks = volume.map(node).into_iter();
        let map = blocks
            .map(|(logical, nr, _)| (logical, volume.block(nr)))
            .collect();
        let tail = if node.seed.is_some() {
            LeafTail::Checksum
        } else {
            LeafTail::None
        };
        Walk {
            volume,
            node,
            map,
            tail,
            place: DamageLocation::Inode(node.ino),
            names: Vec::new(),
        }
    }

    fn hasher(&self, info: RootInfo) -> DirHasher {
        let unsigned = self.volume.superblock.flags & flag::UNSIGNED_HASH != 0;
        let sign = if unsigned {
            CharSign::Unsigned
        } else {
            CharSign::Signed
        };
        DirHasher {
            version: info.hash_version,
            sign,
            seed: self.volume.superblock.hash_seed,
        }
    }

    /// Checks a leaf; returns whether every name's hash is in `range`.
    fn leaf(&mut self, block: &[u8], hashes: Option<(DirHasher, u32, u32)>) {
        let leaf = DirLeaf::new(block, self.tail, self.place);
        leaf.validate().expect("leaf");
        if let Some(seed) = self.node.seed {
            leaf.verify_checksum(seed).expect("leaf checksum");
        }
        let entries: Vec<_> = leaf.entries().map(|entry| entry.expect("entry")).collect();
        for entry in &entries {
            assert_eq!(
                leaf.find(entry.name)
                    .expect("find")
                    .map(|found| found.offset),
                Some(entry.offset)
            );
            if let Some((hasher, low, high)) = hashes {
                let hash = hasher.hash(entry.name).major;
                assert!(
                    (low & !1..=high).contains(&hash),
                    "{hash:x} not in {low:x}..{high:x}"
                );
            }
        }
        self.names
            .extend(entries.iter().map(|entry| entry.name.to_vec()));
        let mut copy = DirLeaf::new(block.to_vec(), self.tail, self.place);
        let entries = entries.iter().map(|entry| NewEntry {
            inode: entry.inode,
            name: entry.name,
            kind: entry.kind,
        });
        copy.pack(entries.clone()).expect("fits where it was");
        assert!(
            copy.entries()
                .map(|entry| entry.unwrap().name.to_vec())
                .eq(entries.map(|e| e.name.to_vec()))
        );
    }

    fn index(&mut self, node: &DxNode<&[u8]>, levels: u8, hasher: DirHasher, end: u32) {
        if let Some(seed) = self.node.seed {
            node.verify_checksum(seed, self.tail, self.place)
                .expect("index checksum");
        }
        let entries: Vec<_> = node.entries().collect();
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(node.search(entry.hash), at);
            let high = entries.get(at + 1).map_or(end, |next| next.hash);
            let block = self.map[&entry.block.0].clone();
            if levels == 0 {
                self.leaf(&block, Some((hasher, entry.hash, high)));
            } else {
                let below = DxNode::parse_node(&block[..], self.tail, self.place).expect("node");
                self.index(&below, levels - 1, hasher, high);
            }
        }
    }

    fn check(&mut self) {
        if !self.node.has(InodeFlags::INDEX) {
            for block in self.map.clone().into_values() {
                self.leaf(&block, None);
            }
            return;
        }
        let block = self.map[&0].clone();
        let info = RootInfo::parse(&block, MaxLevels::Two, self.place).expect("root");
        let root = DxNode::parse_root(&block[..], self.tail, self.place).expect("root entries");
        self.index(&root, info.indirect_levels, self.hasher(info), u32::MAX);
    }
}

fn version(name: &str) -> Option<HashVersion> {
    let code = ["legacy", "half_md4", "tea"]
        .iter()
        .position(|known| *known == name)?;
    HashVersion::from_code(code as u8)
}

fn check(options: &[&str], hash: &str, count: u32) -> u8 {
    let volume = filled(options, hash, |root| fill(root, count));
    let mut deepest = 0;
    let mut found = 0;
    for node in volume.nodes().filter(|node| node.inode.mode >> 12 == 4) {
        let mut walk = Walk::new(&volume, &node);
        walk.check();
        if node.has(InodeFlags::INDEX) {
            let info = RootInfo::parse(&walk.map[&0], MaxLevels::Two, walk.place).expect("root");
            assert_eq!(Some(info.hash_version), version(hash));
            deepest = deepest.max(info.indirect_levels);
            let mut wanted: Vec<_> = (0..count).filter(|n| n % 3 != 0).map(name).collect();
            wanted.sort();
            walk.names.sort();
            assert_eq!(walk.names, wanted);
            found += 1;
        }
    }
    assert_eq!(found, 1, "the directory is hashed");
    deepest
}

#[test]
fn hashed_directories_of_the_kernel() {
    if !KernelMount::available_or_skip("hashed_directories_of_the_kernel") {
        return;
    }
    assert_eq!(
        check(&["-b", "1024", "-N", "12000"], "half_md4", 8000),
        1,
        "two levels"
    );
    assert_eq!(check(&["-b", "4096"], "tea", 3000), 0);
    let plain = ["-b", "1024", "-N", "12000", "-O", "^metadata_csum"];
    assert_eq!(check(&plain, "legacy", 3000), 1);
}
