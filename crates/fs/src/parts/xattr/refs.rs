//! Reference changes on value inodes, collected during a change and applied at its end.
//!
//! Values that move between areas cancel out. The rest is applied without the owner's lock, because
//! a value inode without references becomes an orphan; only references that a copy of a shared
//! block takes are applied at once.

use super::value;
use crate::state::engine::Fs;
use crate::types::error::Result;
use std::collections::BTreeMap;
use uext4_format::InodeNr;
use uext4_format::xattr::{XattrSet, XattrValue};
use uext4_journal::Handle;

/// Changes of the reference counts of value inodes.
#[derive(Default)]
pub(super) struct Refs {
    delta: BTreeMap<InodeNr, i64>,
}

impl Refs {
    pub(super) fn drop_one(&mut self, inode: InodeNr) {
        *self.delta.entry(inode).or_default() -= 1;
    }

    /// Takes one reference on every value inode of the set.
    pub(super) fn take_all(&mut self, set: &XattrSet) {
        self.add(set, 1);
    }

    /// Drops one reference on every value inode of the set.
    pub(super) fn drop_all(&mut self, set: &XattrSet) {
        self.add(set, -1);
    }

    fn add(&mut self, set: &XattrSet, by: i64) {
        for entry in set.iter() {
            if let XattrValue::Inode { inode, .. } = entry.value {
                *self.delta.entry(inode).or_default() += by;
            }
        }
    }

    /// Applies the outstanding increments. The owner's state may be locked.
    pub(super) fn apply_increments(&mut self, fs: &Fs, handle: &Handle<'_>) -> Result<()> {
        for (&inode, delta) in self.delta.iter_mut().filter(|(_, delta)| **delta > 0) {
            value::take(fs, handle, inode, delta.cast_unsigned())?;
            *delta = 0;
        }
        Ok(())
    }

    /// Applies all outstanding changes. The caller holds no live object.
    pub(super) fn apply(mut self, fs: &Fs, handle: &Handle<'_>) -> Result<()> {
        self.apply_increments(fs, handle)?;
        for (inode, delta) in self.delta.into_iter().filter(|(_, delta)| *delta < 0) {
            value::release(fs, handle, inode, delta.unsigned_abs())?;
        }
        Ok(())
    }
}
