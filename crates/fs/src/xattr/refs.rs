//! References on value inodes that a change takes and drops, settled at its end.
//!
//! Values that move between areas net out to nothing. What is left is settled without the owner's
//! lock, because a value that nobody names any more becomes an orphan; only references that a copy
//! of a shared block takes are settled at once.

use super::value;
use crate::{Fs, Result};
use std::collections::BTreeMap;
use uext4_format::InodeNr;
use uext4_format::xattr::{XattrSet, XattrValue};
use uext4_journal::Handle;

/// How the reference counts of value inodes change.
#[derive(Default)]
pub(super) struct Refs {
    delta: BTreeMap<InodeNr, i64>,
}

impl Refs {
    /// One reference less.
    pub(super) fn drop_one(&mut self, inode: InodeNr) {
        *self.delta.entry(inode).or_default() -= 1;
    }

    /// One reference more for every value inode of the set.
    pub(super) fn take_all(&mut self, set: &XattrSet) {
        self.add(set, 1);
    }

    /// One reference less for every value inode of the set.
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

    /// Takes references that are still to be taken. The owner's state may be locked.
    pub(super) fn settle_taken(&mut self, fs: &Fs, handle: &Handle<'_>) -> Result<()> {
        for (&inode, delta) in self.delta.iter_mut().filter(|(_, delta)| **delta > 0) {
            value::take(fs, handle, inode, *delta as u64)?;
            *delta = 0;
        }
        Ok(())
    }

    /// Settles what is left. The caller holds no live object.
    pub(super) fn settle(mut self, fs: &Fs, handle: &Handle<'_>) -> Result<()> {
        self.settle_taken(fs, handle)?;
        for (inode, delta) in self.delta.into_iter().filter(|(_, delta)| *delta < 0) {
            value::release(fs, handle, inode, delta.unsigned_abs())?;
        }
        Ok(())
    }
}
