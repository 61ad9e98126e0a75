//! Search for space for a new name, before a handle is started.

use super::divide::is_soon_full;
use super::error::{DirError, DirResult};
use super::index::{Path, Probe, Target, probe};
use super::lock_mode::LockMode;
use super::view::{Dir, Form};
use super::{grow, inline, quick};
use crate::cache::dcache::HashedName;
use crate::cache::meta::MetaBlock;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::space::Reserve;
use crate::types::error::Error;
use uext4_format::Corrupt;
use uext4_format::dirent::{Fit, Gap, LeafTail, space_needed};
use uext4_sync::Arc;

/// Plan of [`super::insert`]; valid while `index` is held, else checked again there.
pub(crate) enum InsertPlan {
    /// Into the only block that may hold the name.
    Into(FreeSlot),
    /// By a full search, with the index held exclusively.
    Search {
        /// Most blocks that the directory grows by.
        blocks: u32,
    },
}

impl InsertPlan {
    /// Most blocks that the directory grows by.
    pub(crate) fn blocks(&self) -> u32 {
        match *self {
            InsertPlan::Into(_) => 0,
            InsertPlan::Search { blocks } => blocks,
        }
    }

    /// Whether the leaf is to be split after the insert, if threads meet in the directory.
    pub(crate) fn is_tight(&self) -> bool {
        matches!(self, InsertPlan::Into(slot) if slot.is_tight)
    }
}

/// A block with space for a name.
pub(crate) struct FreeSlot {
    /// Hold on the structure when the gap was found.
    pub(super) index: LockMode,
    pub(super) block: Arc<MetaBlock>,
    /// `BlockState::changes` when the gap was found.
    pub(super) changes: u32,
    pub(super) gap: Gap,
    /// The leaf is to be split soon.
    is_tight: bool,
}

/// Predicts the result of [`super::insert`] as far as possible without a handle: `Exists`,
/// `NoSpace` when the directory cannot grow, or another [`DirError`].
pub(crate) fn can_insert(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    index: LockMode,
    reserve: Reserve,
) -> DirResult<InsertPlan> {
    let answer = index.checked(dir, find_room(fs, dir, name, index, reserve));
    answer.map_err(DirError::of_search)
}

