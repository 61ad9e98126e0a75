//! A directory under repair, and its blocks.

use super::accepted::Accepted;
use super::patch::Patch;
use super::salvage::{Area, Scan};
use crate::opened::Rules;
use crate::state::Step;
use std::collections::HashMap;
use uext4_format::dirent::{BlockKind, LeafTail, seal_block};
use uext4_format::extent::Extent;
use uext4_format::htree::DxNode;
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, Inode, InodeFlags, InodeNr, Seed,
};

/// A directory under repair.
pub(super) struct DamagedDirectory {
    pub(super) nr: InodeNr,
    pub(super) rules: Rules,
    pub(super) inode: Inode,
    pub(super) accepted: Accepted,
    pub(super) seed: Option<Seed>,
    pub(super) tail: LeafTail,
    /// Whether its names are found by an index.
    pub(super) is_indexed: bool,
    /// Sound names that the check did not count, by inode.
    pub(super) uncounted: HashMap<u32, u32>,
}

/// A block of a directory, with its number in it.
#[derive(Clone, Copy)]
pub(super) struct DirBlock {
    pub(super) logical: u64,
    pub(super) nr: BlockNr,
}

impl DirBlock {
    pub(super) fn all(extents: &[Extent]) -> impl Iterator<Item = DirBlock> + Clone + '_ {
        extents.iter().flat_map(|extent| {
            let logical = u64::from(extent.logical.0);
            (0..u64::from(extent.len)).map(move |at| DirBlock {
                logical: logical + at,
                nr: BlockNr(extent.start.0 + at),
            })
        })
    }
}

impl DamagedDirectory {
    pub(super) fn location_of(&self, block: DirBlock) -> DamageLocation {
        DamageLocation::InodeBlock(self.nr, block.nr)
    }

    /// Whether entries have hashes behind their names, which nothing here can make.
    pub(super) fn has_stored_hashes(&self) -> bool {
        let both = InodeFlags::CASEFOLD.union(InodeFlags::ENCRYPT);
        self.inode.flags.contains(both)
    }

    /// Whether the problems are about more than the blocks that have them.
    pub(super) fn is_to_be_rebuilt(&self) -> bool {
        self.accepted
            .all()
            .any(|(structure, problem)| match problem {
                CorruptKind::Checksum { .. } => false,
                CorruptKind::Holes
                | CorruptKind::LookedElsewhere
                | CorruptKind::NameTwice
                | CorruptKind::DirectoryTwice => true,
                CorruptKind::NameBytes | CorruptKind::NameEmpty | CorruptKind::NameLong { .. } => {
                    self.is_indexed
                }
                _ => matches!(structure, "htree" | "htree node" | "htree root"),
            })
    }

    /// Where entries of a block are looked for.
    pub(super) fn scan_of(&self, block: DirBlock) -> Scan {
        let found = self.accepted.at(self.location_of(block)).iter();
        let is_unsealed = found.map(|(_, problem)| problem).any(|problem| {
            matches!(
                problem,
                CorruptKind::Checksum { .. } | CorruptKind::ChecksumTail
            )
        });
        if is_unsealed {
            Scan::Slack
        } else {
            Scan::Damage
        }
    }

    /// Whether a block belongs to the index.
    pub(super) fn is_node(&self, bytes: &[u8]) -> bool {
        let place = DamageLocation::Inode(self.nr);
        self.is_indexed
            && BlockKind::of(bytes) == BlockKind::Node
            && DxNode::parse_node(bytes, self.tail, place).is_ok()
    }

    pub(super) fn is_root(&self, block: DirBlock, bytes: &[u8]) -> bool {
        self.is_indexed && block.logical == 0 && BlockKind::of(bytes) == BlockKind::Root
    }

    /// The part of a block that has records; all of it if it has no tail.
    pub(super) fn area<'b>(&self, bytes: &'b [u8]) -> Area<'b> {
        Area {
            rules: self.rules,
            bytes,
            block_size: bytes.len(),
            tail: self.tail,
        }
    }

    pub(super) fn seal(&self, bytes: &mut [u8]) {
        if let Some(seed) = self.seed {
            seal_block(bytes, seed);
        }
    }
}

impl Patch<'_, '_> {
    pub(super) fn damaged_directory(
        &mut self,
        nr: InodeNr,
        accepted: Accepted,
    ) -> Step<Option<DamagedDirectory>> {
        let Some(inode) = self.inode(nr)? else {
            return Ok(None);
        };
        let seed = self.check.checksums.inode_seed(nr, inode.generation);
        let has_indexes = self.check.geometry.features.has(Feature::DIR_INDEX);
        Ok(Some(DamagedDirectory {
            nr,
            rules: self.check.rules_of(nr, &inode),
            accepted,
            seed,
            tail: match seed {
                Some(_) => LeafTail::Checksum,
                None => LeafTail::None,
            },
            is_indexed: has_indexes && inode.flags.contains(InodeFlags::INDEX),
            uncounted: HashMap::new(),
            inode,
        }))
    }

    pub(super) fn is_unreadable(&self, nr: InodeNr) -> bool {
        self.check.unreadable.has(nr.0.into())
    }

    /// The blocks of a directory; none if it is in its inode.
    pub(super) fn blocks_of_directory(&mut self, dir: &DamagedDirectory) -> Step<Vec<Extent>> {
        if dir.inode.flags.contains(InodeFlags::INLINE_DATA) {
            return Ok(Vec::new());
        }
        self.extents_of(dir.nr, &dir.inode)
    }
}
