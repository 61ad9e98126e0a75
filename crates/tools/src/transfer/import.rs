//! Copies files and trees from the host into an image.

use super::handles;
use super::outcome::{Failures, Outcome, Place, Step};
use super::progress::Progress;
use super::source::{self, Links, Source, State, Xattrs};
use super::{PIECE_BYTES, join, split};
use crate::failure::{Exit, Failure, Result};
use crate::image::ImageArgs;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType as Host, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::{
    Caller, Error, FileType, Filesystem, InodeRef, SetAttr, SetMode, SetTime, Timestamp,
    WriteContext,
};

/// Treatment of an existing file with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Refuse,
    Replace,
}

/// Source of access and modification times of imported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// Those of the host.
    Host,
    /// This time.
    At(Timestamp),
    /// The modification time, clamped to this one, for both.
    NotAfter(Timestamp),
}

/// How files are imported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) existing: Existing,
    pub(crate) links: Links,
    pub(crate) times: Times,
    /// Treatment of directories.
    pub(crate) directories: Directories,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directories {
    Copy,
    Refuse,
}

/// A directory of the image and its path.
#[derive(Clone, Copy)]
pub(crate) struct Into<'s> {
    pub(crate) inode: &'s InodeRef,
    pub(crate) path: &'s [u8],
}

/// One import into a mounted image.
pub(crate) struct Import<'a> {
    fs: &'a Filesystem,
    image: &'a ImageArgs,
    caller: Caller,
    policy: Policy,
    /// Inodes of host files with several names, by (device, inode).
    links: HashMap<(u64, u64), InodeRef>,
    progress: Progress,
    outcome: Outcome,
    buffer: Vec<u8>,
}

/// A directory that is being filled.
struct Frame {
    state: State,
    fd: OwnedFd,
    host: PathBuf,
    inode: InodeRef,
    path: Vec<u8>,
    names: Vec<OsString>,
}

/// A file of the host and its destination name.
struct Spot<'s> {
    dir: BorrowedFd<'s>,
    host_name: &'s OsStr,
    /// For messages.
    host: &'s Path,
    into: Into<'s>,
    name: &'s [u8],
}

impl Spot<'_> {
    fn path(&self) -> Vec<u8> {
        join(self.into.path, self.name)
    }

    fn host(&self) -> String {
        self.host.display().to_string()
    }
}

impl<'a> Import<'a> {
    pub(crate) fn new(fs: &'a Filesystem, image: &'a ImageArgs, policy: Policy) -> Self {
        handles::allow_deep_trees();
        Self {
            fs,
            image,
            caller: Caller::root(),
            policy,
            links: HashMap::new(),
            progress: Progress::new(|| None),
            outcome: Outcome::new(Failures::GoOn),
            buffer: vec![0; PIECE_BYTES],
        }
    }

    /// Shows progress towards the bytes of these files.
    pub(crate) fn with_total(mut self, hosts: &[PathBuf]) -> Self {
        let links = self.policy.links;
        let total = || {
            hosts
                .iter()
                .map(|host| source::total_bytes(host, links))
                .sum()
        };
        self.progress = Progress::new(|| Some(total()));
        self
    }

    /// Returns the outcome of the transfer.
    pub(crate) fn finish(self) -> Result<()> {
        drop(self.progress);
        self.outcome.finish()
    }

    /// Reports a failure of one source.
    pub(crate) fn fail(&mut self, failure: Failure) -> Result<()> {
        self.outcome.note(Err(failure.into()))
    }

    /// Imports the host file or tree `host` as `name`.
    pub(crate) fn tree(&mut self, host: &Path, into: Into<'_>, name: &[u8]) -> Result<()> {
        let (dir, host_name) = split(host.as_os_str().as_bytes());
        let dir = if dir.is_empty() { b"." } else { dir };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(OsStr::from_bytes(dir), flags, Mode::empty());
        let dir = match dir.of(|| host.display().to_string()) {
            Ok(dir) => dir,
            Err(ended) => return self.outcome.note(Err(ended)),
        };
        let spot = Spot {
            dir: dir.as_fd(),
            host_name: OsStr::from_bytes(host_name),
            host,
            into,
            name,
        };
        // `link/` names the target of the link, as in every path lookup.
        let links = match host.as_os_str().as_bytes().ends_with(b"/") {
            true => Links::Follow,
            false => self.policy.links,
        };
        let mut open = Vec::new();
        let begun = self.entry(&spot, links, &open);
        self.go_on(begun, &mut open)?;
        self.drain(open)
    }