fn find_room(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    index: LockMode,
    reserve: Reserve,
) -> DirResult<InsertPlan> {
    let view = Dir::open(fs, dir)?;
    match view.form {
        Form::Inline => {
            let blocks = inline::can_insert(&view, name.bytes, index)?;
            Ok(InsertPlan::Search { blocks })
        }
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

/// The answer for the leaf of the copied index, without descent and without growth.
fn room_in_leaf(
    view: &Dir<'_>,
    name: &HashedName<'_>,
    index: LockMode,
) -> Option<DirResult<InsertPlan>> {
    if !matches!(index, LockMode::Optimistic(_) | LockMode::Shared) {
        return None;
    }
    let leaf = quick::prefetch_leaf(view, name)?;
    let mut search = SlotSearch::new(view, name, index);
    let leaf = quick::prefetched_leaf(view, leaf)?;
    let searched = search.search_block(view, &leaf).map_err(DirError::from);
    if view.is_split_off(leaf.logical(), name.known_major()) {
        return Some(Err(DirError::Moved));
    }
    Some(searched.and_then(|_| search.into_plan(0, || false)))
}

fn can_insert_linear(
    view: &Dir<'_>,
    name: &HashedName<'_>,
    index: LockMode,
    reserve: Reserve,
) -> DirResult<InsertPlan> {
    if index != LockMode::Exclusive && view.blocks != 1 {
        return Err(DirError::NeedExclusive);
    }
    let mut search = SlotSearch::new(view, name, index);
    view.search_all(|block| search.search_block(view, block))?;
    // The first index comes with a leaf for the old names, which may have to be split at once.
    let blocks = 1 + u32::from(view.config().index && view.blocks == 1);
    search.into_plan(blocks, || {
        may_add_block(view) && view.fs.space.has_room(reserve)
    })
}

fn can_insert_indexed(
    view: &Dir<'_>,
    path: Path,
    name: &HashedName<'_>,
    index: LockMode,
    reserve: Reserve,
) -> DirResult<InsertPlan> {
    if index != LockMode::Exclusive && path.continues() {
        return Err(DirError::NeedExclusive);
    }
    let exclusive = index == LockMode::Exclusive;
    let full = exclusive && grow::is_full(view, &path);
    let blocks = if exclusive { grow::blocks(&path) } else { 1 };
    let mut search = SlotSearch::new(view, name, index);
    view.search_chain(path, |block| search.search_block(view, block))?;
    search.into_plan(blocks, || {
        !full && may_add_block(view) && view.fs.space.has_room(reserve)
    })
}

/// Whether the directory is below its largest size.
fn may_add_block(view: &Dir<'_>) -> bool {
    view.blocks < view.config().max_blocks()
}

/// Result of a search of all blocks that may take a name.
pub(super) struct SlotSearch<'a> {
    name: &'a HashedName<'a>,
    index: LockMode,
    exists: bool,
    slot: Option<FreeSlot>,
}

impl<'a> SlotSearch<'a> {
    pub(super) fn new(view: &Dir<'_>, name: &'a HashedName<'a>, index: LockMode) -> Self {
        view.inode.dir_blocks().prefetch_name(name.key);
        Self {
            name,
            index,
            exists: false,
            slot: None,
        }
    }

    /// Searches one block; ends the search when the name exists.
    pub(super) fn search_block(
        &mut self,
        view: &Dir<'_>,
        block: &Arc<MetaBlock>,
    ) -> crate::types::error::Result<Option<()>> {
        let state = block.read();
        let names = view.names_in(block, &state)?;
        match names.fits(self.name.bytes, self.name.print()) {
            Fit::Exists => {
                self.exists = true;
                return Ok(Some(()));
            }
            Fit::Gap(gap) if self.slot.is_none() => {
                state.prefetch_for_change(gap.bytes(space_needed(self.name.bytes.len())));
                let (block, changes) = (block.clone(), state.changes());
                self.slot = Some(FreeSlot {
                    index: self.index,
                    block,
                    changes,
                    gap,
                    is_tight: view.form == Form::Indexed && is_soon_full(view, &names),
                });
            }
            Fit::Gap(_) | Fit::Full => {}
        }
        Ok(None)
    }

    /// The block with space, if there is one. The name must be absent.
    pub(super) fn free_slot(self) -> crate::types::error::Result<Option<FreeSlot>> {
        if self.exists {
            Err(Error::Exists)
        } else {
            Ok(self.slot)
        }
    }

    /// The plan; a directory without space grows by `blocks`.
    fn into_plan(self, blocks: u32, can_grow: impl FnOnce() -> bool) -> DirResult<InsertPlan> {
        let index = self.index;
        match (self.free_slot()?, index) {
            (Some(_), LockMode::Exclusive) => Ok(InsertPlan::Search { blocks: 0 }),
            (Some(slot), _) => Ok(InsertPlan::Into(slot)),
            (None, LockMode::Optimistic(_) | LockMode::Shared) => Err(DirError::Full),
            (None, _) if !can_grow() => Err(Error::NoSpace.into()),
            (None, LockMode::Exclusive) => Ok(InsertPlan::Search { blocks }),
        }
    }
}

/// Whether a broken index may be dropped for an insert: as in Linux, the directory is linear then.
/// With checksums a broken index is real damage, and nothing is changed.
pub(super) fn may_drop_index(view: &Dir<'_>, corrupt: Corrupt, index: LockMode) -> DirResult<()> {
    match (view.config().tail, index) {
        (LeafTail::Checksum, _) => Err(corrupt.into()),
        (_, LockMode::Exclusive) => Ok(()),
        _ => Err(DirError::NeedExclusive),
    }
}
