//! Directories of the host as sources.
//!
//! Names are read in the order of their bytes; no symbolic link is followed. Threads scan the
//! directories that come next. A file is read at the end, below its directory, which is opened
//! again below the first one.
//!
//! Layout: `directory` feeds a sink, `beneath` opens paths, `names` are those of a directory,
//! `scan` finds files and their attributes, `xattrs` the extended ones, `file` reads contents.
//!
//! Invariant: a file whose identity, size or times have changed since its attributes were read is
//! refused, so that attributes and contents belong together.
//!
//! References: `openat2(2)`, `lseek(2)`.

mod beneath;
pub(crate) mod directory;
mod file;
mod names;
mod scan;
mod xattrs;
