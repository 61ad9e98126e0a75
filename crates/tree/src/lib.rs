//! Copies trees between the host and an ext4 file system, and out of it as tar archives: mode,
//! owner, times, extended attributes, hard links, holes, symbolic links and device nodes.
//!
//! ```
//! # use std::sync::Arc;
//! # use uext4::device::MemDevice;
//! # use uext4::mkfs::{self, MkfsOptions, Preset};
//! # use uext4::{Filesystem, MountOptions};
//! use uext4_tree::{Export, Import};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let device = Arc::new(MemDevice::new(16 << 20));
//! # mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4))?;
//! # let fs = Filesystem::mount(device, MountOptions::default())?;
//! # let scratch = tempfile::tempdir()?;
//! # let (site, copy) = (scratch.path().join("site"), scratch.path().join("copy"));
//! std::fs::create_dir(&site)?;
//! std::fs::write(site.join("index.html"), "<h1>Hello</h1>")?;
//!
//! Import::new(&fs).tree(&site, "/site")?;
//! assert_eq!(fs.paths().read("/site/index.html")?, b"<h1>Hello</h1>");
//!
//! Export::new(&fs).tree("/site", &copy)?;
//! assert_eq!(std::fs::read(copy.join("index.html"))?, b"<h1>Hello</h1>");
//! # fs.unmount()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Progress, failures and cancellation
//!
//! The callback of `on_event` is told each file, the bytes copied, and each failure. It returns
//! whether the transfer goes on:
//!
//! | event | `Break` |
//! | --- | --- |
//! | [`Event::Failed`] | ends the transfer with this error |
//! | any other | ends it with [`Error::Cancelled`]; an import does not keep the current file |
//!
//! Without a callback the first failure ends the transfer. A full device and similar errors end it
//! always ([`Error::is_final`]). Directories that were begun get their attributes in each case.
//!
//! # Limits
//!
//! A transfer holds one file descriptor per level of the tree; a program that copies deep trees
//! raises `RLIMIT_NOFILE`. An export makes at most 4096 levels, and reports a directory below them
//! ([`Error::TooDeep`]).
//!
//! Layout: `import` copies into the file system, from files that `source` reads. `export` copies
//! out of it; `archive` writes tar streams, `compare` compares two file systems. `replace` makes
//! new files in the place of old ones, `restore` sets attributes on the host. `beneath` resolves
//! host paths below directory handles. `monitor` counts and calls the callback.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod archive;
mod beneath;
mod compare;
mod error;
mod export;
mod import;
mod monitor;
mod replace;
mod restore;
mod sorted;
mod source;

pub use archive::{Acls, Archive};
pub use compare::{Change, Compare, CompareTimes, Compared, Side};
pub use error::{Damage, Error, Result};
pub use export::{Devices, Export};
pub use import::{Existing, Import, Times};
pub use monitor::{Event, Summary};
pub use replace::NewName;
pub use restore::Permissions;
pub use source::Links;

use std::ffi::OsStr;
use std::path::Path;

/// Size of the copy buffer in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Joins a directory and a name, or a path below it.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}

/// The last name of a host path.
fn name_of(path: &Path) -> Result<&OsStr> {
    path.file_name().ok_or_else(|| Error::NoName {
        path: path.to_path_buf(),
    })
}

/// The directory of the last name of a host path.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The program of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
