//! Hashed directories: leaves in the order of hashes, and the index above them.
//!
//! Block 0 is the root, the leaves follow, then the nodes, the lowest level first.
//!
//! Invariant: the lowest bit of an index entry is set if the hash began in the leaf before.

use std::ops::Range;

use uext4_format::dirent::{NewEntry, init_first_block, space_needed};
use uext4_format::hash::DirHash;
use uext4_format::htree::{DxEntry, DxNode, MaxLevels, RootInfo, init_root};
use uext4_format::{Feature, LogicalBlock};
use uext4_num::{clamp_u32, usize_of};

use crate::directory::{Blocks, Format, Item, Owner, Packing, TooManyNames};

impl Format {
    /// Ranges of names, given as hash and length, that have the hashes of one leaf each.
    fn by_hash(&self, names: &[(u32, usize)]) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        // Ranges that are left, the next one last, with the highest bit that may differ in them.
        let mut left = vec![(0..names.len(), u32::BITS)];
        while let Some((range, bits)) = left.pop() {
            let own = &names[range.clone()];
            let needed: usize = own.iter().map(|(_, len)| space_needed(*len)).sum();
            if needed <= self.area() {
                ranges.extend((!range.is_empty()).then_some(range));
            } else if let Some(bit) = bits.checked_sub(1) {
                let middle = own.partition_point(|(hash, _)| hash >> bit & 1 == 0);
                let middle = range.start + middle;
                left.push((middle..range.end, bit));
                left.push((range.start..middle, bit));
            } else {
                let equal = self.pack(own.iter().map(|(_, len)| *len)).into_iter();
                let first = range.start;
                ranges.extend(equal.map(|one| first + one.start..first + one.end));
            }
        }
        ranges
    }

    /// The blocks of a directory whose names need more than one.
    pub(super) fn hashed(&self, owner: Owner, items: &[Item<'_>]) -> Result<Blocks, TooManyNames> {
        let mut sorted: Vec<(DirHash, u32)> = (0..clamp_u32(items.len()))
            .zip(items)
            .map(|(at, item)| (self.hasher.hash(item.name), at))
            .collect();
        sorted.sort_unstable();
        let name_len = |(_, at): &(DirHash, u32)| items[usize_of(*at)].name.len();
        let leaves = match self.packing {
            Packing::Full => self.pack(sorted.iter().map(name_len)),
            Packing::ByHash => {
                let hashes = sorted.iter().map(|one| (one.0.major, name_len(one)));
                self.by_hash(&hashes.collect::<Vec<_>>())
            }
        };
        let mut bytes = vec![0; self.size()];
        let mut index = Vec::with_capacity(leaves.len());
        let mut last_hash = None;
        for (range, block) in leaves.into_iter().zip(1..) {
            let names = &sorted[range];
            let entries = names.iter().map(|(_, at)| items[usize_of(*at)].entry());
            let entries: Vec<NewEntry<'_>> = entries.collect();
            bytes.extend(self.leaf(owner, &entries));
            let hash = names[0].0.major;
            let continued = u32::from(last_hash == Some(hash));
            index.push(DxEntry {
                hash: hash | continued,
                block: LogicalBlock(block),
            });
            last_hash = names.last().map(|(hash, _)| hash.major);
        }
        self.index(owner, &mut bytes, index)?;
        Ok(Blocks {
            bytes,
            is_indexed: true,
        })
    }

    /// Adds the nodes above the leaves, and makes the root.
    fn index(
        &self,
        owner: Owner,
        bytes: &mut Vec<u8>,
        mut level: Vec<DxEntry>,
    ) -> Result<(), TooManyNames> {
        let empty = vec![0; self.size()];
        let (in_root, in_node) = (
            DxNode::root(&empty).capacity(self.tail),
            DxNode::node(&empty).capacity(self.tail),
        );
        let max = if self.features.has(Feature::LARGE_DIR) {
            MaxLevels::Three
        } else {
            MaxLevels::Two
        };
        let mut levels = 0;
        while level.len() > in_root {
            levels += 1;
            let mut above = Vec::new();
            for children in level.chunks(in_node) {
                let block = LogicalBlock(clamp_u32(bytes.len() / self.size()));
                above.push(DxEntry {
                    hash: children[0].hash,
                    block,
                });
                bytes.extend(self.node(owner, children));
            }
            level = above;
        }
        if levels > max.indirect() {
            return Err(TooManyNames);
        }
        let (root, _) = bytes.split_at_mut(self.size());
        self.root(owner, root, &level, levels);
        Ok(())
    }

    fn node(&self, owner: Owner, children: &[DxEntry]) -> Vec<u8> {
        let mut bytes = vec![0; self.size()];
        let node = DxNode::init_node(&mut bytes[..], self.tail, children[0].block);
        self.fill(owner, node, children);
        bytes
    }

    fn root(&self, owner: Owner, root: &mut [u8], children: &[DxEntry], levels: u8) {
        let kind = self.kind(uext4_format::FileType::Directory);
        init_first_block(root, self.tail, owner.inode, owner.parent, kind);
        init_root(root, self.hasher.version, self.tail, children[0].block);
        RootInfo::set_indirect_levels(root, levels);
        self.fill(owner, DxNode::root(root), children);
    }

    fn fill(&self, owner: Owner, mut node: DxNode<&mut [u8]>, children: &[DxEntry]) {
        for (at, entry) in children.iter().enumerate().skip(1) {
            node.insert(at, *entry)
                .expect("node capacities were respected");
        }
        if let Some(seed) = owner.seed {
            node.update_checksum(seed);
        }
    }
}
