//! Descent of a hash tree, from the root to a leaf.
//!
//! Invariants: the `index` lock is held, at least shared, so roots and nodes do not change under a
//! [`Path`]; a caller without the lock validates the version afterwards. At most three levels;
//! limit and count of every block are checked at each use (hash order is trusted: wrong order can
//! only hide names).

use super::view::Dir;
use crate::cache::dcache::{HashedName, runs_on};
use crate::cache::meta::MetaBlock;
use crate::types::error::{Error, Result};
use uext4_format::hash::DirHasher;
use uext4_format::htree::{DxNode, RootInfo};
use uext4_format::{BlockNr, Corrupt, CorruptKind, LogicalBlock};
use uext4_num::clamp_u32;
use uext4_sync::{Arc, Version};

/// Root and two levels of nodes.
const LEVELS_MAX: usize = 3;

#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// A name; the index says how to hash it.
    Name(&'a HashedName<'a>),
    /// A major hash, without the name that it belongs to.
    Major(u32),
}

pub(super) enum Probe {
    /// The path to the first leaf that may hold the target.
    Path(Path),
    /// The index is invalid; the entries can still be read block by block.
    Broken(Corrupt),
}

/// The path from the root to a leaf.
pub(super) struct Path {
    /// Hash of this index.
    pub(super) hasher: DirHasher,
    /// Major hash of the target.
    pub(super) major: u32,
    /// The leaf's logical block in the directory.
    pub(super) leaf: LogicalBlock,
    steps: [Option<Step>; LEVELS_MAX],
    len: usize,
}

/// A root or node, and the entry taken.
pub(super) struct Step {
    /// Its logical block in the directory.
    pub(super) place: LogicalBlock,
    pub(super) block: Arc<MetaBlock>,
    pub(super) kind: StepKind,
    pub(super) at: usize,
    /// Hash of the next entry, if there is one.
    pub(super) next: Option<u32>,
}

/// The chosen entry of a root or node.
struct Choice {
    at: usize,
    /// Hash of the next entry, if there is one.
    next: Option<u32>,
    child: LogicalBlock,
}

/// Root or node layout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Root,
    Node,
}

impl StepKind {
    /// The kind of a root or node at this place.
    pub(super) fn at(place: LogicalBlock) -> Self {
        match place {
            LogicalBlock(0) => StepKind::Root,
            _ => StepKind::Node,
        }
    }

    /// The entries of such a block.
    pub(super) fn node<B: AsRef<[u8]>>(self, bytes: B) -> DxNode<B> {
        match self {
            StepKind::Root => DxNode::root(bytes),
            StepKind::Node => DxNode::node(bytes),
        }
    }
}

impl Step {
    /// Number of entries that can be added.
    pub(super) fn free_entries(&self) -> usize {
        let state = self.block.read();
        let node = self.kind.node(state.bytes());
        node.limit().saturating_sub(node.count())
    }

    /// True when no entry can be added.
    pub(super) fn is_full(&self) -> bool {
        self.kind.node(self.block.read().bytes()).is_full()
    }
}

