//! Changing single entries: where the blocks allow it, under the lock of one block.

use super::index::{Path, Probe, Target, probe};
use super::quick;
use super::shrink::is_sparse;
use super::view::{Dir, Form, names_mut};
use super::{DirError, Index, divide, grow, inline};
use crate::meta::{BlockState, MetaBlock};
use crate::space::Reserve;
use crate::{Error, Fs, Inode};
use std::sync::Arc;
use uext4_format::dirent::{DirEntryType, Fit, Gap, Insertion, LeafTail, Location, NewEntry};
use uext4_format::{Corrupt, FileType, InodeFlags, InodeNr, LogicalBlock};
use uext4_journal::Handle;

pub(super) type Answer<T> = Result<T, DirError>;

/// How [`insert`] goes about it; good while `index` is held, or found out again by [`insert`].
pub(crate) enum Way {
    /// Into the only block that may hold the name.
    Into(Opening),
    /// By splitting that block, with the index held [`Index::Beside`].
    Split,
    /// By looking at everything, with the index held exclusively.
    Search {
        /// Blocks that the directory grows by at most.
        blocks: u32,
    },
}

/// A block with room for a name.
pub(crate) struct Opening {
    /// How the structure was held then.
    index: Index,
    block: Arc<MetaBlock>,
    /// `BlockState::changes` when the gap was found.
    changes: u64,
    gap: Gap,
}

/// Answers how [`insert`] would succeed now, as far as that can be said without a handle:
/// `Exists`, `NoSpace` when the directory cannot grow, [`DirError::NeedExclusive`], or
/// [`DirError::Moved`].
pub(crate) fn can_insert(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &[u8],
    index: Index,
    reserve: Reserve,
) -> Answer<Way> {
    index.checked(dir, look_for_room(fs, dir, name, index, reserve))
}

fn look_for_room(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &[u8],
    index: Index,
    reserve: Reserve,
) -> Answer<Way> {
    let view = Dir::open(fs, dir)?;
    match view.form {
        Form::Inline => inline::can_insert(&view, name, index),
        Form::Linear => can_insert_linear(&view, name, index, reserve),
        Form::Indexed if let Some(answer) = room_in_leaf(&view, name, index) => answer,
        Form::Indexed => match probe(&view, Target::Name(name))? {
            Probe::Path(path) => can_insert_indexed(&view, path, name, index, reserve),
            Probe::Broken(corrupt) => {
                may_drop_index(&view, corrupt, index)?;
                can_insert_linear(&view, name, index, reserve)
            }
        },
    }
}

/// What can be said without the way to the leaf, and without anything that could grow.
fn room_in_leaf(view: &Dir<'_>, name: &[u8], index: Index) -> Option<Answer<Way>> {
    if !matches!(index, Index::Free(_) | Index::Shared) {
        return None;
    }
    let leaf = quick::leaf_of(view, name)?;
    let mut room = Room::new(name, index);
    let looked = room.look(view, &leaf).map_err(DirError::from);
    Some(looked.and_then(|_| room.settle(0, || false)))
}

fn can_insert_linear(view: &Dir<'_>, name: &[u8], index: Index, reserve: Reserve) -> Answer<Way> {
    if index != Index::Exclusive && view.blocks != 1 {
        return Err(DirError::NeedExclusive);
    }
    let mut room = Room::new(name, index);
    view.search_all(|block| room.look(view, block))?;
    if index == Index::Beside && room.opening.is_none() && !room.exists {
        return Err(DirError::NeedExclusive);
    }
    let can_grow = || view.blocks < view.config().max_blocks() && view.fs.space.has_room(reserve);
    // An index begins with a leaf for the old names, and may have to split it at once.
    let blocks = 1 + u32::from(view.config().index && view.blocks == 1);
    room.settle(blocks, can_grow)
}

fn can_insert_indexed(
    view: &Dir<'_>,
    path: Path,
    name: &[u8],
    index: Index,
    reserve: Reserve,
) -> Answer<Way> {
    if index != Index::Exclusive && path.continues() {
        return Err(DirError::NeedExclusive);
    }
    let exclusive = index == Index::Exclusive;
    let full = exclusive && grow::is_full(view, &path);
    if index == Index::Beside && path.parent().is_full() {
        return Err(DirError::NeedExclusive);
    }
    let blocks = if exclusive { grow::blocks(&path) } else { 1 };
    let mut room = Room::new(name, index);
    view.search_chain(path, |block| room.look(view, block))?;
    let may_grow = || !full && view.blocks < view.config().max_blocks();
    room.settle(blocks, || may_grow() && view.fs.space.has_room(reserve))
}

