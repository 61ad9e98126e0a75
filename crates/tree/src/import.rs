//! Copies files and trees from the host into a file system: what to copy, how, and in which order.
//!
//! Layout: `file` imports one file.

mod file;

use crate::error::{InImage, OnHost};
use crate::monitor::{Callback, Monitor};
use crate::source::{self, Links, State};
use crate::{Error, Event, PIECE_BYTES, Result, Summary, join, name_of, parent_of};
use file::Spot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::path;
use uext4::{Caller, Filesystem, InodeRef, Timestamp};

/// Treatment of an existing file with the same name. Existing directories are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The import of the file fails, and the old one stays.
    Refuse,
    /// The new file takes the name when it is complete; a failure leaves the old one.
    Replace,
}

/// Source of access and modification times of imported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Access and modification time of the host file.
    Host,
    /// This time for both.
    At(Timestamp),
    /// The modification time, clamped to this one, for both.
    NotAfter(Timestamp),
}

/// Copies host files into a file system, as the superuser.
///
/// Files with several names on the host keep them, also over several calls of one `Import`. The
/// same tree makes the same image: names are copied in their order.
pub struct Import<'a> {
    fs: Filesystem,
    caller: Caller,
    existing: Existing,
    symlinks: Links,
    times: Times,
    /// Inodes of host files with several names, by (device, inode).
    links: HashMap<(u64, u64), InodeRef>,
    monitor: Monitor<'a>,
    buffer: Vec<u8>,
}

/// A directory of the image that is being filled.
struct Frame {
    state: State,
    fd: OwnedFd,
    host: PathBuf,
    inode: InodeRef,
    path: Vec<u8>,
    names: Vec<OsString>,
}

impl<'a> Import<'a> {
    /// An import that keeps symbolic links and times, refuses existing files and ends at the first
    /// failure.
    pub fn new(fs: &Filesystem) -> Self {
        Self {
            fs: fs.clone(),
            caller: Caller::root(),
            existing: Existing::Refuse,
            symlinks: Links::Keep,
            times: Times::Host,
            links: HashMap::new(),
            monitor: Monitor::default(),
            buffer: vec![0; PIECE_BYTES],
        }
    }

    /// Treatment of existing files.
    pub fn existing(self, existing: Existing) -> Self {
        Self { existing, ..self }
    }

    /// Treatment of symbolic links. A path with a slash at its end is always followed.
    pub fn links(self, symlinks: Links) -> Self {
        Self { symlinks, ..self }
    }

    /// Source of access and modification times.
    pub fn times(self, times: Times) -> Self {
        Self { times, ..self }
    }

    /// A callback for progress, failures and cancellation.
    pub fn on_event(mut self, callback: impl FnMut(Event<'_>) -> ControlFlow<()> + 'a) -> Self {
        let callback: Callback<'a> = Box::new(callback);
        self.monitor.callback = Some(callback);
        self
    }

    /// Counts of all calls.
    pub fn summary(&self) -> Summary {
        self.monitor.summary
    }

    /// Size in bytes of the files that [`Self::tree`] would copy; what cannot be read is left out.
    pub fn total_bytes(&self, host: impl AsRef<Path>) -> u64 {
        source::total_bytes(host.as_ref(), self.symlinks)
    }

    /// Copies the file or tree `host`, whose new name is `path`; its parent must exist.
    ///
    /// # Errors
    /// The failure that ended the transfer.
    pub fn tree(&mut self, host: impl AsRef<Path>, path: impl path::AsBytes) -> Result<()> {
        let (host, path) = (host.as_ref(), path.as_bytes());
        let begun = self.begin_tree(host, path);
        let mut open = Vec::new();
        self.enter(begun, &mut open)?;
        self.drain(open)
    }

    /// Copies the content of the directory `host` into the directory `path`, which is created if it
    /// does not exist, and gets the attributes of `host`.
    ///
    /// # Errors
    /// The failure that ended the transfer.
    pub fn content(&mut self, host: impl AsRef<Path>, path: impl path::AsBytes) -> Result<()> {
        let (host, path) = (host.as_ref(), path.as_bytes());
        match self.begin_content(host, path) {
            Ok(frame) => self.drain(vec![frame]),
            Err(error) => self.monitor.finish(Err(error)),
        }
    }

    fn begin_tree(&mut self, host: &Path, path: &[u8]) -> Result<Option<Frame>> {
        let host_name = name_of(host)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent_of(host), flags, Mode::empty());
        let dir = dir.on_host(|| host.into())?;
        let new = Path::new(OsStr::from_bytes(path));
        let name = name_of(new)?.as_bytes();
        let above = new.parent().filter(|above| *above != Path::new(""));
        let spot = Spot {
            dir: dir.as_fd(),
            host_name,
            host,
            parent: &self.fs.paths().inode(above.unwrap_or(Path::new("/")))?,
            name,
            path,
        };
        // `link/` names the target of the link, as in every path lookup.
        let links = if host.as_os_str().as_bytes().ends_with(b"/") {
            Links::Follow
        } else {
            self.symlinks
        };
        self.entry(&spot, links, &[])
    }

