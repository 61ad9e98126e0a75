//! What a directory of the host has: names, attributes, types. Threads scan directories ahead.
//!
//! The caller asks for the directories that it wants next; each thread scans its own requests
//! in order. So the order of entries does not depend on the threads.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use uext4_format::{DeviceNumber, Timestamp};
use uext4_num::{clamp_u32, low_u16, nonnegative};

use super::beneath::open_beneath;
use super::file::{HostFile, READ};
use super::names::{Directory, Named, part};
use super::xattrs::{FIRST_BYTES, Of, xattrs};
use crate::error::{Error, Result};
use crate::sources::entry::{Attributes, Content, Data, Node};

/// A directory that was scanned.
pub(super) struct Scanned {
    pub(super) directory: Arc<Directory>,
    pub(super) files: Vec<ScannedFile>,
}

pub(super) struct ScannedFile {
    /// Start of its name.
    pub(super) name: usize,
    pub(super) attributes: Attributes,
    /// Device and inode number.
    pub(super) identity: (u64, u64),
    pub(super) has_more_names: bool,
    pub(super) kind: ScannedNode,
}

/// A node that threads may hand on.
pub(super) enum ScannedNode {
    Directory,
    File {
        size: u64,
        ranges: Vec<Range<u64>>,
        file: HostFile,
    },
    Symlink(Vec<u8>),
    CharDevice(DeviceNumber),
    BlockDevice(DeviceNumber),
    Fifo,
    Socket,
}

impl From<ScannedNode> for Node<'static> {
    fn from(kind: ScannedNode) -> Node<'static> {
        match kind {
            ScannedNode::Directory => Node::Directory,
            ScannedNode::File { size, ranges, file } => Node::File(Content {
                size,
                data: Data::Later {
                    ranges,
                    file: Box::new(file),
                },
            }),
            ScannedNode::Symlink(target) => Node::Symlink(target),
            ScannedNode::CharDevice(device) => Node::CharDevice(device),
            ScannedNode::BlockDevice(device) => Node::BlockDevice(device),
            ScannedNode::Fifo => Node::Fifo,
            ScannedNode::Socket => Node::Socket,
        }
    }
}

/// Scans directories below one.
pub(super) struct Scanner {
    root: Arc<OwnedFd>,
    /// Path of the root, for messages.
    path: PathBuf,
    buffer: Vec<u8>,
}

impl Scanner {
    pub(super) fn new(root: Arc<OwnedFd>, path: PathBuf) -> Scanner {
        Scanner {
            root,
            path,
            buffer: Vec::with_capacity(FIRST_BYTES),
        }
    }

    /// Attributes of the root, through its open handle.
    pub(super) fn root(&mut self) -> Result<Attributes> {
        let stat = rustix::fs::fstat(&*self.root);
        let stat = stat.map_err(|error| Error::unreadable(&self.path, error))?;
        let root = self.root.clone();
        let attributes = self.attributes(&stat, Of::Handle(&root));
        attributes.map_err(|error| Error::unreadable(&self.path, error))
    }

    /// All files of a directory, by the bytes of their names.
    pub(super) fn scan(&mut self, below: PathBuf) -> Result<Scanned> {
        let shown = self.path.join(&below);
        let fd = open_beneath(&self.root, &below, OFlags::DIRECTORY);
        let fd = fd.map_err(|error| Error::unreadable(&shown, error))?;
        let read = Directory::read(self.root.clone(), below, &fd);
        let (directory, names) = read.map_err(|error| Error::unreadable(&shown, error))?;
        let directory = Arc::new(directory);
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let one = self.one(&directory, &fd, name);
            files.push(one.map_err(|error| {
                Error::unreadable(&shown.join(part(directory.name(name.start))), error)
            })?);
        }
        Ok(Scanned { directory, files })
    }

    /// Finds out what a name is. A regular file is opened for that, if possible: fewer look-ups.
    fn one(
        &mut self,
        directory: &Arc<Directory>,
        fd: &OwnedFd,
        named: Named,
    ) -> std::io::Result<ScannedFile> {
        let name = directory.name(named.start);
        let opened = named
            .is_file
            .then(|| rustix::fs::openat(fd, name, READ, Mode::empty()).ok())
            .flatten();
        let (stat, attributes) = match &opened {
            Some(file) => {
                let stat = rustix::fs::fstat(file)?;
                (stat, self.attributes(&stat, Of::Handle(file))?)
            }
            None => {
                let stat = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                let path = Path::new(&path).join(part(name));
                (stat, self.attributes(&stat, Of::Path(&path))?)
            }
        };
        let several = stat.st_nlink > 1;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => ScannedNode::Directory,
            FileType::RegularFile => {
                let file = HostFile::new(directory.clone(), named.start, &stat);
                ScannedNode::File {
                    size: nonnegative(stat.st_size),
                    ranges: file.ranges(&stat)?,
                    file,
                }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(fd, name, Vec::new())?;
                ScannedNode::Symlink(target.into_bytes())
            }
            FileType::CharacterDevice => ScannedNode::CharDevice(device(&stat)),
            FileType::BlockDevice => ScannedNode::BlockDevice(device(&stat)),
            FileType::Fifo => ScannedNode::Fifo,
            FileType::Socket => ScannedNode::Socket,
            FileType::Unknown => return Err(Errno::OPNOTSUPP.into()),
        };
        let is_directory = matches!(kind, ScannedNode::Directory);
        Ok(ScannedFile {
            name: named.start,
            attributes,
            identity: (stat.st_dev, stat.st_ino),
            has_more_names: several && !is_directory,
            kind,
        })
    }

    fn attributes(&mut self, stat: &Stat, of: Of<'_>) -> std::result::Result<Attributes, Errno> {
        Ok(Attributes {
            permissions: low_u16(stat.st_mode & 0o7777),
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: Timestamp::new(stat.st_mtime, clamp_u32(stat.st_mtime_nsec)),
            xattrs: xattrs(of, &mut self.buffer)?,
        })
    }
}

fn device(stat: &Stat) -> DeviceNumber {
    DeviceNumber {
        major: rustix::fs::major(stat.st_rdev),
        minor: rustix::fs::minor(stat.st_rdev),
    }
}

/// A directory to be scanned, and where the result goes.
type Request = (PathBuf, SyncSender<Result<Scanned>>);

/// Threads that scan directories ahead.
pub(super) struct Ahead {
    requests: Vec<Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
    requested: usize,
}

impl Ahead {
    pub(super) fn new(root: &Arc<OwnedFd>, path: &Path, count: usize) -> Ahead {
        let started = (0..count).map(|_| {
            let (sender, receiver) = channel::<Request>();
            let mut scanner = Scanner::new(root.clone(), path.to_owned());
            let thread = std::thread::spawn(move || {
                while let Ok((below, result)) = receiver.recv() {
                    let _the_caller_may_have_failed = result.send(scanner.scan(below));
                }
            });
            (sender, thread)
        });
        let (requests, threads) = started.unzip();
        Ahead {
            requests,
            threads,
            requested: 0,
        }
    }

    /// Asks one of the threads to scan `below`; the receiver gets the result.
    pub(super) fn request(&mut self, below: PathBuf) -> Receiver<Result<Scanned>> {
        let (sender, receiver) = sync_channel(1);
        let at = self.requested % self.requests.len();
        self.requested += 1;
        let _seen_by_the_receiver = self.requests[at].send((below, sender));
        receiver
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.requests.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
