//! Blocks of directories.
//!
//! A directory of one block is linear; a larger one is hashed: its names are sorted by hash and
//! packed into leaves, and the index is built from the leaves up. Block 0 is the root, the leaves
//! follow, then the nodes, the lowest level first. Without `dir_index` all directories are linear.
//!
//! Invariant: leaves are in the order of hashes; the lowest bit of an index entry is set if the
//! hash began in the leaf before.

use std::ops::Range;

use uext4_format::dirent::{DirEntryType, DirLeaf, LeafTail, NewEntry, space_needed};
use uext4_format::hash::{CharSign, DirHasher, HashVersion};
use uext4_format::{DamageLocation, Feature, Features, InodeNr, Seed};
use uext4_num::usize_of;

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
    pub(crate) features: Features,
    pub(crate) tail: LeafTail,
    pub(crate) hasher: DirHasher,
    pub(crate) packing: Packing,
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
    /// Fewest blocks that the directory gets.
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
            tail: if features.has(Feature::METADATA_CSUM) {
                LeafTail::Checksum
            } else {
                LeafTail::None
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
        if self.features.has(Feature::FILETYPE) {
            DirEntryType::from(kind)
        } else {
            DirEntryType::Unknown
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

    pub(crate) fn size(&self) -> usize {
        usize_of(self.block_size)
    }

    pub(crate) fn area(&self) -> usize {
        self.size() - self.tail.bytes()
    }

    pub(crate) fn leaf(&self, owner: Owner, entries: &[NewEntry<'_>]) -> Vec<u8> {
        let place = DamageLocation::Inode(owner.inode);
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
    pub(crate) fn pack(&self, lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
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