    fn begin_content(&mut self, host: &Path, path: &[u8]) -> Result<Frame> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(host, flags, Mode::empty()).on_host(|| host.into())?;
        let paths = self.fs.paths();
        if !paths.exists(path)? {
            paths.create_dir(path)?;
        }
        let inode = paths.inode(path)?;
        if !inode.is_dir() {
            return Err(uext4::Error::NotDirectory).in_image(|| path.to_vec());
        }
        Frame::new(fd, host, inode, path)
    }

    /// Fills the open directories depth-first until none is open.
    fn drain(&mut self, mut open: Vec<Frame>) -> Result<()> {
        let filled = self.fill_directories(&mut open);
        for left in open.iter().rev() {
            // The first error is told.
            let _ = self.close(left);
        }
        filled
    }

    fn fill_directories(&mut self, open: &mut Vec<Frame>) -> Result<()> {
        while let Some(top) = open.last_mut() {
            self.monitor.check()?;
            let Some(name) = top.names.pop() else {
                // Attributes come last: filling the directory changes its times, and new files
                // would inherit a default ACL.
                if let Some(done) = open.pop() {
                    let closed = self.close(&done);
                    self.monitor.finish(closed)?;
                }
                continue;
            };
            let (host, path) = (top.host.join(&name), join(&top.path, name.as_bytes()));
            let Some(top) = open.last() else { break };
            let spot = Spot {
                dir: top.fd.as_fd(),
                host_name: &name,
                host: &host,
                parent: &top.inode,
                name: name.as_bytes(),
                path: &path,
            };
            let below = self.entry(&spot, self.symlinks, open);
            self.enter(below, open)?;
        }
        Ok(())
    }

    fn close(&self, done: &Frame) -> Result<()> {
        let xattrs = source::xattrs_of(done.fd.as_fd()).on_host(|| done.host.clone())?;
        self.set_attributes(&done.state, xattrs, &done.inode, &done.path)
    }

    /// Pushes a directory for filling; counts everything else as done or failed.
    fn enter(&mut self, done: Result<Option<Frame>>, open: &mut Vec<Frame>) -> Result<()> {
        match done {
            Ok(Some(frame)) => {
                open.push(frame);
                Ok(())
            }
            other => self.monitor.finish(other.map(drop)),
        }
    }

    fn directory(
        &self,
        spot: &Spot<'_>,
        state: &State,
        fd: OwnedFd,
        open: &[Frame],
    ) -> Result<Frame> {
        let above = |frame: &&Frame| frame.state.identity() == state.identity();
        if let Some(above) = open.iter().find(above) {
            let above = above.host.clone();
            let path = spot.host();
            return Err(Error::Loop { path, above });
        }
        let inode = self.made_directory(spot).in_image(|| spot.path())?;
        Frame::new(fd, spot.host, inode, spot.path)
    }
}

impl Frame {
    fn new(fd: OwnedFd, host: &Path, inode: InodeRef, path: &[u8]) -> Result<Self> {
        let on_host = || host.to_path_buf();
        Ok(Self {
            state: State::of(&fd).on_host(on_host)?,
            names: source::names(&fd).on_host(on_host)?,
            fd,
            host: host.to_path_buf(),
            inode,
            path: path.to_vec(),
        })
    }
}
