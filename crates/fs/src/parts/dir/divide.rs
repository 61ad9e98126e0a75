//! Concurrent split of one leaf, while other threads change entries and split other leaves.
//!
//! The halves are drafted with only the right to split the leaf, and installed if the structure's
//! version is the same: threads that hold it exclusively split and merge leaves without that right.
//! For example, thread A drafts a split ahead of leaf 5; thread B merges leaf 5 into leaf 4, and
//! the last leaf of the directory moves to block 5. Without the check, A would part the names that
//! moved there, and lead look-ups of names in leaf 4 to them.
//!
//! A split ends no version: the new block gets the upper half before any entry or link leads there,
//! and the right link is set before the old leaf is unlocked. For example, a look-up has found the
//! old leaf in the node and waits for its lock, while its name goes to the new block. Its version
//! still validates; without the link it would answer that the name is absent. The link leads all
//! names of a hash to the right, so a split tears no names of one hash apart.
//!
//! Invariants: the structure of the `index` lock is held at least together with other splits, and
//! one thread splits a leaf. Once a block is added to the directory, the split comes to its end: if
//! the leaf has changed, its names are parted again, at the same hash. The node has space for it
//! ([`Promised`]).
//! Locking: the inode's state to add the block; then the leaf, and nested in it the new block, and
//! the node.

use super::error::{DirError, DirResult};
use super::grow::{entry_of, map_in, pack_items};
use super::index::{Path, Probe, Step, Target, probe};
use super::quick;
use super::split::{bytes_of, cut, separator, sorted};
use super::view::{Dir, Form, NewLeaf};
use crate::cache::dcache::{HashedName, Promised, Right};
use crate::cache::meta::{BlockState, MetaBlock};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::{Error, Result};
use uext4_format::dirent::{Fit, KnownLeaf, space_needed};
use uext4_format::htree::DxEntry;
use uext4_format::{CorruptKind, Full, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::clamp_u32;
use uext4_sync::{Arc, Version};

/// Blocks of a directory in which many threads meet in the same leaves, and eighths of a leaf that
/// are filled when it is split ahead.
const EARLY: [(u32, usize); 2] = [(16, 2), (64, 3)];
/// The same for larger directories.
const LATE: usize = 7;

/// Prepared contents of a leaf and its upper half.
pub(crate) struct Draft {
    reason: SplitReason,
    /// The structure's version before the draft.
    version: Version,
    block: Arc<MetaBlock>,
    /// `BlockState::changes` of the drafted leaf.
    changes: u32,
    lower: NewLeaf,
    /// The new leaf after it and its first hash; none if packing the leaf was enough.
    upper: Option<(NewLeaf, u32)>,
}

impl Draft {
    /// Blocks that the directory grows by.
    pub(crate) fn blocks(&self) -> u32 {
        self.upper.is_some().into()
    }

    /// The leaf's logical block in the directory.
    pub(crate) fn leaf(&self) -> LogicalBlock {
        self.block.logical()
    }
}

/// A node whose copy is to be made again.
pub(crate) type StaleNode = Option<(LogicalBlock, Arc<MetaBlock>)>;

/// Reason to split a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitReason {
    /// It has no space for a name.
    Full,
    /// It will soon be full, and threads would wait for its split.
    Soon,
}

/// The leaf of `name`, if it may be split alone; a hint, as the names may move meanwhile.
pub(crate) fn leaf_to_split(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
) -> Result<Option<LogicalBlock>> {
    let view = Dir::open(fs, dir)?;
    let leaf = match quick::prefetch_leaf(&view, name) {
        None if view.form == Form::Indexed => path_to(&view, name)?.map(|path| path.leaf),
        leaf => leaf,
    };
    Ok(leaf.filter(|leaf| dir.dir_blocks().keeps(*leaf, *leaf)))
}

