//! Attachment of a server to its mount point: mounts, and later unmounts or aborts this mount only.
//!
//! Invariant: a mount of another server or file system on the same path is never taken off. After
//! `umount -l` the path may carry one while this server still has users, so the identity of the
//! topmost mount is compared first.

use crate::error::{Error, Result};
use crate::mount_point::{Lazy, abort_by_number, attach, attach_block};
use crate::mount_table::{MountId, Spot};
use crate::options::MountOptions;
use crate::place::Place;
use crate::transport::DevFuse;
use std::path::{Path, PathBuf};
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Mutex, OnceLock, Rank};

/// See the module.
pub(crate) struct Attachment {
    path: PathBuf,
    /// Until it is mounted: a descriptor would keep the file system below in use.
    place: Mutex<Option<Place>>,
    /// The mount, once it is made.
    mount: OnceLock<MountId>,
    /// Calls of [`Self::detach`] that have not returned.
    n_detaching: AtomicUsize,
}

impl Attachment {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            path: place.path().into(),
            place: Mutex::new(Rank::CacheShard, Some(place)),
            mount: OnceLock::new(),
            n_detaching: AtomicUsize::new(0),
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
        let spot = self.spot()?.ok_or_else(gone)?;
        self.n_detaching.fetch_add(1, Ordering::SeqCst);
        let done = spot.detach(lazy);
        self.n_detaching.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Aborts the connection after the end of the server. The mount stays, and answers errors: what
    /// is below it must not be taken for its contents.
    pub(crate) fn abort_unserved(&self) {
        let Some(ours) = self.mount.get() else {
            return;
        };
        if let Ok(Some(spot)) = self.spot() {
            spot.abort_in_place();
        } else if self.n_detaching.load(Ordering::SeqCst) > 0 {
            // The kernel waits for the server, so the connection still has its number.
            abort_by_number(ours.connection);
        }
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
