//! Manifest: everything visible of a tree, to compare two trees exactly.
//!
//! A [`Source`] is anything that can be walked: a mounted directory ([`HostDir`]) or our library.
//!
//! Invariants: entries are sorted by path; the root has the empty path; a hard link group is named
//! after its first path.

mod compare;
mod entry;
mod host;
mod walk;

pub use compare::{Difference, Field, Policy};
pub use entry::{DataRun, Entry, FileKind, Hasher, Manifest};
pub use host::HostDir;
pub use walk::{Source, Stat};
