//! Check of a directory's htree: every leaf once, and names in the leaves of their hashes.

use super::names::Reach;
use super::opened::Dir;
use crate::state::{Check, Step};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use uext4_format::hash::DirHasher;
use uext4_format::htree::{DxNode, MaxLevels, RootInfo};
use uext4_format::{BlockNr, CorruptKind, DamageLocation, Feature};
use uext4_num::u64_of;

/// The content of an index.
pub(crate) struct Htree {
    hasher: DirHasher,
    /// Hash range of each leaf; `None` for a block of the index itself.
    parts: BTreeMap<u64, Option<RangeInclusive<u32>>>,
    /// Equal names are in one leaf, unless their hash is the first or the last of it.
    are_apart: bool,
}

/// Memory for each block, in bytes.
const BYTES_PER_PART: u64 = 48;

impl Htree {
    /// Whether the block belongs to the index itself.
    pub(crate) fn is_node(&self, logical: u64) -> bool {
        matches!(self.parts.get(&logical), Some(None))
    }

    /// The names that the index leads to this leaf for.
    pub(crate) fn bounds(&self, logical: u64) -> Bounds {
        Bounds {
            hasher: self.hasher,
            hashes: self.parts.get(&logical).cloned().flatten(),
            are_apart: self.are_apart,
        }
    }

    /// Whether leaves have at most their first or last hash in common with others.
    fn find_apart(&self) -> bool {
        let mut leaves: Vec<_> = self.parts.values().flatten().collect();
        leaves.sort_unstable_by_key(|hashes| *hashes.start());
        let mut pairs = leaves.windows(2);
        pairs.all(|pair| pair[0].end() <= pair[1].start())
    }
}

/// Names that belong to a leaf.
pub(crate) struct Bounds {
    hasher: DirHasher,
    hashes: Option<RangeInclusive<u32>>,
    are_apart: bool,
}

impl Bounds {
    /// Where else the name may be; `None` if it does not belong here.
    pub(crate) fn reach(&self, name: &[u8]) -> Option<Reach> {
        let hashes = self.hashes.as_ref()?;
        let hash = self.hasher.hash(name).major;
        let is_inside = *hashes.start() < hash && hash < *hashes.end();
        let reach = if self.are_apart && is_inside {
            Reach::Leaf
        } else {
            Reach::Directory
        };
        hashes.contains(&hash).then_some(reach)
    }
}

/// A node still to be visited.
struct Node {
    logical: u64,
    levels: u8,
    hashes: RangeInclusive<u32>,
}

impl Check<'_> {
    /// Reads the index of a directory; `None` if it is invalid.
    pub(crate) fn check_index(
        &mut self,
        dir: &Dir,
        blocks: &[(u64, BlockNr)],
    ) -> Step<Option<Htree>> {
        let Some(&(0, first)) = blocks.first() else {
            return Ok(None);
        };
        let bytes = self.read(first)?;
        let place = DamageLocation::InodeBlock(dir.nr, first);
        let levels = if self.geometry.features.has(Feature::LARGE_DIR) {
            MaxLevels::Three
        } else {
            MaxLevels::Two
        };
        let info = RootInfo::parse(&bytes, levels, place);
        let root =
            info.and_then(|info| Ok((info, DxNode::parse_root(&bytes[..], dir.tail, place)?)));
        let (info, root) = match root {
            Ok(found) => found,
            Err(corrupt) => {
                self.add_corrupt(&corrupt);
                return Ok(None);
            }
        };
        let mut index = Htree {
            hasher: DirHasher {
                version: info.hash_version,
                ..DirHasher::of(self.superblock)
            },
            parts: BTreeMap::from([(0, None)]),
            are_apart: false,
        };
        let mut waiting = Vec::new();
        self.spread(
            dir,
            &root,
            (info.indirect_levels, 0..=u32::MAX),
            &mut waiting,
        );
        while let Some(node) = waiting.pop() {
            self.check_node(dir, blocks, node, &mut index, &mut waiting)?;
        }
        index.are_apart = index.find_apart();
        self.give_back(u64_of(index.parts.len()) * BYTES_PER_PART);
        Ok(Some(index))
    }

    fn check_node(
        &mut self,
        dir: &Dir,
        blocks: &[(u64, BlockNr)],
        node: Node,
        index: &mut Htree,
        waiting: &mut Vec<Node>,
    ) -> Step {
        let is_leaf = node.levels == 0;
        let part = is_leaf.then(|| node.hashes.clone());
        if index.parts.insert(node.logical, part).is_some() {
            let detail = format!("block {}", node.logical);
            let problem = CorruptKind::BlockTwice;
            self.add_detailed(DamageLocation::Inode(dir.nr), "htree node", problem, detail);
            return Ok(());
        }
        self.take(BYTES_PER_PART)?;
        let at = blocks.binary_search_by_key(&node.logical, |(logical, _)| *logical);
        let Ok(at) = at else {
            let problem = CorruptKind::LeadsOut;
            self.add_problem(DamageLocation::Inode(dir.nr), "htree node", problem);
            return Ok(());
        };
        if is_leaf {
            return Ok(());
        }
        let bytes = self.read(blocks[at].1)?;
        let place = DamageLocation::InodeBlock(dir.nr, blocks[at].1);
        match DxNode::parse_node(&bytes[..], dir.tail, place) {
            Ok(found) => self.spread(dir, &found, (node.levels - 1, node.hashes), waiting),
            Err(corrupt) => self.add_corrupt(&corrupt),
        }
        Ok(())
    }

    /// The children of a node, with their hash ranges. A set lowest bit means that names of that
    /// hash begin in the preceding block.
    fn spread<B: AsRef<[u8]>>(
        &mut self,
        dir: &Dir,
        node: &DxNode<B>,
        (levels, hashes): (u8, RangeInclusive<u32>),
        waiting: &mut Vec<Node>,
    ) {
        let entries: Vec<_> = node.entries().collect();
        for (at, entry) in entries.iter().enumerate() {
            let first = if at == 0 {
                *hashes.start()
            } else {
                entry.hash & !1
            };
            let last = match entries.get(at + 1) {
                Some(next) if next.hash & 1 == 1 => next.hash & !1,
                Some(next) => next.hash.saturating_sub(1),
                None => *hashes.end(),
            };
            if first < *hashes.start() || last > *hashes.end() {
                let problem = CorruptKind::HashesBeyond;
                self.add_problem(DamageLocation::Inode(dir.nr), "htree node", problem);
            }
            waiting.push(Node {
                logical: u64::from(entry.block.0),
                levels,
                hashes: first..=last,
            });
        }
    }

    /// Reports blocks of the directory that the index does not lead to.
    pub(crate) fn check_missing(&mut self, dir: &Dir, index: &Htree, blocks: u64) {
        let led_to = u64_of(index.parts.range(..blocks).count());
        if led_to < blocks {
            let detail = format!("{} of {blocks}", blocks - led_to);
            let problem = CorruptKind::IndexIncomplete;
            self.add_detailed(DamageLocation::Inode(dir.nr), "htree", problem, detail);
        }
    }
}
