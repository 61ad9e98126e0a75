//! Where a new name may go: found out before there is a handle.

use super::edit::Answer;
use super::index::{Path, Probe, Target, probe};
use super::name_entry::Key;
use super::quick;
use super::view::{Dir, Form};
use super::{DirError, Index, grow, inline};
use crate::meta::MetaBlock;
use crate::space::Reserve;
use crate::{Error, Fs, Inode};
use std::sync::Arc;
use uext4_format::Corrupt;
use uext4_format::dirent::{Fit, Gap, LeafTail, space_needed};

/// How [`super::insert`] goes about it; good while `index` is held, or found out again there.
pub(crate) enum Way {
    /// Into the only block that may hold the name.
    Into(Opening),
    /// By looking at everything, with the index held exclusively.
    Search {
        /// Blocks that the directory grows by at most.
        blocks: u32,
    },
}

impl Way {
    /// Blocks that the directory grows by at most.
    pub(crate) fn blocks(&self) -> u32 {
        match *self {
            Way::Into(_) => 0,
            Way::Search { blocks } => blocks,
        }
    }
}

/// A block with room for a name.
pub(crate) struct Opening {
    /// How the structure was held then.
    pub(super) index: Index,
    pub(super) key: Key,
    pub(super) block: Arc<MetaBlock>,
    /// `BlockState::changes` when the gap was found.
    pub(super) changes: u32,
    pub(super) gap: Gap,
}

/// Answers how [`super::insert`] would succeed now, as far as that can be said without a handle:
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
    // The leaf comes while the name is hashed once more, for its key.
    let leaf = quick::expect_leaf(view, name)?;
    let mut room = Room::new(view, name, index);
    let leaf = quick::expected_leaf(view, leaf)?;
    let looked = room.look(view, &leaf).map_err(DirError::from);
    Some(looked.and_then(|_| room.settle(0, || false)))
}

fn can_insert_linear(view: &Dir<'_>, name: &[u8], index: Index, reserve: Reserve) -> Answer<Way> {
    if index != Index::Exclusive && view.blocks != 1 {
        return Err(DirError::NeedExclusive);
    }
    let mut room = Room::new(view, name, index);
    view.search_all(|block| room.look(view, block))?;
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
    let blocks = if exclusive { grow::blocks(&path) } else { 1 };
    let mut room = Room::new(view, name, index);
    view.search_chain(path, |block| room.look(view, block))?;
    let may_grow = || !full && view.blocks < view.config().max_blocks();
    room.settle(blocks, || may_grow() && view.fs.space.has_room(reserve))
}

/// What a look at all blocks that may take a name has shown.
pub(super) struct Room<'a> {
    name: &'a [u8],
    index: Index,
    key: Key,
    pub(super) exists: bool,
    pub(super) opening: Option<Opening>,
}

impl<'a> Room<'a> {
    pub(super) fn new(view: &Dir<'_>, name: &'a [u8], index: Index) -> Self {
        Self {
            key: view.inode.dir_blocks().expect_name(name),
            name,
            index,
            exists: false,
            opening: None,
        }
    }

    /// Looks at one block; ends the search when the name is there.
    pub(super) fn look(
        &mut self,
        view: &Dir<'_>,
        block: &Arc<MetaBlock>,
    ) -> crate::Result<Option<()>> {
        let state = block.read();
        match view.names_in(block, &state)?.fits(self.name) {
            Fit::Exists => {
                self.exists = true;
                return Ok(Some(()));
            }
            Fit::Room(gap) if self.opening.is_none() => {
                state.expect_change(gap.bytes(space_needed(self.name.len())));
                let (block, changes) = (block.clone(), state.changes());
                self.opening = Some(Opening {
                    index: self.index,
                    key: self.key,
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
            (None, Index::Exclusive) => Ok(Way::Search { blocks }),
        }
    }
}

/// An index that makes no sense is given up when an entry must be added, as Linux does: then the
/// directory is linear. With checksums it can only be real damage, and nothing is changed.
pub(super) fn may_drop_index(view: &Dir<'_>, corrupt: Corrupt, index: Index) -> Answer<()> {
    match (view.config().tail, index) {
        (LeafTail::Checksum, _) => Err(corrupt.into()),
        (_, Index::Exclusive) => Ok(()),
        _ => Err(DirError::NeedExclusive),
    }
}