    /// Imports the entries of the host directory `host`.
    pub(crate) fn content(&mut self, host: &Path, into: Into<'_>) -> Result<()> {
        let shown = || host.display().to_string();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(host, flags, Mode::empty()).of(shown);
        let listed = opened.and_then(|dir| Ok((source::names(&dir).of(shown)?, dir)));
        let (names, dir) = match listed {
            Ok(listed) => listed,
            Err(ended) => return self.outcome.note(Err(ended)),
        };
        for name in names.iter().rev() {
            if self.outcome.is_interrupted() {
                break;
            }
            let spot = Spot {
                dir: dir.as_fd(),
                host_name: name,
                host: &host.join(name),
                into,
                name: name.as_bytes(),
            };
            let mut open = Vec::new();
            let begun = self.entry(&spot, self.policy.links, &open);
            self.go_on(begun, &mut open)?;
            self.drain(open)?;
        }
        Ok(())
    }

    /// Fills the open directories depth-first until none is open.
    fn drain(&mut self, mut open: Vec<Frame>) -> Result<()> {
        while let Some(top) = open.last_mut() {
            let interrupted = self.outcome.is_interrupted();
            let Some(name) = top.names.pop().filter(|_| !interrupted) else {
                // Attributes come last: filling the directory changes its times, and new files
                // would inherit a default ACL.
                let Some(done) = open.pop() else { break };
                let closed = self.close(&done);
                self.outcome.note(closed)?;
                continue;
            };
            let host = top.host.join(&name);
            let Some(top) = open.last() else { break };
            let spot = Spot {
                dir: top.fd.as_fd(),
                host_name: &name,
                host: &host,
                into: Into {
                    inode: &top.inode,
                    path: &top.path,
                },
                name: name.as_bytes(),
            };
            let below = self.entry(&spot, self.policy.links, &open);
            self.go_on(below, &mut open)?;
        }
        Ok(())
    }

    fn close(&self, done: &Frame) -> Step<()> {
        let xattrs = source::xattrs_of(done.fd.as_fd());
        let xattrs = xattrs.of(|| done.host.display().to_string())?;
        let at = || self.image.name_of(&done.path);
        self.attributes(&done.state, xattrs, &done.inode, at)
    }

    /// Pushes a directory for filling; counts everything else as done or failed.
    fn go_on(&mut self, done: Step<Option<Frame>>, open: &mut Vec<Frame>) -> Result<()> {
        match done {
            Ok(Some(frame)) => {
                open.push(frame);
                Ok(())
            }
            other => self.outcome.note(other.map(drop)),
        }
    }

    /// Imports one name. For a directory it returns the open, empty directory. `open` holds the
    /// directories above.
    fn entry(&mut self, spot: &Spot<'_>, links: Links, open: &[Frame]) -> Step<Option<Frame>> {
        let source = Source::open(spot.dir, spot.host_name, links).of(|| spot.host())?;
        self.progress.at(|| spot.path());
        let source = match source {
            Source {
                state,
                fd: Some(fd),
            } if state.kind() == Host::Directory => {
                return self.directory(spot, state, fd, open).map(Some);
            }
            other => other,
        };
        let identity = source.state.identity();
        if self.policy.existing == Existing::Replace {
            match self.fs.unlink(spot.into.inode, spot.name, &self.caller) {
                Err(Error::NotFound) => {}
                other => other.of(|| self.image.name_of(&spot.path()))?,
            }
        }
        if let Some(inode) = self.links.get(&identity) {
            let linked = self
                .fs
                .link(inode, spot.into.inode, spot.name, &self.caller);
            linked.of(|| self.image.name_of(&spot.path()))?;
            return Ok(None);
        }
        let inode = self.make(&source, spot)?;
        let filled = self.fill(&source, spot, &inode);
        if filled.is_err() {
            // Removes the incomplete file. A second error is ignored.
            let _ = self.fs.unlink(spot.into.inode, spot.name, &self.caller);
        }
        filled?;
        if source.state.has_more_names() {
            self.links.insert(identity, inode);
        }
        Ok(None)
    }

    fn directory(&self, spot: &Spot<'_>, state: State, fd: OwnedFd, open: &[Frame]) -> Step<Frame> {
        if self.policy.directories == Directories::Refuse {
            let failure = Failure::new(Exit::Failed, format!("{}: is a directory", spot.host()));
            return Err(failure.hint("-r copies directories").into());
        }
        let above = |frame: &&Frame| frame.state.identity() == state.identity();
        if let Some(above) = open.iter().find(above) {
            let above = above.host.display();
            let text = format!("{}: leads back to {above}, without end", spot.host());
            return Err(Failure::new(Exit::Failed, text).into());
        }
        let names = source::names(&fd).of(|| spot.host())?;
        let path = spot.path();
        let inode = self.made_directory(spot);
        Ok(Frame {
            state,
            fd,
            host: spot.host.to_path_buf(),
            inode: inode.of(|| self.image.name_of(&path))?,
            path,
            names,
        })
    }

    fn made_directory(&self, spot: &Spot<'_>) -> uext4::Result<InodeRef> {
        let (parent, name) = (spot.into.inode, spot.name);
        match self.fs.mkdir(parent, name, 0o700, &self.caller) {
            Err(Error::Exists) => {
                let there = self.fs.lookup(parent, name, &self.caller)?;
                if there.is_dir() {
                    Ok(there)
                } else {
                    Err(Error::Exists)
                }
            }
            other => other,
        }
    }

