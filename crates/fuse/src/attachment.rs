//! Attachment of a server to its mount point: mounts, and later unmounts or aborts this mount only.
//!
//! Invariant: a mount of another server or file system on the same path is never taken off. After
//! `umount -l` the path may carry one while this server still has users, so the connection number
//! of the topmost mount is compared first.

use crate::error::{Error, Result};
use crate::mount_point::{Lazy, abort, attach, attach_block, detach};
use crate::options::MountOptions;
use crate::transport::DevFuse;
use crate::umount::topmost;
use std::path::{Path, PathBuf};
use uext4_sync::OnceLock;

/// See the module.
pub(crate) struct Attachment {
    path: PathBuf,
    /// Number of the FUSE connection, known once mounted.
    connection: OnceLock<u64>,
}

impl Attachment {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.into(),
            connection: OnceLock::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As [`attach`].
    pub(crate) fn attach(&self, options: &MountOptions) -> Result<DevFuse> {
        let device = attach(&self.path, options)?;
        self.note_connection().map(|()| device)
    }

    /// As [`attach_block`].
    pub(crate) fn attach_block(&self, options: &MountOptions) -> Result<DevFuse> {
        let device = attach_block(&self.path, options)?;
        self.note_connection().map(|()| device)
    }

    fn note_connection(&self) -> Result<()> {
        if let Some(mount) = topmost(&self.path)? {
            self.connection.get_or_init(|| mount.connection);
        }
        Ok(())
    }

    /// As [`detach`].
    ///
    /// # Errors
    /// [`Error::NotMounted`] if the topmost mount at the path is not this one.
    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        match self.is_topmost()? {
            true => detach(&self.path, lazy),
            false => Err(Error::NotMounted {
                path: self.path.clone(),
            }),
        }
    }

    /// As [`abort`], unless the mount is detached.
    pub(crate) fn abort(&self) {
        if let Some(&ours) = self.connection.get()
            && self.is_topmost().unwrap_or(false)
        {
            abort(&self.path, ours);
        }
    }

    fn is_topmost(&self) -> Result<bool> {
        let Some(&ours) = self.connection.get() else {
            // The path is not in the table of this namespace.
            return Ok(true);
        };
        Ok(topmost(&self.path)?.is_some_and(|mount| mount.connection == ours))
    }
}
