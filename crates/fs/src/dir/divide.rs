//! Splitting one leaf while others change entries in the rest of the directory.
//!
//! Invariants: the `index` lock is held exclusively and not closed ([`super::Index::Beside`]). The
//! upper half stands in its new block before anything leads there, and in the old one until that is
//! unlocked: who waits for the old leaf finds then that the version is past, and looks again. The
//! version advances before the new block can be found, too, for who knows a shorter directory.
//! Locking: the leaf, and nested in it the new block and the node, which are changed under the
//! exclusive `index` lock only. The block is allocated before the leaf is locked: that takes the
//! inode's state.

use super::DirError;
use super::blocks::Node;
use super::edit::Answer;
use super::grow::{append_block, entry_of, pack_items};
use super::index::{Path, Probe, Target, probe};
use super::insert::inserted;
use super::shrink::drop_last;
use super::split::{bytes_of, cut, separator, sorted};
use super::view::Dir;
use crate::meta::{BlockState, MetaBlock};
use crate::{Error, Result};
use std::sync::Arc;
use uext4_format::dirent::{Fit, NewEntry};
use uext4_format::htree::DxEntry;
use uext4_format::{Corrupt, LogicalBlock, NoRoom};
use uext4_journal::{Handle, LogGuard};

/// What a leaf becomes when it takes a name.
enum Plan {
    /// It has room.
    Insert,
    /// It has room, in pieces: these bytes.
    Pack(Vec<u8>),
    /// Two leaves.
    Halves(Halves),
    /// There is no way to split it.
    Stuck,
}

struct Halves {
    lower: Vec<u8>,
    upper: Vec<u8>,
    /// Where the upper one begins.
    hash: u32,
}

/// Puts `new` into its leaf, which is split if it has no room.
///
/// # Errors
/// `Exists`, `NoSpace`; [`DirError::NeedExclusive`] where more than one leaf is concerned.
pub(super) fn insert_with_split(
    view: &mut Dir<'_>,
    handle: &Handle<'_>,
    new: &NewEntry<'_>,
) -> Answer<()> {
    let Probe::Path(path) = probe(view, Target::Name(new.name))? else {
        return Err(DirError::NeedExclusive);
    };
    if path.continues() || path.parent().is_full() {
        return Err(DirError::NeedExclusive);
    }
    let block = view.block_or_damage(path.leaf)?;
    let (plan, changes) = {
        let state = block.read();
        let (image, changes) = (state.image(), state.changes());
        drop(state);
        (plan(view, &path, &image, &block, new)?, changes)
    };
    match plan {
        Plan::Halves(halves) => split(view, handle, &path, &block, new, (halves, changes)),
        Plan::Stuck => Err(DirError::NeedExclusive),
        Plan::Insert | Plan::Pack(_) => insert(view, handle, &block, new, (plan, changes)),
    }
}

fn plan(
    view: &Dir<'_>,
    path: &Path,
    bytes: &[u8],
    block: &MetaBlock,
    new: &NewEntry<'_>,
) -> Answer<Plan> {
    let leaf = view.leaf(bytes, block.nr());
    match leaf.fits(new.name)? {
        Fit::Exists => return Err(Error::Exists.into()),
        Fit::Room(_) => return Ok(Plan::Insert),
        Fit::NoRoom => {}
    }
    let entries = leaf
        .entries()
        .collect::<std::result::Result<Vec<_>, Corrupt>>()?;
    let entries = entries.into_iter().map(entry_of);
    let items = sorted(&path.hasher, entries.chain(std::iter::once(*new)));
    let area = leaf.area_bytes();
    if bytes_of(&items) <= area / 4 * 3 {
        return Ok(Plan::Pack(pack_items(view, &items)?));
    }
    let Some(at) = cut(&items, area) else {
        return Ok(Plan::Stuck);
    };
    Ok(Plan::Halves(Halves {
        lower: pack_items(view, &items[..at])?,
        upper: pack_items(view, &items[at..])?,
        hash: separator(&items, at),
    }))
}

fn insert(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    block: &Arc<MetaBlock>,
    new: &NewEntry<'_>,
    (plan, changes): (Plan, u32),
) -> Answer<()> {
    let mut state = handle.write(block);
    match plan {
        Plan::Pack(bytes) if state.changes() == changes => {
            state.bytes_mut().copy_from_slice(&bytes);
            Ok(())
        }
        _ => inserted(view.names_mut(&mut state)?.insert(new)),
    }
}

fn split(
    view: &mut Dir<'_>,
    handle: &Handle<'_>,
    path: &Path,
    block: &Arc<MetaBlock>,
    new: &NewEntry<'_>,
    (mut halves, changes): (Halves, u32),
) -> Answer<()> {
    let upper = std::mem::take(&mut halves.upper);
    let (added, above) = append_block(view, handle, upper)?;
    let state = handle.write(block);
    if state.changes() != changes {
        // Somebody changed the leaf since. Nothing leads to the new block yet.
        match plan(view, path, state.bytes(), block, new) {
            Ok(Plan::Halves(changed)) => {
                halves = changed;
                let mut above = handle.write_nested(&above);
                above.bytes_mut().copy_from_slice(&halves.upper);
            }
            other => {
                drop(state);
                drop_last(view, handle)?;
                return Err(other.err().unwrap_or(DirError::NeedExclusive));
            }
        }
    }
    Ok(publish(view, handle, path, state, &halves, added)?)
}

/// Lets the node lead to the upper half, and leaves the lower one in the leaf.
fn publish(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    path: &Path,
    mut leaf: LogGuard<'_, BlockState>,
    halves: &Halves,
    block: LogicalBlock,
) -> Result<()> {
    let (index, step) = (&view.inode.index, path.parent());
    let (hash, before) = (halves.hash, index.version());
    index.advance();
    let bytes = {
        let mut state = handle.write_nested(&step.block);
        let mut node = step.kind.node(state.bytes_mut());
        let added = node.insert(step.at + 1, DxEntry { hash, block });
        added.map_err(|NoRoom| view.damage("no room in a node that had some"))?;
        state.image()
    };
    leaf.bytes_mut().copy_from_slice(&halves.lower);
    index.advance();
    if let (Some(before), Some(now)) = (before, index.version()) {
        let nr = step.block.nr();
        let node = Node { nr, bytes };
        view.inode
            .dir_blocks()
            .carry_over(before, now, step.place, node);
    }
    Ok(())
}