/// Drafts space for `name` in its leaf. The caller has the right to split that leaf.
///
/// # Errors
/// [`DirError::NeedExclusive`] if more than that leaf must change; [`DirError::Moved`] if the
/// reason is gone.
pub(crate) fn draft(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    reason: SplitReason,
) -> DirResult<Draft> {
    let version = dir.index.version().ok_or(DirError::Moved)?;
    let view = Dir::open(fs, dir)?;
    let path = match view.form {
        Form::Indexed => path_to(&view, name)?.ok_or(DirError::NeedExclusive)?,
        _ => return Err(DirError::NeedExclusive),
    };
    let block = view.block_or_damage(path.leaf)?;
    let (image, changes) = {
        let state = block.read();
        let names = view.names_in(&block, &state)?;
        let is_wanted = match reason {
            SplitReason::Full => matches!(names.fits(name.bytes, name.print()), Fit::Full),
            SplitReason::Soon => is_soon_full(&view, &names),
        };
        if !is_wanted {
            return Err(DirError::Moved);
        }
        (state.image(), state.changes())
    };
    let leaf = view.leaf(&image[..], block.nr());
    let entries = leaf.entries().map(|entry| entry.map(entry_of));
    let items = sorted(&path.hasher, entries)?;
    let area = leaf.area_bytes();
    let is_loose = bytes_of(&items) + space_needed(name.bytes.len()) <= area / 4 * 3;
    let at = if reason == SplitReason::Full && is_loose {
        items.len()
    } else if view.blocks >= view.config().max_blocks() {
        return Err(DirError::NeedExclusive);
    } else {
        cut(&items, area).ok_or(DirError::NeedExclusive)?
    };
    let upper = match items.get(at..) {
        Some(above) if !above.is_empty() => {
            let hash = separator(&items, at);
            let is_torn = hash & 1 != 0;
            if is_torn || !dir.dir_blocks().keeps(path.leaf, LogicalBlock(view.blocks)) {
                return Err(DirError::NeedExclusive);
            }
            Some((view.new_leaf(pack_items(&view, above)?)?, hash))
        }
        _ => None,
    };
    Ok(Draft {
        lower: view.new_leaf(pack_items(&view, &items[..at])?)?,
        reason,
        version,
        block,
        changes,
        upper,
    })
}

/// Whether a leaf that threads meet in is to be split before it is full. The first leaves are split
/// early: until there are enough of them, all threads want the same few.
pub(super) fn is_soon_full(view: &Dir<'_>, names: &KnownLeaf<'_>) -> bool {
    let early = EARLY.iter().find(|(blocks, _)| view.blocks < *blocks);
    let eighths = early.map_or(LATE, |(_, eighths)| *eighths);
    names.used_bytes() >= names.area_bytes() / 8 * eighths
}

/// The path to the leaf of `name`, if a split changes no more than the leaf and its node.
fn path_to(view: &Dir<'_>, name: &HashedName<'_>) -> Result<Option<Path>> {
    Ok(match probe(view, Target::Name(name))? {
        Probe::Path(path) if !path.continues() && !path.parent().is_full() => Some(path),
        _ => None,
    })
}

/// Installs the draft for the leaf of `name`, unless the structure or a full leaf has changed.
/// Splits of other leaves may run; the caller has the right to split this one.
///
/// # Errors
/// `NoSpace`, [`DirError::NeedExclusive`]; nothing is changed then.
pub(crate) fn carry_out(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    draft: Draft,
) -> DirResult<StaleNode> {
    // Threads that held the lock exclusively may have split the leaf, or used its block again.
    if !dir.index.is_still(draft.version) {
        return Ok(None);
    }
    let view = Dir::open(fs, dir)?;
    let Some(path) = path_to(&view, name)? else {
        return Err(DirError::NeedExclusive);
    };
    // A leaf that is not full changes all the time.
    if draft.reason == SplitReason::Full && draft.block.read().changes() != draft.changes {
        return Ok(None);
    }
    let is_same = |state: &BlockState| state.changes() == draft.changes;
    let (leaf, lower) = (&draft.block, draft.lower);
    let Some((upper, hash)) = draft.upper else {
        let mut state = handle.write(leaf);
        if is_same(&state) {
            state.replace(lower.bytes, Some(lower.table));
        }
        return Ok(None);
    };
    let (added, promised) = add_block(&view, handle, (path.leaf, path.parent()), upper)?;
    let mut state = handle.write(leaf);
    let lower = if is_same(&state) {
        lower
    } else {
        part_again(&view, handle, &path, &state, (hash, &added))?
    };
    let block = added.place;
    let (parts, above) = ((&mut *state, lower), DxEntry { hash, block });
    Ok(publish(&view, handle, &path, parts, above, promised)?)
}