    /// Creates the empty file.
    fn make(&self, source: &Source, spot: &Spot<'_>) -> Step<InodeRef> {
        let (fs, caller) = (self.fs, &self.caller);
        let (parent, name) = (spot.into.inode, spot.name);
        let at = || self.image.name_of(&spot.path());
        let special = match source.state.kind() {
            Host::RegularFile => return fs.create(parent, name, 0o600, caller).of(at),
            Host::Symlink => {
                let target = rustix::fs::readlinkat(spot.dir, spot.host_name, Vec::new());
                let target = target.of(|| spot.host())?;
                return fs.symlink(parent, name, target.as_bytes(), caller).of(at);
            }
            Host::CharacterDevice => FileType::CharDevice,
            Host::BlockDevice => FileType::BlockDevice,
            Host::Socket => FileType::Socket,
            _ => FileType::Fifo,
        };
        let device = source.state.device();
        fs.mknod(parent, name, special, 0o600, device, caller)
            .of(at)
    }

    /// Writes data and attributes.
    fn fill(&mut self, source: &Source, spot: &Spot<'_>, inode: &InodeRef) -> Step<()> {
        if let Some(file) = &source.fd {
            self.data(file.as_fd(), source.state.size(), spot, inode)?;
        }
        let xattrs = source.xattrs(spot.dir, spot.host_name);
        let xattrs = xattrs.of(|| spot.host())?;
        let at = || self.image.name_of(&spot.path());
        self.attributes(&source.state, xattrs, inode, at)
    }

    /// Copies the data and preserves holes.
    fn data(
        &mut self,
        file: BorrowedFd<'_>,
        size: u64,
        spot: &Spot<'_>,
        inode: &InodeRef,
    ) -> Step<()> {
        let mut end = 0;
        while end < size {
            let start = match rustix::fs::seek(file, SeekFrom::Data(end)) {
                Err(Errno::NXIO) => break,
                // A file system without SEEK_DATA support: everything is data.
                Err(Errno::INVAL) => end,
                other => other.of(|| spot.host())?,
            };
            end = rustix::fs::seek(file, SeekFrom::Hole(start))
                .unwrap_or(size)
                .clamp(start, size.max(start));
            if end == start {
                break;
            }
            self.run(file, start..end, spot, inode)?;
        }
        if self.fs.attr(inode).size_bytes < size {
            let extended = self.fs.truncate(inode, size);
            extended.of(|| self.image.name_of(&spot.path()))?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        file: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
        spot: &Spot<'_>,
        inode: &InodeRef,
    ) -> Step<()> {
        let mut offset = range.start;
        while offset < range.end {
            let want = (range.end - offset).min(PIECE_BYTES as u64) as usize;
            let piece = self.buffer.split_at_mut(want).0;
            let read = rustix::io::pread(file, &mut *piece, offset).of(|| spot.host())?;
            if read == 0 {
                // The file was truncated concurrently.
                return Ok(());
            }
            let mut rest = piece.split_at(read).0;
            while !rest.is_empty() {
                let written = self.fs.write(inode, offset, rest, &WriteContext::ROOT);
                let written = written.of(|| self.image.name_of(&spot.path()))?;
                rest = rest.split_at(written.len_bytes).1;
                offset += written.len_bytes as u64;
            }
            self.progress.add(read as u64);
            self.outcome.add_bytes(read as u64);
        }
        Ok(())
    }

    fn attributes(
        &self,
        state: &State,
        xattrs: Xattrs,
        inode: &InodeRef,
        at: impl Fn() -> String,
    ) -> Step<()> {
        let caller = &self.caller;
        for (name, value) in xattrs {
            let name = name.as_bytes();
            let set = self.fs.set_xattr(inode, name, &value, SetMode::Any, caller);
            set.of(&at)?;
        }
        let (atime, mtime) = self.policy.times.of(state.times());
        let (uid, gid) = state.owner();
        let set = SetAttr {
            mode: (state.kind() != Host::Symlink).then_some(state.mode()),
            uid: Some(uid),
            gid: Some(gid),
            atime: Some(SetTime::At(atime)),
            mtime: Some(SetTime::At(mtime)),
            ..SetAttr::default()
        };
        self.fs.set_attr(inode, &set, caller).map(drop).of(at)
    }
}

impl Times {
    /// Access and modification time in the image, from those on the host.
    fn of(self, (atime, mtime): (Timestamp, Timestamp)) -> (Timestamp, Timestamp) {
        let order = |time: Timestamp| (time.seconds, time.nanoseconds);
        match self {
            Times::Host => (atime, mtime),
            Times::At(time) => (time, time),
            Times::NotAfter(latest) if order(mtime) > order(latest) => (latest, latest),
            Times::NotAfter(_) => (mtime, mtime),
        }
    }
}