/// What a look at all blocks that may take a name has shown.
struct Room<'a> {
    name: &'a [u8],
    index: Index,
    exists: bool,
    opening: Option<Opening>,
}

impl<'a> Room<'a> {
    fn new(name: &'a [u8], index: Index) -> Self {
        Self {
            name,
            index,
            exists: false,
            opening: None,
        }
    }

    /// Looks at one block; ends the search when the name is there.
    fn look(&mut self, view: &Dir<'_>, block: &Arc<MetaBlock>) -> crate::Result<Option<()>> {
        let state = block.read();
        match view.names(&state)?.fits(self.name) {
            Fit::Exists => {
                self.exists = true;
                return Ok(Some(()));
            }
            Fit::Room(gap) if self.opening.is_none() => {
                let (block, changes) = (block.clone(), state.changes());
                self.opening = Some(Opening {
                    index: self.index,
                    block,
                    changes,
                    gap,
                });
            }
            Fit::Room(_) | Fit::NoRoom => {}
        }
        Ok(None)
    }

    /// `blocks` is what a directory without room grows by.
    fn settle(self, blocks: u32, can_grow: impl FnOnce() -> bool) -> Answer<Way> {
        match (self.opening, self.index) {
            _ if self.exists => Err(Error::Exists.into()),
            (Some(_), Index::Exclusive) => Ok(Way::Search { blocks: 0 }),
            (Some(opening), _) => Ok(Way::Into(opening)),
            (None, Index::Free(_) | Index::Shared) => Err(DirError::NeedExclusive),
            (None, _) if !can_grow() => Err(Error::NoSpace.into()),
            (None, Index::Beside) => Ok(Way::Split),
            (None, Index::Exclusive) => Ok(Way::Search { blocks }),
        }
    }
}

/// Gives `child` the name `name`, the way that [`can_insert`] found.
///
/// # Errors
/// `Exists`, `NoSpace`; with [`Way::Into`] and [`Way::Split`] also [`DirError::NeedExclusive`], and
/// with [`Way::Into`] `NotFound` for a directory that lost its name.
pub(crate) fn insert(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &[u8],
    child: InodeNr,
    kind: FileType,
    way: &Way,
) -> Answer<()> {
    let new = NewEntry {
        inode: child,
        name,
        kind: fs.dirs.entry_type(kind),
    };
    match way {
        Way::Into(opening) => match insert_into(fs, handle, dir, &new, opening) {
            Err(DirError::Moved) => insert_again(fs, handle, dir, &new),
            other => other,
        },
        Way::Split => divide::insert_with_split(&mut Dir::open(fs, dir)?, handle, &new),
        Way::Search { .. } => insert_entry(&mut Dir::open(fs, dir)?, handle, &new),
    }
}

/// How often an insert looks for its block again. It may not wait for whoever has the index closed:
/// that may wait for its handle to end.
const LOOKS: u32 = 8;

/// The structure changed since the handle was started: the name has another place, if any.
fn insert_again(fs: &Fs, handle: &Handle<'_>, dir: &Arc<Inode>, new: &NewEntry<'_>) -> Answer<()> {
    for _ in 0..LOOKS {
        let Some(version) = dir.index.version() else {
            break;
        };
        let answer = insert_now(fs, handle, dir, new, Index::Free(version));
        if !matches!(answer, Err(DirError::Moved)) {
            return answer;
        }
    }
    Err(DirError::Moved)
}

fn insert_now(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    new: &NewEntry<'_>,
    index: Index,
) -> Answer<()> {
    if dir.facts().links == 0 {
        return Err(Error::NotFound.into());
    }
    // Room was found without this handle, and the block does not grow: nothing is reserved.
    match can_insert(fs, dir, new.name, index, Reserve::Keep)? {
        Way::Into(opening) => insert_into(fs, handle, dir, new, &opening),
        Way::Split | Way::Search { .. } => Err(DirError::NeedExclusive),
    }
}