/// A block that was added to the directory.
struct Added {
    place: LogicalBlock,
    block: Arc<MetaBlock>,
}

/// Adds the upper half to the directory; no entry leads there yet. Also returns the promise of an
/// entry in the node.
fn add_block<'a>(
    view: &Dir<'a>,
    handle: &Handle<'_>,
    (leaf, node): (LogicalBlock, &Step),
    upper: NewLeaf,
) -> DirResult<(Added, Promised<'a>)> {
    let blocks = view.inode.dir_blocks();
    let (place, nr, promised) = {
        let mut state = handle.write(view.inode);
        let promised = blocks.promise(|| node.free_entries());
        let promised = promised.ok_or(DirError::NeedExclusive)?;
        // Other splits may have added blocks since the directory was opened.
        let place = LogicalBlock(clamp_u32(state.disk.size / view.fs.block_bytes()));
        if place.0 >= view.config().max_blocks() {
            return Err(Error::NoSpace.into());
        }
        if !blocks.keeps(leaf, place) {
            return Err(DirError::NeedExclusive);
        }
        let nr = map_in(view, handle, &mut state, place)?;
        (place, nr, promised)
    };
    let block = view.fs.blocks.create(handle, nr, view.seal(), upper.bytes);
    blocks.put(place, &block);
    block.read().keep_table(upper.table);
    Ok((Added { place, block }, promised))
}

/// Parts the names of a leaf that has changed since the draft: writes the upper part to the new
/// block, and returns the lower one. For example, another thread has inserted a name meanwhile;
/// the drafted halves lack it.
fn part_again(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    path: &Path,
    leaf: &BlockState,
    (hash, added): (u32, &Added),
) -> Result<NewLeaf> {
    let image = leaf.image();
    let leaf = view.leaf(&image[..], leaf.nr());
    let entries = leaf.entries().map(|entry| entry.map(entry_of));
    let items = sorted(&path.hasher, entries)?;
    let at = items.partition_point(|item| item.hash.major < hash);
    let upper = view.new_leaf(pack_items(view, &items[at..])?)?;
    let mut state = handle.write_nested(&added.block);
    state.replace(upper.bytes, Some(upper.table));
    view.new_leaf(pack_items(view, &items[..at])?)
}

/// Adds the upper half to the node, and leaves the lower half in the leaf.
fn publish(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    path: &Path,
    (leaf, lower): (&mut BlockState, NewLeaf),
    above: DxEntry,
    promised: Promised<'_>,
) -> Result<StaleNode> {
    let (blocks, step) = (view.inode.dir_blocks(), path.parent());
    let version = view.inode.index.version();
    let version = version.expect("the structure is held, so no thread has closed it");
    let DxEntry { hash, block } = above;
    blocks.inherit_right(version, path.leaf, block);
    {
        let mut state = handle.write_nested(&step.block);
        // Other splits may have added entries since the descent.
        let at = step.kind.node(state.bytes()).search(hash);
        let mut node = step.kind.node(state.bytes_mut());
        debug_assert_eq!(node.entry(at).map(|entry| entry.block), Some(path.leaf));
        let added = node.insert(at + 1, above);
        added.map_err(|Full| view.damage(CorruptKind::NodeFull))?;
        drop(promised);
    }
    leaf.replace(lower.bytes, Some(lower.table));
    blocks.set_right(version, path.leaf, Right { hash, leaf: block });
    let is_behind = blocks.index().record_split(step.place);
    Ok(is_behind.then(|| (step.place, step.block.clone())))
}
