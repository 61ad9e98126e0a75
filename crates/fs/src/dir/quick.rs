//! The leaf of a name, found without locking or counting the index on the way.
//!
//! Invariants: what is answered was so at a moment of the call, in one version of the structure. As
//! everywhere without the `index` lock the caller asks for the version it began with at the end.
//! Locking: none is held when it is done.

use super::blocks::Node;
use super::index::{Path, StepKind, choose, runs_on};
use super::view::Dir;
use crate::meta::MetaBlock;
use std::sync::Arc;
use uext4_format::LogicalBlock;
use uext4_format::htree::RootInfo;
use uext4_sync::Version;

/// The only leaf that may hold `name`, if index and leaf are known. `None` says nothing.
pub(super) fn leaf_of(dir: &Dir<'_>, name: &[u8]) -> Option<Arc<MetaBlock>> {
    let version = dir.inode.index.version()?;
    let known = dir.inode.dir_blocks().known();
    let mut node = known.node(version, LogicalBlock(0))?;
    let (levels, place) = (dir.config().levels, dir.place(node.nr));
    let info = RootInfo::parse(&node.bytes, levels, place).ok()?;
    let major = dir.config().hasher(info.hash_version).hash(name).major;
    let (mut kind, mut next) = (StepKind::Root, None);
    for level in 0..=info.indirect_levels {
        let bytes = &node.bytes[..];
        let choice = choose(dir, (bytes, node.nr), kind, |node| node.search(major)).ok()?;
        next = choice.next.or(next);
        if level == info.indirect_levels {
            let leaf = known.block(choice.child)?;
            dir.fs.spend_block(leaf.nr(), dir.seal().name()).ok()?;
            return (!next.is_some_and(|next| runs_on(next, major))).then_some(leaf);
        }
        (node, kind) = (known.node(version, choice.child)?, StepKind::Node);
    }
    None
}

/// Keeps the index blocks of a way that was found while `version` was the version.
pub(super) fn remember(dir: &Dir<'_>, version: Version, path: &Path) {
    let blocks = dir.inode.dir_blocks();
    let lacks = {
        let known = blocks.known();
        path.steps().any(|step| known.lacks(version, step.place))
    };
    if !lacks {
        return;
    }
    let copy = |step: &super::index::Step| {
        let (nr, bytes) = (step.block.nr(), step.block.image());
        (step.place, Node { nr, bytes })
    };
    let nodes = path.steps().map(copy).collect();
    if dir.inode.index.is_still(version) {
        blocks.put_nodes(version, nodes);
    }
}