/// The gap still stands unless somebody changed the block meanwhile.
fn insert_into(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Inode,
    new: &NewEntry<'_>,
    opening: &Opening,
) -> Answer<()> {
    let block = &opening.block;
    let mut state = handle.write_checked(block, |_| opening.index.check(dir))?;
    let unchanged = state.changes() == opening.changes;
    let mut leaf = names_mut(fs, dir, &mut state)?;
    if unchanged {
        leaf.insert_at(opening.gap, new);
        return Ok(());
    }
    inserted(leaf.insert(new))
}

pub(super) fn inserted(insertion: Insertion) -> Answer<()> {
    match insertion {
        Insertion::Done(_) => Ok(()),
        Insertion::Exists(..) => Err(Error::Exists.into()),
        Insertion::NoRoom => Err(DirError::NeedExclusive),
    }
}

pub(super) fn insert_entry(
    view: &mut Dir<'_>,
    handle: &Handle<'_>,
    new: &NewEntry<'_>,
) -> Answer<()> {
    match view.form {
        Form::Inline => inline::insert(view, handle, new),
        Form::Linear => insert_linear(view, handle, new),
        Form::Indexed => insert_indexed(view, handle, new),
    }
}

/// The only block where `name` may be or come, if there is just one.
pub(super) fn one_leaf(view: &Dir<'_>, name: &[u8]) -> Answer<Arc<MetaBlock>> {
    let leaf = match view.form {
        Form::Inline => None,
        Form::Linear => (view.blocks == 1).then_some(LogicalBlock(0)),
        Form::Indexed if let Some(leaf) = quick::leaf_of(view, name) => return Ok(leaf),
        Form::Indexed => match probe(view, Target::Name(name))? {
            Probe::Path(path) => (!path.continues()).then_some(path.leaf),
            Probe::Broken(_) => None,
        },
    };
    Ok(view.block_or_damage(leaf.ok_or(DirError::NeedExclusive)?)?)
}

/// Puts the entry into a block, which is the only one that may hold the name.
fn insert_in(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    block: &Arc<MetaBlock>,
    new: &NewEntry<'_>,
) -> Answer<()> {
    let mut state = handle.write(block);
    inserted(view.names_mut(&mut state)?.insert(new))
}

fn insert_linear(view: &mut Dir<'_>, handle: &Handle<'_>, new: &NewEntry<'_>) -> Answer<()> {
    let full = insert_where_room(view, handle, new)?;
    match full {
        Full::No => Ok(()),
        // A directory gets its index when the first block is full, never later.
        Full::Yes if view.config().index && view.blocks == 1 => {
            grow::make_index(view, handle)?;
            insert_indexed(view, handle, new)
        }
        Full::Yes => Ok(grow::append_leaf(view, handle, new)?),
    }
}

/// Whether a linear directory had no room.
enum Full {
    Yes,
    No,
}

fn insert_where_room(view: &Dir<'_>, handle: &Handle<'_>, new: &NewEntry<'_>) -> Answer<Full> {
    let mut room = Room::new(new.name, Index::Exclusive);
    view.search_all(|block| room.look(view, block))?;
    match room {
        Room { exists: true, .. } => Err(Error::Exists.into()),
        Room {
            opening: Some(opening),
            ..
        } => insert_in(view, handle, &opening.block, new).map(|()| Full::No),
        Room { opening: None, .. } => Ok(Full::Yes),
    }
}

fn insert_indexed(view: &mut Dir<'_>, handle: &Handle<'_>, new: &NewEntry<'_>) -> Answer<()> {
    let path = match probe(view, Target::Name(new.name))? {
        Probe::Path(path) => path,
        Probe::Broken(corrupt) => {
            may_drop_index(view, corrupt, Index::Exclusive)?;
            handle
                .write(view.inode)
                .disk
                .flags
                .remove(InodeFlags::INDEX);
            view.form = Form::Linear;
            return match insert_where_room(view, handle, new)? {
                Full::No => Ok(()),
                Full::Yes => Ok(grow::append_leaf(view, handle, new)?),
            };
        }
    };
    let mut room = Room::new(new.name, Index::Exclusive);
    view.search_chain(path, |block| room.look(view, block))?;
    match room {
        Room { exists: true, .. } => Err(Error::Exists.into()),
        Room {
            opening: Some(opening),
            ..
        } => insert_in(view, handle, &opening.block, new),
        Room { opening: None, .. } => Ok(grow::insert_with_split(view, handle, new)?),
    }
}

