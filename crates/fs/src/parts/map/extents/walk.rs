//! Walks down a tree; every node is validated against its parent.

use crate::cache::meta::{MetaBlock, Seal};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use smallvec::{SmallVec, smallvec};
use uext4_format::extent::{Expect, ExtentNode};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use uext4_journal::{Handle, Object};
use uext4_sync::Arc;

/// A node: the root in the inode, or a block.
#[derive(Clone)]
pub(super) enum Node {
    Root,
    Block(Arc<MetaBlock>),
}

impl Node {
    /// Passes the node to `read`; its block is locked meanwhile.
    pub(super) fn read<R>(
        &self,
        state: &InodeState,
        read: impl FnOnce(ExtentNode<&[u8]>) -> R,
    ) -> R {
        match self {
            Node::Root => read(ExtentNode::new(&state.disk.i_block[..])),
            Node::Block(block) => read(ExtentNode::new(block.live().read().bytes())),
        }
    }

    /// Changes the node in the handle's transaction; the inode is logged already.
    pub(super) fn edit<R>(
        &self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        edit: impl FnOnce(&mut ExtentNode<&mut [u8]>) -> R,
    ) -> R {
        match self {
            Node::Root => edit(&mut ExtentNode::new(&mut state.disk.i_block[..])),
            Node::Block(block) => edit(&mut ExtentNode::new(handle.write(block).bytes_mut())),
        }
    }

    /// The block, unless it is the root.
    pub(super) fn block(&self) -> Option<&Arc<MetaBlock>> {
        match self {
            Node::Root => None,
            Node::Block(block) => Some(block),
        }
    }
}

/// A node on the path, with the bounds from its parent.
pub(super) struct Step {
    pub(super) node: Node,
    pub(super) expect: Expect,
    pub(super) depth: u16,
    /// Position of the child on the path; 0 in a leaf.
    pub(super) at: usize,
}

/// The path from the root down. Few trees are deeper than this, and those are large.
pub(super) type Steps = SmallVec<[Step; 3]>;

/// Seal of the tree blocks of an inode.
pub(super) fn seal(state: &InodeState) -> Seal {
    Seal::Extent(state.seed())
}

/// The root, in the inode; it is validated each time.
pub(super) fn root(fs: &Fs, state: &InodeState) -> Result<Step> {
    let expect = Expect::root(super::super::limits::block_bounds(fs));
    let node = ExtentNode::new(&state.disk.i_block[..]);
    node.validate(&expect, DamageLocation::Inode(state.nr()))?;
    Ok(Step {
        depth: node.depth(),
        node: Node::Root,
        expect,
        at: 0,
    })
}

/// The child of `step` on the path to `key`; stores its position in `step`.
fn child(fs: &Fs, state: &InodeState, step: &mut Step, key: LogicalBlock) -> Result<Step> {
    let (at, child, expect) = step.node.read(state, |node| {
        let at = node.search(key).unwrap_or(0);
        (at, node.index(at), step.expect.child(&node, at))
    });
    step.at = at;
    let place = DamageLocation::Inode(state.nr());
    let child = child
        .ok_or(Corrupt::new(place, "extent index", CorruptKind::NoEntries))?
        .child;
    let block = load(fs, state, child, &expect)?;
    Ok(Step {
        node: Node::Block(block),
        depth: step.depth - 1,
        expect,
        at: 0,
    })
}

/// A tree block. A cached block was validated when it was read, possibly for another parent,
/// because a hostile tree can refer to a block twice. The checks that depend on the parent run
/// again.
fn load(fs: &Fs, state: &InodeState, nr: BlockNr, expect: &Expect) -> Result<Arc<MetaBlock>> {
    let place = DamageLocation::InodeBlock(state.nr(), nr);
    let block = fs.read_block(nr, seal(state), |bytes| {
        ExtentNode::new(bytes).validate(expect, place)
    })?;
    let fits = fits(&ExtentNode::new(block.live().read().bytes()), expect);
    if fits {
        return Ok(block);
    }
    Err(Corrupt::new(place, "extent header", CorruptKind::NotAsParent).into())
}

fn fits(node: &ExtentNode<&[u8]>, expect: &Expect) -> bool {
    let last = node.count().wrapping_sub(1);
    let end = match node.depth() {
        0 => node.extent(last).map(|extent| extent.logical_end()),
        _ => node.key(last).map(|key| u64::from(key.0) + 1),
    };
    let start = node
        .key(0)
        .map_or(expect.logical.start, |key| u64::from(key.0));
    expect.depth == Some(node.depth())
        && start >= expect.logical.start
        && end.unwrap_or(start) <= expect.logical.end
}

/// The leaf that maps `key`, or that would.
pub(super) fn leaf(fs: &Fs, state: &InodeState, key: LogicalBlock) -> Result<Step> {
    let mut step = root(fs, state)?;
    while step.depth > 0 {
        step = child(fs, state, &mut step, key)?;
    }
    Ok(step)
}

/// The path from the root to the leaf for `key`: at least one step.
pub(super) fn path(fs: &Fs, state: &InodeState, key: LogicalBlock) -> Result<Steps> {
    let mut path = smallvec![];
    let mut step = root(fs, state)?;
    while step.depth > 0 {
        let next = child(fs, state, &mut step, key)?;
        path.push(std::mem::replace(&mut step, next));
    }
    path.push(step);
    Ok(path)
}
