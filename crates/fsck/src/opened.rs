//! Directories that are checked next, and what their entries must be.

use uext4_format::dirent::LeafTail;
use uext4_format::{Inode, InodeNr, Seed};

/// A directory as the rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) dir: InodeNr,
    pub(crate) names: Names,
    /// That of an encrypted directory.
    pub(crate) policy: Option<u64>,
}

/// What the names of a directory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Text,
    /// Encrypted names may have any bytes.
    Encrypted,
}

/// The directory being checked.
#[derive(Clone, Copy)]
pub(crate) struct Dir {
    pub(crate) nr: InodeNr,
    pub(crate) rules: Rules,
    pub(crate) seed: Option<Seed>,
    pub(crate) tail: LeafTail,
    pub(crate) is_indexed: bool,
}

/// Directories of a part, before they are checked.
pub(crate) struct Opened {
    pub(crate) part: usize,
    pub(crate) bytes: u64,
    pub(crate) directories: Vec<(Dir, Inode)>,
}
