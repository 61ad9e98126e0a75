//! Writes a tree of a file system as one tar stream in pax format.
//!
//! Invariants: the bytes depend on the tree only. Directories come before their content, and the
//! names of each are in the order of their bytes, so a file with several names has its data under
//! the first of them. Paths are relative and without `./`; the top directory is `./`.
//!
//! | of a file | in the archive |
//! | --- | --- |
//! | owner, mode, device numbers | ustar, or pax for large owners |
//! | time of the last change | pax `mtime` with nanoseconds |
//! | extended attributes | pax `SCHILY.xattr.NAME` |
//! | access control lists | pax `SCHILY.acl.access` and `.default`, or as attributes ([`Acls`]) |
//! | further names | links |
//! | holes | sparse files of GNU tar, form 1.0 |
//! | sockets | nothing: tar has no type for them |
//!
//! Layout: `run` is one archive, `header` encodes headers, `acl` lists, `sparse` maps of holes;
//! `output` is the buffered stream.

mod acl;
mod header;
mod output;
mod run;
mod sparse;

use crate::monitor::{Callback, Monitor};
use crate::{Event, Export, Result, Summary};
use output::Output;
use run::Run;
use std::io::Write;
use std::ops::ControlFlow;
use uext4::Filesystem;
use uext4::path::AsBytes;

/// Form of access control lists in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acls {
    /// As text, which GNU tar and libarchive restore.
    Text,
    /// As extended attributes in the form of Linux, which unpackers of containers restore.
    Attributes,
}

/// Writes trees of a file system as tar archives.
///
/// ```
/// # use std::sync::Arc;
/// # use uext4::{Filesystem, MountOptions, device::MemDevice, mkfs};
/// use uext4_tree::Archive;
/// # let device = Arc::new(MemDevice::new(16 << 20));
/// # mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4)).unwrap();
/// # let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
/// fs.paths().write("/file", "Hello").unwrap();
/// let mut tar = Vec::new();
/// Archive::new(&fs).tree("/", &mut tar).unwrap();
/// assert_eq!(tar.len(), 10240);
/// ```
pub struct Archive<'a> {
    fs: Filesystem,
    acls: Acls,
    monitor: Monitor<'a>,
}

impl<'a> Archive<'a> {
    /// An archive with lists as text, which ends at the first failure.
    pub fn new(fs: &Filesystem) -> Self {
        Self {
            fs: fs.clone(),
            acls: Acls::Text,
            monitor: Monitor::default(),
        }
    }

    /// Form of access control lists.
    pub fn acls(self, acls: Acls) -> Self {
        Self { acls, ..self }
    }

    /// A callback for progress, failures and cancellation. A file without readable attributes or
    /// map is left out. One whose data fail has zeroes from there on
    /// ([`crate::Error::Incomplete`]). `Break` ends the archive also in the middle of a file.
    pub fn on_event(mut self, callback: impl FnMut(Event<'_>) -> ControlFlow<()> + 'a) -> Self {
        let callback: Callback<'a> = Box::new(callback);
        self.monitor.callback = Some(callback);
        self
    }

    /// Counts of all calls.
    pub fn summary(&self) -> Summary {
        self.monitor.summary
    }

    /// Number of bytes of data below `path`; what cannot be read is left out.
    pub fn total_bytes(&self, path: impl AsBytes) -> u64 {
        Export::new(&self.fs).total_bytes(path)
    }

    /// Writes an archive of the content of the directory at `path`, or of the file there.
    /// `/lost+found` is left out. Answers the length of the archive in bytes.
    ///
    /// # Errors
    /// The failure that ended the archive, which is not complete then.
    pub fn tree(&mut self, path: impl AsBytes, out: &mut dyn Write) -> Result<u64> {
        let mut output = Output::new(out);
        Run::new(self, &mut output).tree(path.as_bytes())?;
        Ok(output.stream_bytes)
    }
}
