//! Directory to mount on, held by a descriptor from before the image is looked at.
//!
//! Opening an image may take long (MMP waits, an untrusted image is checked), and the owner of a
//! directory of the path could put a link in its place meanwhile. So the mount is made on the
//! directory that was opened (`/proc/self/fd/N`), and its place in the table is compared after it.
//!
//! Invariant: after [`MountDir::mount`] there is a mount of this server on the path, or none.

use crate::error::{Error, Result};
use crate::mount_point::Lazy;
use crate::mount_table::{MountId, Spot, number_of, through};
use rustix::fs::{Mode, OFlags, fstat, open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Descriptors that [`MountDir::check`] opens at a time.
const N_RESERVED: usize = 3;

/// The directory to mount on, with its path at the time it was opened.
pub(crate) struct MountDir {
    path: PathBuf,
    dir: OwnedFd,
}

impl MountDir {
    /// Opens a directory to mount on.
    ///
    /// # Errors
    /// It is absent or no directory; [`Error::NoProc`].
    pub(crate) fn open(mount_point: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = open(mount_point, flags, Mode::empty()).map_err(io::Error::from);
        let dir = opened.map_err(Error::system("find the mount point", mount_point))?;
        // The kernel would mount on a file as well, a root that cannot be entered.
        let found = fstat(&dir).map_err(io::Error::from);
        let found = found.map_err(Error::system("mount on", mount_point))?;
        if rustix::fs::FileType::from_raw_mode(found.st_mode) != rustix::fs::FileType::Directory {
            let error = io::ErrorKind::NotADirectory.into();
            return Err(Error::system("mount on", mount_point)(error));
        }
        let path = std::fs::read_link(through(dir.as_fd())).map_err(|source| Error::NoProc {
            path: mount_point.into(),
            source,
        })?;
        Ok(Self { path, dir })
    }

    /// The full path of the directory when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Makes a mount with `mount`, which gets a path of the opened directory. What fails after
    /// the mount takes it off again.
    ///
    /// # Errors
    /// Those of `mount`; [`Error::Moved`] if the path names another directory by now; too few
    /// descriptors are left.
    pub(crate) fn mount<T>(&self, mount: impl FnOnce(&Path) -> Result<T>) -> Result<(T, MountId)> {
        let reserved: io::Result<Vec<_>> = (0..N_RESERVED).map(|_| self.dir.try_clone()).collect();
        let reserved = reserved.map_err(Error::system("mount on", &self.path))?;
        let before = Spot::find(&self.path_now()?)?.map(|spot| spot.mount.id);
        let made = mount(&through(self.fd()))?;
        drop(reserved);
        match self.check(before) {
            Ok(id) => Ok((made, id)),
            Err(error) => {
                self.take_off(before);
                Err(error)
            }
        }
    }

    /// Whether what is mounted on the directory is at the path, and was not there `before`.
    fn check(&self, before: Option<MountId>) -> Result<MountId> {
        let moved = || Error::Moved {
            path: self.path.clone(),
        };
        if self.path_now()? != self.path {
            return Err(moved());
        }
        let below = number_of(self.fd())?;
        let spot = Spot::find(&self.path)?.ok_or_else(moved)?;
        let is_ours = spot.mount.parent == below && Some(spot.mount.id) != before;
        is_ours.then_some(spot.mount.id).ok_or_else(moved)
    }

    fn path_now(&self) -> Result<PathBuf> {
        let link = through(self.fd());
        std::fs::read_link(&link).map_err(Error::system("read", link))
    }

    /// Takes the new mount off, wherever the directory is by now. Another mount may have been put
    /// on the directory just before, so that the new one is on top of that.
    fn take_off(&self, before: Option<MountId>) {
        let spot = self.path_now().and_then(|path| Spot::find(&path));
        if let Ok(Some(spot)) = spot
            && Some(spot.mount.id) != before
        {
            // It serves nothing; without a server it would answer errors only.
            let _ = spot.detach(Lazy::Yes);
        }
    }
}
