//! Blocks of directories.
//!
//! A directory of one block is linear; a larger one is hashed: its names are sorted by hash and
//! packed into leaves, and the index is built from the leaves up. Block 0 is the root, the leaves
//! follow, then the nodes, the lowest level first. Without `dir_index` all directories are linear.
//!
//! Invariant: leaves are in the order of hashes; the lowest bit of an index entry is set if the
//! hash began in the leaf before.

use std::ops::Range;

use uext4_format::dirent::{
    DirEntryType, DirLeaf, LeafTail, NewEntry, init_first_block, space_needed,
};
use uext4_format::hash::{CharSign, DirHash, DirHasher, HashVersion};
use uext4_format::htree::{DxEntry, DxNode, MaxLevels, RootInfo, init_root};
use uext4_format::{Feature, Features, InodeNr, LogicalBlock, Place, Seed};
use uext4_num::{clamp_u32, usize_of};

/// A name of a directory.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) inode: InodeNr,
    pub(crate) kind: DirEntryType,
}

/// What all directories of a file system have in common.
pub(crate) struct Format {
    pub(crate) block_size: u32,
    features: Features,
    tail: LeafTail,
    hasher: DirHasher,
    packing: Packing,
}

/// How names fill the leaves of hashed directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// All leaves but the last are full.
    Full,
    /// A leaf has all names of a range of hashes, which is halved if it has too many. So a name
    /// more or less changes one leaf.
    ByHash,
}

/// The directory whose blocks are made.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) inode: InodeNr,
    pub(crate) parent: InodeNr,
    pub(crate) seed: Option<Seed>,
    /// Fewest blocks.
    pub(crate) blocks_min: u32,
}

/// The blocks of a directory, back to back.
pub(crate) struct Blocks {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_indexed: bool,
}

/// The index cannot hold so many names.
pub(crate) struct TooManyNames;

impl Format {
    pub(crate) fn new(
        features: Features,
        block_size: u32,
        seed: [u32; 4],
        packing: Packing,
    ) -> Format {
        Format {
            block_size,
            features,
            tail: match features.has(Feature::METADATA_CSUM) {
                true => LeafTail::Checksum,
                false => LeafTail::None,
            },
            hasher: DirHasher {
                version: HashVersion::HalfMd4,
                sign: CharSign::Signed,
                seed,
            },
            packing,
        }
    }

    /// The type that entries of a file have.
    pub(crate) fn kind(&self, kind: uext4_format::FileType) -> DirEntryType {
        match self.features.has(Feature::FILETYPE) {
            true => DirEntryType::from(kind),
            false => DirEntryType::Unknown,
        }
    }

    /// The blocks of a directory with these names, sorted by bytes.
    pub(crate) fn build(&self, owner: Owner, items: &[Item<'_>]) -> Result<Blocks, TooManyNames> {
        let dots = 2 * space_needed(1);
        let needed: usize = items.iter().map(|item| space_needed(item.name.len())).sum();
        let fits = dots + needed <= self.area();
        if fits || !self.features.has(Feature::DIR_INDEX) {
            return Ok(self.linear(owner, items));
        }
        self.hashed(owner, items)
    }

    fn size(&self) -> usize {
        usize_of(self.block_size)
    }

    fn area(&self) -> usize {
        self.size() - self.tail.bytes()
    }

    fn leaf(&self, owner: Owner, entries: &[NewEntry<'_>]) -> Vec<u8> {
        let place = Place::Inode(owner.inode);
        let mut bytes = vec![0; self.size()];
        let mut leaf = DirLeaf::init(&mut bytes[..], self.tail, place);
        if !entries.is_empty() {
            leaf.pack(entries.iter().copied())
                .expect("the entries were measured");
        }
        if let Some(seed) = owner.seed {
            leaf.update_checksum(seed);
        }
        bytes
    }

    fn dots(&self, owner: Owner) -> [NewEntry<'static>; 2] {
        let kind = self.kind(uext4_format::FileType::Directory);
        let entry = |inode, name| NewEntry { inode, name, kind };
        [entry(owner.inode, b"."), entry(owner.parent, b"..")]
    }

    fn linear(&self, owner: Owner, items: &[Item<'_>]) -> Blocks {
        let entries = items.iter().map(Item::entry);
        let entries: Vec<NewEntry<'_>> = self.dots(owner).into_iter().chain(entries).collect();
        let mut bytes = Vec::new();
        for range in self.pack(entries.iter().map(|entry| entry.name.len())) {
            bytes.extend(self.leaf(owner, &entries[range]));
        }
        while bytes.len() < usize_of(owner.blocks_min) * self.size() {
            bytes.extend(self.leaf(owner, &[]));
        }
        Blocks {
            bytes,
            is_indexed: false,
        }
    }

    /// Ranges of names that fill one block each.
    fn pack(&self, lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut used = 0;
        for (at, len) in lengths.enumerate() {
            let space = space_needed(len);
            match ranges.last_mut() {
                Some(last) if used + space <= self.area() => {
                    last.end = at + 1;
                    used += space;
                }
                _ => {
                    ranges.push(at..at + 1);
                    used = space;
                }
            }
        }
        ranges
    }

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

    fn hashed(&self, owner: Owner, items: &[Item<'_>]) -> Result<Blocks, TooManyNames> {
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
            let entry = |(_, at): &(DirHash, u32)| items[usize_of(*at)].entry();
            let entries: Vec<NewEntry<'_>> = names.iter().map(entry).collect();
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
        let max = match self.features.has(Feature::LARGE_DIR) {
            true => MaxLevels::Three,
            false => MaxLevels::Two,
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

impl<'a> Item<'a> {
    pub(crate) fn entry(&self) -> NewEntry<'a> {
        NewEntry {
            inode: self.inode,
            name: self.name,
            kind: self.kind,
        }
    }
}
