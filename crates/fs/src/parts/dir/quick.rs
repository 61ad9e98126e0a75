//! Lock-free lookup paths: the leaf of a name by the copy of the index, its inode by the dentry
//! cache.
//!
//! Invariants: lookups are linearizable within one version of the structure. As everywhere without
//! the `index` lock, the caller validates the sampled version at the end.
//! Locking: none is held on return.

use super::entry_location::{EntryLocation, FoundEntry};
use super::view::{Dir, Form, is_dot};
use crate::cache::dcache::{HashedName, Key};
use crate::cache::meta::MetaBlock;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::error::Result;
use uext4_format::{InodeNr, LogicalBlock};
use uext4_sync::{Arc, Version};

/// Searches of the copy of the index before the blocks are searched, while it changes.
const SEARCHES: usize = 8;

/// Looks up a name in the dentry cache. `None` is a cache miss.
pub(crate) fn lookup_cached(
    fs: &Fs,
    dir: &Inode,
    name: &HashedName<'_>,
) -> Result<Option<InodeRef>> {
    lookup_cached_with(dir, name, |nr| fs.inode(nr))
}

/// As [`lookup_cached`]; `inode_ref` takes a reference to an inode in use.
pub(super) fn lookup_cached_with(
    dir: &Inode,
    name: &HashedName<'_>,
    inode_ref: impl FnOnce(InodeNr) -> Result<InodeRef>,
) -> Result<Option<InodeRef>> {
    let Some(blocks) = dir.known_dir_blocks() else {
        return Ok(None);
    };
    let key = name.key;
    let Some(nr) = blocks.lookup_cached(key) else {
        return Ok(None);
    };
    let held = inode_ref(nr);
    Ok(in_use(held, blocks.lookup_cached(key) == Some(nr)))
}

/// The inode `held`, if the dentry was valid when the reference was taken: a later unlink sees the
/// reference. Errors are treated as misses, because the number may have been reused; the regular
/// lookup reports them.
fn in_use(held: Result<InodeRef>, still_valid: bool) -> Option<InodeRef> {
    held.ok().filter(|_| still_valid)
}

/// As [`super::lookup_entry`], for a cached dentry and the leaf from [`prefetch_leaf`], whose
/// prefetch runs during the search for the inode. The leaf is not read.
pub(super) fn cached_entry(
    dir: &Dir<'_>,
    key: Key,
    leaf: LogicalBlock,
) -> Result<Option<FoundEntry>> {
    let blocks = dir.inode.dir_blocks();
    let Some(nr) = blocks.lookup_cached(key) else {
        return Ok(None);
    };
    let held = dir.fs.inode(nr);
    let (block, still_valid) = (blocks.block(leaf), blocks.lookup_cached(key) == Some(nr));
    let (Some(inode), Some(block)) = (in_use(held, still_valid), block) else {
        return Ok(None);
    };
    dir.fs.base.spend_block(block.nr(), dir.seal().name())?;
    let location = EntryLocation {
        block,
        nr,
        seen: None,
    };
    Ok(Some((inode, Some(location))))
}

/// Caches a dentry found in structure `version`; its block is locked.
pub(super) fn remember_name(dir: &Dir<'_>, key: Key, nr: InodeNr, version: Option<Version>) {
    // A thread that moves the block's entries did so unlocked; they may have changed since.
    if version.is_some_and(|version| dir.inode.index.is_still(version)) {
        dir.inode.dir_blocks().put_name(key, nr, &dir.fs.names);
    }
}

/// The only leaf that may hold `name`, if index and leaf are cached. `None` is a cache miss.
pub(super) fn leaf_of(dir: &Dir<'_>, name: &HashedName<'_>) -> Option<Arc<MetaBlock>> {
    prefetch_leaf(dir, name).and_then(|leaf| prefetched_leaf(dir, leaf))
}

/// The logical block of [`leaf_of`]; prefetches what a search of the leaf reads.
pub(super) fn prefetch_leaf(dir: &Dir<'_>, name: &HashedName<'_>) -> Option<LogicalBlock> {
    if dir.form != Form::Indexed || is_dot(name.bytes) {
        return None;
    }
    let blocks = dir.inode.dir_blocks();
    let leaf = (0..SEARCHES)
        .find_map(|_| search_copy(dir, name).transpose())?
        .ok()?;
    blocks.prefetch_block(leaf);
    dir.has(leaf).then_some(leaf)
}

/// The copy of the index does not know the leaf: the blocks are to be searched.
struct Miss;

/// One search of the copy of the index; `None` if the structure or its copy has changed meanwhile.
fn search_copy(
    dir: &Dir<'_>,
    name: &HashedName<'_>,
) -> std::result::Result<Option<LogicalBlock>, Miss> {
    let (blocks, index) = (dir.inode.dir_blocks(), &dir.inode.index);
    let version = index.version().ok_or(Miss)?;
    let found = blocks.index().leaf(version, |hash_version| {
        name.major(&dir.config().hasher(hash_version))
    });
    match found {
        Some((leaf, major)) => Ok(Some(blocks.follow(version, leaf, major))),
        None if index.is_still(version) && !blocks.index().is_changing() => Err(Miss),
        None => Ok(None),
    }
}

/// The leaf answered by [`prefetch_leaf`].
pub(super) fn prefetched_leaf(dir: &Dir<'_>, leaf: LogicalBlock) -> Option<Arc<MetaBlock>> {
    let block = dir.inode.dir_blocks().block(leaf)?;
    dir.fs
        .base
        .spend_block(block.nr(), dir.seal().name())
        .ok()?;
    Some(block)
}

/// Copies a node again, below which leaves were split.
pub(crate) fn renew(dir: &Inode, (place, node): (LogicalBlock, Arc<MetaBlock>)) {
    if let Some(version) = dir.index.version() {
        let copy = dir.dir_blocks().index();
        copy.renew(&dir.index, version, (place, &node.image()));
    }
}