/// An index that makes no sense is given up when an entry must be added, as Linux does: then the
/// directory is linear. With checksums it can only be real damage, and nothing is changed.
fn may_drop_index(view: &Dir<'_>, corrupt: Corrupt, index: Index) -> Answer<()> {
    match (view.config().tail, index) {
        (LeafTail::Checksum, _) => Err(corrupt.into()),
        (_, Index::Exclusive) => Ok(()),
        _ => Err(DirError::NeedExclusive),
    }
}

/// Takes the name `name` from `child`.
///
/// # Errors
/// `NotFound` when the entry is gone or means another inode; [`DirError::Moved`].
pub(crate) fn remove(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &[u8],
    child: InodeNr,
    index: Index,
) -> Answer<()> {
    let view = Dir::open(fs, dir)?;
    match (view.form, index) {
        (Form::Inline, Index::Exclusive) => return inline::remove(&view, handle, name, child),
        (Form::Inline, _) => return Err(DirError::NeedExclusive),
        _ => {}
    }
    let block = holder(&view, name, child)?;
    let mut state = handle.write_checked(&block, |_| index.check(dir))?;
    let changes = state.changes();
    let mut leaf = view.names_mut(&mut state)?;
    match leaf.known().locate(name) {
        Some(at) if at.inode == child => leaf.remove_at(at),
        _ => return Err(Error::NotFound.into()),
    };
    if is_sparse(&leaf, changes) {
        fs.sparse_leaves.push(dir, name);
    }
    Ok(())
}

/// Where a lookup found an entry; good while `index` is held, or its version stays.
pub(crate) struct Holder {
    pub(super) block: Arc<MetaBlock>,
    /// `BlockState::changes` when it was found.
    pub(super) changes: u64,
    pub(super) at: Location,
}

/// As [`remove`], where [`super::lookup_holder`] found the entry.
///
/// # Errors
/// `NotFound` when the entry is gone or means another inode; [`DirError::Moved`].
pub(crate) fn remove_at(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &[u8],
    holder: &Holder,
    index: Index,
) -> Answer<()> {
    let block = &holder.block;
    let mut state = handle.write_checked(block, |_| index.check(dir))?;
    let changes = state.changes();
    let mut leaf = names_mut(fs, dir, &mut state)?;
    if changes == holder.changes {
        leaf.remove_at(holder.at);
    } else {
        match leaf.known().locate(name) {
            Some(at) if at.inode == holder.at.inode => leaf.remove_at(at),
            _ => return Err(Error::NotFound.into()),
        }
    }
    if is_sparse(&leaf, changes) {
        fs.sparse_leaves.push(dir, name);
    }
    Ok(())
}

/// The block where `name` means `child`, for now: to be looked at again under its lock.
pub(super) fn holder(view: &Dir<'_>, name: &[u8], child: InodeNr) -> Answer<Arc<MetaBlock>> {
    match view.locate(name)? {
        Some((block, found)) if found.inode == child => Ok(block),
        _ => Err(Error::NotFound.into()),
    }
}

/// Lets `name`, which means `old`, mean `new`.
///
/// # Errors
/// `NotFound` when the entry is gone or means another inode than `old`; for an inline directory
/// [`DirError::NeedExclusive`] unless `index` is held exclusively.
pub(crate) fn replace(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    (name, old): (&[u8], InodeNr),
    (new, kind): (InodeNr, FileType),
    index: Index,
) -> Answer<()> {
    let view = Dir::open(fs, dir)?;
    let kind = fs.dirs.entry_type(kind);
    match (view.form, index) {
        (Form::Inline, Index::Exclusive) => {
            return inline::replace(&view, handle, (name, old), (new, kind));
        }
        (Form::Inline, _) => return Err(DirError::NeedExclusive),
        _ => {}
    }
    let block = holder(&view, name, old)?;
    let mut state = handle.write(&block);
    retarget(&view, &mut state, (name, old), (new, kind))
}

/// Changes an entry of a locked block, if it still means `old`.
pub(super) fn retarget(
    view: &Dir<'_>,
    state: &mut BlockState,
    (name, old): (&[u8], InodeNr),
    (new, kind): (InodeNr, DirEntryType),
) -> Answer<()> {
    let mut leaf = view.names_mut(state)?;
    match leaf.known().locate(name) {
        Some(at) if at.inode == old => leaf.retarget_at(at, new, kind),
        _ => return Err(Error::NotFound.into()),
    };
    Ok(())
}