/// Descends to the first leaf that may hold `target`.
pub(super) fn probe(dir: &Dir<'_>, target: Target<'_>) -> Result<Probe> {
    let version = dir.inode.index.version();
    match descend(dir, target) {
        Ok(path) => {
            if let Some(version) = version {
                remember(dir, version, &path);
            }
            Ok(Probe::Path(path))
        }
        Err(Stop::Broken(corrupt)) => Ok(Probe::Broken(corrupt)),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Copies the index blocks of a path found in structure `version`.
fn remember(dir: &Dir<'_>, version: Version, path: &Path) {
    let copy = dir.inode.dir_blocks().index();
    if version.is_moving() || !path.steps().any(|step| copy.lacks(version, step.place)) {
        return;
    }
    let nodes: Vec<_> = path
        .steps()
        .map(|step| (step.place, step.block.image()))
        .collect();
    let (levels, root) = (dir.config().levels, path.step(0).block.nr());
    if let Ok(info) = RootInfo::parse(&nodes[0].1, levels, dir.location(root))
        && dir.inode.index.is_still(version)
    {
        copy.put(version, info, &nodes);
    }
}

enum Stop {
    Broken(Corrupt),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

fn descend(dir: &Dir<'_>, target: Target<'_>) -> std::result::Result<Path, Stop> {
    let root = load(dir, LogicalBlock(0))?;
    let state = root.read();
    let info = RootInfo::parse(state.bytes(), dir.config().levels, dir.location(root.nr()))
        .map_err(Stop::Broken)?;
    let hasher = dir.config().hasher(info.hash_version);
    let major = match target {
        Target::Name(name) => name.major(&hasher),
        Target::Major(major) => major,
    };
    let mut path = Path {
        hasher,
        major,
        leaf: LogicalBlock(0),
        steps: [None, None, None],
        len: 0,
    };
    let search = |node: &DxNode<&[u8]>| node.search(major);
    let choice = choose(dir, (state.bytes(), root.nr()), StepKind::Root, search)?;
    drop(state);
    path.push(root, StepKind::Root, choice);
    for _ in 0..info.indirect_levels {
        path.push_node(dir, search)?;
    }
    Ok(path)
}

fn load(dir: &Dir<'_>, nr: LogicalBlock) -> std::result::Result<Arc<MetaBlock>, Stop> {
    let block = dir.block(nr)?;
    block.ok_or_else(|| Stop::Broken(dir.damage(CorruptKind::IndexBlockMissing)))
}

/// Checks a root or node and chooses the entry given by `entry_of`.
fn choose(
    dir: &Dir<'_>,
    (bytes, nr): (&[u8], BlockNr),
    kind: StepKind,
    entry_of: impl FnOnce(&DxNode<&[u8]>) -> usize,
) -> std::result::Result<Choice, Stop> {
    let broken = |problem| Stop::Broken(Corrupt::new(dir.location(nr), "htree", problem));
    let node = kind.node(bytes);
    let capacity = node.capacity(dir.config().tail);
    let limit = clamp_u32(node.limit());
    if node.limit() != capacity {
        return Err(broken(CorruptKind::Limit {
            found: limit,
            max: clamp_u32(capacity),
        }));
    }
    if node.count() == 0 || node.count() > node.limit() {
        let count = clamp_u32(node.count());
        return Err(broken(CorruptKind::NodeCount { count, limit }));
    }
    let at = entry_of(&node);
    let choice = Choice {
        at,
        next: node.entry(at + 1).map(|next| next.hash),
        child: node.entry(at).map_or(LogicalBlock(0), |entry| entry.block),
    };
    if choice.child.0 == 0 || !dir.has(choice.child) {
        return Err(broken(CorruptKind::EntryOutside {
            block: choice.child.0,
        }));
    }
    Ok(choice)
}

/// As [`choose`], on the present state of the block.
fn choose_in(
    dir: &Dir<'_>,
    block: &MetaBlock,
    kind: StepKind,
    entry_of: impl FnOnce(&DxNode<&[u8]>) -> usize,
) -> std::result::Result<Choice, Stop> {
    let state = block.read();
    choose(dir, (state.bytes(), block.nr()), kind, entry_of)
}

impl Path {
    /// Adds a step; its entry's block becomes the leaf.
    fn push(&mut self, block: Arc<MetaBlock>, kind: StepKind, choice: Choice) {
        let Choice { at, next, child } = choice;
        self.steps[self.len] = Some(Step {
            place: self.leaf,
            block,
            kind,
            at,
            next,
        });
        self.len += 1;
        self.leaf = child;
    }

    /// Adds a step for the block taken as the leaf, which is a node.
    fn push_node(
        &mut self,
        dir: &Dir<'_>,
        entry_of: impl FnOnce(&DxNode<&[u8]>) -> usize,
    ) -> std::result::Result<(), Stop> {
        let block = load(dir, self.leaf)?;
        let choice = choose_in(dir, &block, StepKind::Node, entry_of)?;
        self.push(block, StepKind::Node, choice);
        Ok(())
    }

    /// Steps of the path, from the root to the node above the leaf.
    pub(super) fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter().flatten()
    }

    /// Step number `level`, the root being 0.
    pub(super) fn step(&self, level: usize) -> &Step {
        self.steps[level]
            .as_ref()
            .expect("the caller names a level that the path has")
    }

    /// Number of steps: 1 for a root alone.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The root or node directly above the leaf.
    pub(super) fn parent(&self) -> &Step {
        self.step(self.len - 1)
    }

    /// The hash of the next leaf in order, continuation bit included.
    pub(super) fn next_hash(&self) -> Option<u32> {
        self.steps().rev().find_map(|step| step.next)
    }

    /// True when names of the target's hash may continue in the next leaf.
    pub(super) fn continues(&self) -> bool {
        self.continues_with(self.major)
    }

    /// True when names of major hash `major` may continue in the next leaf.
    pub(super) fn continues_with(&self, major: u32) -> bool {
        self.next_hash().is_some_and(|next| runs_on(next, major))
    }

    /// Moves to the next leaf in order; false at the end.
    pub(super) fn advance(&mut self, dir: &Dir<'_>) -> Result<bool> {
        match self.step_on(dir) {
            Ok(moved) => Ok(moved),
            Err(Stop::Broken(corrupt)) => Err(corrupt.into()),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    fn step_on(&mut self, dir: &Dir<'_>) -> std::result::Result<bool, Stop> {
        let depth = self.len;
        let mut levels = (0..depth).rev();
        let Some(level) = levels.find(|&level| self.step(level).next.is_some()) else {
            return Ok(false);
        };
        let Step {
            place,
            block,
            kind,
            at,
            ..
        } = self.steps[level]
            .take()
            .expect("levels below the length have a step");
        self.len = level;
        let choice = choose_in(dir, &block, kind, |_| at + 1)?;
        self.leaf = place;
        self.push(block, kind, choice);
        while self.len < depth {
            self.push_node(dir, |_| 0)?;
        }
        Ok(true)
    }
}
