//! Reference of an open file or directory to its file system.

use crate::Filesystem;
use std::ops::Deref;

/// A borrowed file system costs nothing; a clone keeps it mounted and has no lifetime.
pub(super) enum Holder<'fs> {
    Borrowed(&'fs Filesystem),
    Owned(Filesystem),
}

impl Holder<'_> {
    pub(super) fn to_owned(&self) -> Holder<'static> {
        Holder::Owned(Filesystem::clone(self))
    }
}

impl Deref for Holder<'_> {
    type Target = Filesystem;

    fn deref(&self) -> &Filesystem {
        match self {
            Self::Borrowed(fs) => fs,
            Self::Owned(fs) => fs,
        }
    }
}
