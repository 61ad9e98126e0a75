//! The leaf of a name, found without locking or counting the index on the way; and what a name
//! means, without its leaf.
//!
//! Invariants: what is answered was so at a moment of the call, in one version of the structure. As
//! everywhere without the `index` lock the caller asks for the version it began with at the end.
//! Locking: none is held when it is done.

use super::Held;
use super::edit::Holder;
use super::index::{Path, Step};
use super::name_entry::Key;
use super::view::{Dir, Form, is_dot};
use crate::meta::MetaBlock;
use crate::{Fs, Inode, InodeRef, Result};
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
    Ok(in_use(held, blocks.meaning(key) == Some(nr)))
}

/// The inode `held`, if the name meant it when it was held: an unlink that comes now sees the user,
/// and before there was none, or the number is the name's again. Failures are for the look at the
/// entry itself to judge: the number may have been another file's meanwhile.
fn in_use(held: Result<InodeRef>, is_meant: bool) -> Option<InodeRef> {
    held.ok().filter(|_| is_meant)
}

/// As [`super::lookup_holder`], of a name whose meaning is known and whose leaf [`expect_leaf`]
/// said; that is not looked at, but fetched while the inode is looked for.
pub(super) fn holder(dir: &Dir<'_>, key: Key, leaf: LogicalBlock) -> Result<Option<Held>> {
    let blocks = dir.inode.dir_blocks();
    let Some(nr) = blocks.meaning(key) else {
        return Ok(None);
    };
    let held = dir.fs.inode(nr);
    let (block, is_meant) = (blocks.block(leaf), blocks.meaning(key) == Some(nr));
    let (Some(inode), Some(block)) = (in_use(held, is_meant), block) else {
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
    let blocks = dir.inode.dir_blocks();
    let hash = |version| dir.config().hasher(version).hash(name).major;
    let leaf = blocks
        .index()
        .leaf(dir.inode.index.version()?, dir.blocks, hash)?;
    blocks.expect_block(leaf);
    Some(leaf)
}

/// The leaf that was expected.
pub(super) fn expected_leaf(dir: &Dir<'_>, leaf: LogicalBlock) -> Option<Arc<MetaBlock>> {
    let block = dir.inode.dir_blocks().block(leaf)?;
    dir.fs.spend_block(block.nr(), dir.seal().name()).ok()?;
    Some(block)
}

/// Keeps the index blocks of a way that was found while `version` was the version.
pub(super) fn remember(dir: &Dir<'_>, version: Version, path: &Path) {
    let copy = dir.inode.dir_blocks().index();
    let is_known = |step: &Step| !copy.lacks(version, step.place);
    if version.is_moving() || path.steps().all(is_known) {
        return;
    }
    let nodes: Vec<_> = path
        .steps()
        .map(|step| (step.place, step.block.image()))
        .collect();
    let (levels, root) = (dir.config().levels, path.step(0).block.nr());
    if let Ok(info) = RootInfo::parse(&nodes[0].1, levels, dir.place(root))
        && dir.inode.index.is_still(version)
    {
        copy.put(version, info, &nodes);
    }
}
