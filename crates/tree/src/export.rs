//! Copies files and trees from a file system to the host: what to copy, and how.
//!
//! Layout: `run` is one export into a directory of the host; `file` exports one file.

mod file;
mod run;

use crate::beneath;
use crate::error::OnHost;
use crate::monitor::{Callback, Monitor};
use crate::restore::{Permissions, Restore};
use crate::{Event, PIECE_BYTES, Result, Summary, name_of, parent_of};
use run::{Attributes, Run};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use uext4::path::AsBytes;
use uext4::{Attr, FileType, Filesystem, InodeRef};

/// Treatment of device nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// They are made; without privilege they are left out.
    Make,
    /// They are left out.
    Leave,
}

/// Copies files of a file system to the host.
///
/// Nothing that exists is overwritten, and no symbolic link on the host is followed below the
/// destination, also if other processes change the tree meanwhile. Files with several names keep
/// those that one call copies.
pub struct Export<'a> {
    fs: Filesystem,
    devices: Devices,
    restore: Restore,
    monitor: Monitor<'a>,
    buffer: Vec<u8>,
}

/// A file of the image that is copied.
pub(crate) struct Original {
    pub(crate) fs: Filesystem,
    pub(crate) inode: InodeRef,
    pub(crate) attr: Attr,
    pub(crate) path: Vec<u8>,
}

impl<'a> Export<'a> {
    /// An export that keeps all permissions, makes device nodes and ends at the first failure.
    pub fn new(fs: &Filesystem) -> Self {
        Self {
            fs: fs.clone(),
            devices: Devices::Make,
            restore: Restore::new(Permissions::Same),
            monitor: Monitor::default(),
            buffer: vec![0; PIECE_BYTES],
        }
    }

    /// Treatment of permission bits.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.restore.permissions = permissions;
        self
    }

    /// Treatment of device nodes.
    pub fn devices(self, devices: Devices) -> Self {
        Self { devices, ..self }
    }

    /// A callback for progress, failures and cancellation.
    pub fn on_event(mut self, callback: impl FnMut(Event<'_>) -> ControlFlow<()> + 'a) -> Self {
        let callback: Callback<'a> = Box::new(callback);
        self.monitor.callback = Some(callback);
        self
    }

    /// Counts of all calls.
    pub fn summary(&self) -> Summary {
        Summary {
            reduced: self.restore.reduced,
            ..self.monitor.summary
        }
    }

    /// Number of bytes that [`Self::tree`] would copy; what cannot be read is left out.
    pub fn total_bytes(&self, path: impl AsBytes) -> u64 {
        let paths = self.fs.paths();
        let Ok(top) = paths.symlink_inode(&path) else {
            return 0;
        };
        let mut total = data_bytes(&self.fs.attr(&top));
        let mut entered = HashSet::from([top.nr()]);
        let Ok(mut walk) = paths.walk(&path) else {
            return total;
        };
        while let Some(file) = walk.next() {
            let Ok(file) = file else { continue };
            if file.inode.is_dir() && !entered.insert(file.inode.nr()) {
                walk.skip_content();
            }
            total = total.saturating_add(data_bytes(&self.fs.attr(&file.inode)));
        }
        total
    }

    /// Copies the file or tree at `path`, whose new name is `host`; its parent must exist.
    ///
    /// # Errors
    /// The failure that ended the transfer.
    pub fn tree(&mut self, path: impl AsBytes, host: impl AsRef<Path>) -> Result<()> {
        let (path, host) = (path.as_bytes(), host.as_ref());
        match open_directory(parent_of(host)) {
            Ok(root) => Run::new(self, root, parent_of(host)).tree(path, host),
            Err(error) => self.monitor.finish(Err(error)),
        }
    }

    /// Copies the content of the directory at `path` into the directory `host`, which is created if
    /// it does not exist. It gets the attributes of `path`, unless it has names already or belongs
    /// to another user. `/lost+found` is left out if it is empty.
    ///
    /// # Errors
    /// The failure that ended the transfer.
    pub fn content(&mut self, path: impl AsBytes, host: impl AsRef<Path>) -> Result<()> {
        let (path, host) = (path.as_bytes(), host.as_ref());
        match open_or_make_directory(host) {
            Ok((root, attributes)) => Run::new(self, root, host).content(path, attributes),
            Err(error) => self.monitor.finish(Err(error)),
        }
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).on_host(|| path.into())
}

fn open_or_make_directory(path: &Path) -> Result<(OwnedFd, Attributes)> {
    if path.is_dir() {
        let found = open_directory(path)?;
        let is_new = beneath::is_empty_and_own(&found).on_host(|| path.into())?;
        return Ok(if is_new {
            (found, Attributes::Come)
        } else {
            (found, Attributes::Stay)
        });
    }
    let parent = open_directory(parent_of(path))?;
    let made = beneath::make_directory(parent.as_fd(), name_of(path)?);
    Ok((made.on_host(|| path.into())?, Attributes::Come))
}

/// Bytes of data of one name of a file.
fn data_bytes(attr: &Attr) -> u64 {
    match attr.kind {
        FileType::Regular => {
            let data = attr.size_bytes.min(attr.sectors.saturating_mul(512));
            data / u64::from(attr.links.max(1))
        }
        _ => 0,
    }
}
