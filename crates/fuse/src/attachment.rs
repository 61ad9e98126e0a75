//! Attachment of a server to its mount point: mounts, and later unmounts or aborts this mount only.
//!
//! Invariant: a mount of another server or file system is never taken off. The mount is known by
//! its numbers, since its directory may be renamed, and another mount may cover it or, after
//! `umount -l`, be on the same path.

use crate::error::{Error, Result};
use crate::mount_dir::MountDir;
use crate::mount_point::{Connection, Lazy, attach, attach_block};
use crate::mount_table::{MountId, MountState};
use crate::options::MountOptions;
use crate::transport::DevFuse;
use std::path::{Path, PathBuf};
use uext4_sync::{Mutex, OnceLock, Rank};

/// The attachment of one server: the mount point and, once mounted, its mount id.
pub(crate) struct Attachment {
    path: PathBuf,
    /// Until it is mounted: a descriptor would keep the file system below in use.
    place: Mutex<Option<MountDir>>,
    /// The mount, once it is made.
    mount: OnceLock<Made>,
}

/// A mount that was made here.
struct Made {
    id: MountId,
    /// `None` if the control file system (`fusectl`) is not mounted.
    connection: Option<Connection>,
}

impl Attachment {
    pub(crate) fn new(place: MountDir) -> Self {
        Self {
            path: place.path().into(),
            place: Mutex::new(Rank::CacheShard, Some(place)),
            mount: OnceLock::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the connection, once it is mounted.
    pub(crate) fn connection(&self) -> Option<u64> {
        Some(self.mount.get()?.id.connection)
    }

    /// As [`attach`].
    pub(crate) fn attach(&self, options: &MountOptions) -> Result<DevFuse> {
        self.attach_by(|target| attach(target, &self.path, options))
    }

    /// As [`attach_block`].
    pub(crate) fn attach_block(&self, options: &MountOptions) -> Result<DevFuse> {
        self.attach_by(|target| attach_block(target, &self.path, options))
    }

    fn attach_by(&self, mount: impl FnOnce(&Path) -> Result<DevFuse>) -> Result<DevFuse> {
        let mut place = self.place.lock();
        let Some(open) = &*place else {
            let error = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::system("mount on", &self.path)(error));
        };
        let (device, id) = open.mount(mount)?;
        self.mount.get_or_init(|| Made {
            id,
            connection: Connection::open(id.connection),
        });
        *place = None;
        Ok(device)
    }

    /// Takes the mount off, at whichever path it is by now.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if it is detached already, [`Error::Covered`],
    /// [`Error::Busy`] if it is in use and `lazy` is [`Lazy::No`].
    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        let path = || self.path.clone();
        match self.state()? {
            MountState::Topmost(spot) => spot.detach(lazy),
            MountState::Covered => Err(Error::Covered { path: path() }),
            MountState::Detached => Err(Error::NotMounted { path: path() }),
        }
    }

    /// Aborts the connection after the end of the server. The mount stays, and answers errors: what
    /// is below it must not be taken for its contents.
    pub(crate) fn abort_unserved(&self) {
        if !self.abort_connection()
            && let Ok(MountState::Topmost(spot)) = self.state()
        {
            spot.abort_and_keep();
        }
    }

    /// Aborts the connection, and takes the mount off unless it is in use.
    pub(crate) fn abort(&self) {
        self.abort_connection();
        if let Ok(MountState::Topmost(spot)) = self.state() {
            spot.abort();
        }
    }

    /// Whether the connection was aborted by itself, wherever the mount is.
    fn abort_connection(&self) -> bool {
        let made = self.mount.get();
        let connection = made.and_then(|made| made.connection.as_ref());
        connection.is_some_and(Connection::abort)
    }

    fn state(&self) -> Result<MountState> {
        match self.mount.get() {
            Some(made) => MountState::of(&made.id),
            None => Ok(MountState::Detached),
        }
    }
}
