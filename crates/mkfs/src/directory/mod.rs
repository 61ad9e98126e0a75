//! Directories with given names, as they are on the disk: for images, and for repairs.
//!
//! A directory of one block is linear; a larger one is hashed: its names are sorted by hash and
//! packed into leaves, and the index is built from the leaves up (`index`). Without `dir_index`
//! all directories are linear. With `inline_data` a small one may be in its inode (`inline`).
//!
//! Not here: the map of the blocks, and changes of directories that exist.

mod index;
mod inline;

pub use inline::inline;

use std::ops::Range;

use uext4_format::dirent::{DirEntryType, DirLeaf, LeafTail, NewEntry, space_needed};
use uext4_format::hash::DirHasher;
use uext4_format::{DamageLocation, Feature, Features, InodeNr, Seed};
use uext4_num::usize_of;

/// A name of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The name, of 1 to 255 bytes.
    pub name: &'a [u8],
    /// The file that it leads to.
    pub inode: InodeNr,
    /// The type of that file, as the entry stores it: see [`Format::kind`].
    pub kind: DirEntryType,
}

/// What all directories of a file system have in common.
#[derive(Clone, Debug)]
pub struct Format {
    block_size: u32,
    /// Features of the file system.
    pub features: Features,
    tail: LeafTail,
    hasher: DirHasher,
    packing: Packing,
}

/// How names fill the leaves of hashed directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// All leaves but the last are full.
    Full,
    /// A leaf has all names of a range of hashes, which is halved if it has too many. So a name
    /// more or less changes one leaf.
    ByHash,
}

/// The directory whose blocks are made.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Its number.
    pub inode: InodeNr,
    /// Where ".." leads.
    pub parent: InodeNr,
    /// The seed of its checksums; `None` without the feature `metadata_csum`.
    pub seed: Option<Seed>,
    /// Fewest blocks that it gets, if it is linear.
    pub blocks_min: u32,
}

/// The blocks of a directory, back to back.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Their bytes, with checksums.
    pub bytes: Vec<u8>,
    /// Whether the inode gets the flag INDEX.
    pub is_indexed: bool,
}

/// The index cannot hold so many names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyNames;

impl Format {
    /// The directories of a file system with these features. `hasher` is the one of its superblock.
    pub fn new(features: Features, block_size: u32, hasher: DirHasher, packing: Packing) -> Format {
        Format {
            block_size,
            features,
            tail: if features.has(Feature::METADATA_CSUM) {
                LeafTail::Checksum
            } else {
                LeafTail::None
            },
            hasher,
            packing,
        }
    }

    /// The type that entries of a file have.
    pub fn kind(&self, kind: uext4_format::FileType) -> DirEntryType {
        if self.features.has(Feature::FILETYPE) {
            DirEntryType::from(kind)
        } else {
            DirEntryType::Unknown
        }
    }

    /// The blocks of a directory with these names. Equal names are the caller's mistake.
    ///
    /// # Errors
    /// [`TooManyNames`]: an index of the deepest kind is full.
    pub fn build(&self, owner: Owner, items: &[Item<'_>]) -> Result<Blocks, TooManyNames> {
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

    /// The blocks of a directory without an index, with the names in this order.
    pub fn linear(&self, owner: Owner, items: &[Item<'_>]) -> Blocks {
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
}

impl<'a> Item<'a> {
    /// The entry of the name.
    pub fn entry(&self) -> NewEntry<'a> {
        NewEntry {
            inode: self.inode,
            name: self.name,
            kind: self.kind,
        }
    }
}
