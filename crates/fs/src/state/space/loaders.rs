//! Bitmap loaders that the allocator calls.

use super::Space;
use super::group::Group;
use crate::state::base::Base;
use crate::types::error::{Error, Result};
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

impl BitmapLoader<'_> {
    /// Records the error here, because the request may find space in another group.
    fn fail(&self, error: Error) -> LoadError {
        let _recorded = self.base.record_result_later::<()>(Err(error.clone()));
        *self.failed.borrow_mut() = Some(error);
        LoadError
    }

    fn load_into(&self, group: GroupNr, used: &mut Bitmap) -> Result<()> {
        let group_ref: &Group = self.space.group(group)?;
        let mut half = group_ref.blocks.live().write_unlogged();
        self.space.load_blocks(self.base, group, &mut half)?;
        used.copy_from(half.used.as_ref().expect("load_blocks fills the bitmap in"));
        Ok(())
    }
}

impl Loader for BitmapLoader<'_> {
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> std::result::Result<(), LoadError> {
        self.load_into(group, used)
            .map_err(|error| self.fail(error))
    }

    fn scan(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, std::result::Result<&Bitmap, LoadError>),
    ) {
        self.space.visit_bitmaps(groups, &mut |nr, seen| {
            each(nr, seen.map_err(|error| self.fail(error)));
        });
    }

    fn lost(&self, _group: GroupNr, clusters: u32) {
        self.space.claims.withdraw(clusters.into());
    }

    fn prefetch(&self, groups: Range<u32>) {
        self.space.read_ahead(groups);
    }
}

/// Passes bitmaps to the prefetch without caching them. The space of a bitmap that fails is lost,
/// as for a request; the next operation records the error ([`Space::take_survey_error`]).
pub(super) struct LookLoader<'a> {
    pub(super) space: &'a Space,
}

impl Loader for LookLoader<'_> {
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> std::result::Result<(), LoadError> {
        let mut loaded = Err(LoadError);
        self.scan(&[group], &mut |_, seen| {
            loaded = seen.map(|seen| used.copy_from(seen));
        });
        loaded
    }

    fn scan(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, std::result::Result<&Bitmap, LoadError>),
    ) {
        self.space.visit_bitmaps(groups, &mut |nr, seen| {
            each(nr, seen.map_err(|error| self.space.survey_failed(error)));
        });
    }

    fn lost(&self, _group: GroupNr, clusters: u32) {
        self.space.claims.withdraw(clusters.into());
    }
}
