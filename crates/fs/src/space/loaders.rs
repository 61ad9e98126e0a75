//! Bitmap loaders that the allocator calls.

use super::Space;
use super::group::Group;
use crate::base::Base;
use crate::{Error, Result};
use std::ops::Range;
use uext4_alloc::{Bitmap, LoadError, Loader};
use uext4_format::GroupNr;
use uext4_journal::Object;

/// Loads bitmaps for the allocator.
pub(super) struct BitmapLoader<'a> {
    pub(super) base: &'a Base,
    pub(super) space: &'a Space,
    pub(super) failed: std::cell::RefCell<Option<Error>>,
}

impl Loader for BitmapLoader<'_> {
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> std::result::Result<(), LoadError> {
        let mut load = || -> Result<()> {
            let group_ref: &Group = self.space.group(group)?;
            let mut half = group_ref.blocks.live().write_unlogged();
            self.space.load_blocks(self.base, group, &mut half)?;
            used.copy_from(half.used.as_ref().expect("load_blocks fills the bitmap in"));
            Ok(())
        };
        load().map_err(|error| {
            // The request may find space in another group.
            self.space.met(&error);
            *self.failed.borrow_mut() = Some(error);
            LoadError
        })
    }

    fn look(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, std::result::Result<&Bitmap, LoadError>),
    ) {
        self.space.look(groups, &mut |nr, seen| {
            let seen = seen.map_err(|error| {
                *self.failed.borrow_mut() = Some(error);
                LoadError
            });
            each(nr, seen);
        });
    }

    fn prefetch(&self, groups: Range<u32>) {
        self.space.read_ahead(groups);
    }
}

/// Passes bitmaps to the prefetch without caching them. Errors are ignored here; requests that need
/// the bitmap meet them again.
pub(super) struct LookLoader<'a> {
    pub(super) space: &'a Space,
}

impl Loader for LookLoader<'_> {
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> std::result::Result<(), LoadError> {
        let mut loaded = Err(LoadError);
        self.look(&[group], &mut |_, seen| {
            loaded = seen.map(|seen| used.copy_from(seen));
        });
        loaded
    }

    fn look(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, std::result::Result<&Bitmap, LoadError>),
    ) {
        let show = &mut |nr, seen: Result<&_>| each(nr, seen.map_err(|_| LoadError));
        self.space.look(groups, show);
    }
}
