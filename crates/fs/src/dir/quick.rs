//! The leaf of a name, found without locking or counting the index on the way; and what a name
//! means, without its leaf.
//!
//! Invariants: what is answered was so at a moment of the call, in one version of the structure. As
//! everywhere without the `index` lock the caller asks for the version it began with at the end.
//! Locking: none is held when it is done.

use super::Held;
use super::blocks::{Known, Node};
use super::edit::Holder;
use super::index::{Path, StepKind, choose, runs_on};
use super::names::Key;
use super::view::{Dir, Form, is_dot};
use crate::meta::MetaBlock;
use crate::{Error, Fs, Inode, InodeRef, Result};
use std::sync::Arc;
use uext4_format::htree::RootInfo;
use uext4_format::{InodeNr, LogicalBlock};
use uext4_sync::Version;

/// The inode that `name` means, if that is known. `None` says nothing.
pub(crate) fn meaning(fs: &Fs, dir: &Inode, name: &[u8]) -> Result<Option<InodeRef>> {
    meaning_of(dir, name, |nr| fs.inode(nr))
}

/// As [`meaning`]; `hold` counts an inode that is in use.
pub(super) fn meaning_of(
    dir: &Inode,
    name: &[u8],
    hold: impl FnOnce(InodeNr) -> Result<InodeRef>,
) -> Result<Option<InodeRef>> {
    let Some(blocks) = dir.known_dir_blocks() else {
        return Ok(None);
    };
    let key = blocks.key(name);
    let Some(nr) = blocks.meaning(key) else {
        return Ok(None);
    };
    let held = hold(nr);
    in_use(held, blocks.meaning(key) == Some(nr))
}

/// The inode `held`, if the name meant it when it was held: an unlink that comes now sees the user,
/// and before there was none, or the number is the name's again.
fn in_use(held: Result<InodeRef>, is_meant: bool) -> Result<Option<InodeRef>> {
    if !is_meant || matches!(held, Err(Error::Stale)) {
        return Ok(None);
    }
    held.map(Some)
}

/// As [`super::lookup_holder`], of a name whose meaning is known and whose leaf [`expect_leaf`]
/// said; that is not looked at, but fetched while the inode is looked for.
pub(super) fn holder(dir: &Dir<'_>, key: Key, leaf: LogicalBlock) -> Result<Option<Held>> {
    let blocks = dir.inode.dir_blocks();
    let Some(nr) = blocks.meaning(key) else {
        return Ok(None);
    };
    let held = dir.fs.inode(nr);
    let (block, is_meant) = {
        let known = blocks.known();
        (known.block(leaf), known.names().get(key) == Some(nr))
    };
    let (Some(inode), Some(block)) = (in_use(held, is_meant)?, block) else {
        return Ok(None);
    };
    dir.fs.spend_block(block.nr(), dir.seal().name())?;
    let holder = Holder {
        key,
        block,
        nr,
        seen: None,
    };
    Ok(Some((inode, Some(holder))))
}

/// Keeps what a name means, which was found while `version` was the version; its block is locked.
pub(super) fn remember_name(dir: &Dir<'_>, key: Key, nr: InodeNr, version: Option<Version>) {
    // Who has moved the block's entries by then found it unlocked: they may have changed since.
    if version.is_some_and(|version| dir.inode.index.is_still(version)) {
        dir.inode.dir_blocks().put_name(key, nr, &dir.fs.names);
    }
}

/// The only leaf that may hold `name`, if index and leaf are known. `None` says nothing.
pub(super) fn leaf_of(dir: &Dir<'_>, name: &[u8]) -> Option<Arc<MetaBlock>> {
    expect_leaf(dir, name).and_then(|leaf| expected_leaf(dir, leaf))
}

/// Where [`leaf_of`] is; asks for what a look into it reads.
pub(super) fn expect_leaf(dir: &Dir<'_>, name: &[u8]) -> Option<LogicalBlock> {
    if dir.form != Form::Indexed || is_dot(name) {
        return None;
    }
    let known = dir.inode.dir_blocks().known();
    let leaf = leaf_place(dir, &known, name)?;
    known.expect_block(leaf);
    Some(leaf)
}

/// The leaf that was expected.
pub(super) fn expected_leaf(dir: &Dir<'_>, leaf: LogicalBlock) -> Option<Arc<MetaBlock>> {
    let block = dir.inode.dir_blocks().known().block(leaf)?;
    dir.fs.spend_block(block.nr(), dir.seal().name()).ok()?;
    Some(block)
}

/// Where the only leaf that may hold `name` stands, if the index is known.
fn leaf_place(dir: &Dir<'_>, known: &Known, name: &[u8]) -> Option<LogicalBlock> {
    let version = dir.inode.index.version()?;
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
            return (!next.is_some_and(|next| runs_on(next, major))).then_some(choice.child);
        }
        (node, kind) = (known.node(version, choice.child)?, StepKind::Node);
    }
    None
}

/// Keeps the index blocks of a way that was found while `version` was the version.
pub(super) fn remember(dir: &Dir<'_>, version: Version, path: &Path) {
    if version.is_moving() {
        return;
    }
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
