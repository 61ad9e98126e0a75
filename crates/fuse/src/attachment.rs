//! Attachment of a server to its mount point: mounts, and later unmounts or aborts this mount only.
//!
//! Invariant: a mount of another server or file system on the same path is never taken off. After
//! `umount -l` the path may carry one while this server still has users, so the identity of the
//! topmost mount is compared first.

use crate::error::{Error, Result};
use crate::mount_point::{Lazy, attach, attach_block};
use crate::mount_table::{MountId, Spot};
use crate::options::MountOptions;
use crate::place::Place;
use crate::transport::DevFuse;
use std::path::{Path, PathBuf};
use uext4_sync::{Mutex, OnceLock, Rank};

/// See the module.
pub(crate) struct Attachment {
    path: PathBuf,
    /// Until it is mounted: a descriptor would keep the file system below in use.
    place: Mutex<Option<Place>>,
    /// The mount, once it is made.
    mount: OnceLock<MountId>,
}

impl Attachment {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            path: place.path().into(),
            place: Mutex::new(Rank::CacheShard, Some(place)),
            mount: OnceLock::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
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
        self.mount.get_or_init(|| id);
        *place = None;
        Ok(device)
    }

    /// As [`Spot::detach`].
    ///
    /// # Errors
    /// [`Error::NotMounted`] if the topmost mount at the path is not this one.
    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        let gone = || Error::NotMounted {
            path: self.path.clone(),
        };
        self.spot()?.ok_or_else(gone)?.detach(lazy)
    }

    /// As [`Spot::abort`], unless the mount is detached.
    pub(crate) fn abort(&self) {
        if let Ok(Some(spot)) = self.spot() {
            spot.abort();
        }
    }

    /// This mount, if it is the topmost one at the path.
    fn spot(&self) -> Result<Option<Spot>> {
        let Some(ours) = self.mount.get() else {
            return Ok(None);
        };
        Ok(Spot::find(&self.path)?.filter(|spot| spot.mount.id == *ours))
    }
}
