//! Directories of the host as sources.
//!
//! Names are read in the order of their bytes; no symbolic link is followed. A file is read at the
//! end, through its path below the handle of the first directory.
//!
//! Invariant: a file whose identity, size or times have changed since its attributes were read is
//! refused, so that attributes and contents belong together.
//!
//! References: `openat2(2)`, `lseek(2)`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat};
use rustix::io::Errno;
use siphasher::sip::SipHasher13;
use uext4_format::{DeviceNumber, Timestamp};
use uext4_num::{clamp_u32, low_u16, nonnegative, usize_of};

use crate::{Attributes, Builder, Content, Data, Entry, Error, Node, ReadAt, Result, Sink, Xattr};

/// Buffer for a list of names or a value of extended attributes, in bytes: the kernel's maximum.
const XATTR_BYTES: usize = 64 << 10;
/// Attempts of `openat2` while renames disturb it.
const TRIES: u32 = 8;

/// A directory of the host.
pub struct Host {
    root: Arc<OwnedFd>,
    path: PathBuf,
    /// First paths in the image of files with several names.
    linked: HashMap<(u64, u64), Vec<u8>>,
    buffer: Vec<u8>,
}

impl Host {
    /// Opens the directory.
    ///
    /// # Errors
    /// [`Error::Source`], for example if it is no directory.
    pub fn open(path: &Path) -> Result<Host> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty());
        let root = root.map_err(|error| failed(path, error))?;
        Ok(Host {
            root: Arc::new(root),
            path: path.to_path_buf(),
            linked: HashMap::new(),
            buffer: Vec::with_capacity(XATTR_BYTES),
        })
    }

    /// Adds the directory and everything in it, at a path of the image; empty for the root.
    ///
    /// # Errors
    /// [`Error::Source`], or those of the sink.
    pub fn feed(&mut self, at: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let mut waiting = vec![PathBuf::new()];
        let own = self.named(Path::new(""), rustix::fs::fstat(&*self.root))?;
        let attributes = self.attributes(&own, &proc_path(&self.root), Path::new(""))?;
        sink.add(Entry {
            path: at.to_vec(),
            attributes,
            node: Node::Directory,
        })?;
        while let Some(below) = waiting.pop() {
            let fd = open_beneath(&self.root, &below, OFlags::DIRECTORY);
            let fd = self.named(&below, fd)?;
            let directory = Directory::read(self.root.clone(), below, &fd);
            let directory = Arc::new(self.named(Path::new(""), directory)?);
            let first = waiting.len();
            for name in directory.ranges() {
                let child = directory
                    .path
                    .join(OsStr::from_bytes(&directory.names[name.clone()]));
                if self.feed_one(&directory, &fd, name, &child, at, sink)? {
                    waiting.push(child);
                }
            }
            waiting[first..].reverse();
        }
        Ok(())
    }

    /// Adds one file; answers whether it is a directory.
    fn feed_one(
        &mut self,
        directory: &Arc<Directory>,
        fd: &OwnedFd,
        name: Range<usize>,
        child: &Path,
        at: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        let bytes = OsStr::from_bytes(&directory.names[name.clone()]);
        let stat = rustix::fs::statat(fd, bytes, AtFlags::SYMLINK_NOFOLLOW);
        let stat = self.named(child, stat)?;
        let path = join(at, child.as_os_str().as_bytes());
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_directory = kind == FileType::Directory;
        let linked = (stat.st_nlink > 1 && !is_directory).then_some((stat.st_dev, stat.st_ino));
        if let Some(first) = linked.and_then(|id| self.linked.get(&id)) {
            let node = Node::Link(first.clone());
            let attributes = Attributes::default();
            sink.add(Entry {
                path,
                attributes,
                node,
            })?;
            return Ok(false);
        }
        if let Some(id) = linked {
            self.linked.insert(id, path.clone());
        }
        let attributes = self.attributes(&stat, &proc_path(fd).join(bytes), child)?;
        let node = match kind {
            FileType::Directory => Node::Directory,
            FileType::RegularFile => {
                let file = HostFile::new(directory.clone(), name, &stat);
                let content = file.content(&stat);
                Node::File(content.map_err(|error| self.failed(child, error))?)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(fd, bytes, Vec::new());
                Node::Symlink(self.named(child, target)?.into_bytes())
            }
            FileType::CharacterDevice => Node::CharDevice(device(&stat)),
            FileType::BlockDevice => Node::BlockDevice(device(&stat)),
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            FileType::Unknown => return Err(self.failed(child, Errno::OPNOTSUPP)),
        };
        sink.add(Entry {
            path,
            attributes,
            node,
        })?;
        Ok(is_directory)
    }

    fn attributes(&mut self, stat: &Stat, path: &Path, shown: &Path) -> Result<Attributes> {
        let xattrs = xattrs(path, &mut self.buffer);
        Ok(Attributes {
            permissions: low_u16(stat.st_mode & 0o7777),
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: Timestamp::new(stat.st_mtime, clamp_u32(stat.st_mtime_nsec)),
            xattrs: self.named(shown, xattrs)?,
        })
    }

    fn named<T>(&self, below: &Path, result: std::result::Result<T, Errno>) -> Result<T> {
        result.map_err(|error| self.failed(below, error))
    }

    fn failed(&self, below: &Path, error: impl Into<io::Error>) -> Error {
        failed(&self.path.join(below), error)
    }
}

impl Builder {
    /// Adds a directory of the host and everything in it, at a path of the image.
    ///
    /// # Errors
    /// As [`Host::feed`].
    pub fn directory(&mut self, host: &Path, at: &[u8]) -> Result<()> {
        Host::open(host)?.feed(at, self)
    }
}

fn failed(path: &Path, error: impl Into<io::Error>) -> Error {
    Error::Source {
        source_name: path.display().to_string(),
        error: error.into(),
    }
}

fn join(at: &[u8], below: &[u8]) -> Vec<u8> {
    if at.is_empty() {
        return below.to_vec();
    }
    [at, below].join(&b'/')
}

fn device(stat: &Stat) -> DeviceNumber {
    DeviceNumber {
        major: rustix::fs::major(stat.st_rdev),
        minor: rustix::fs::minor(stat.st_rdev),
    }
}

/// A path to an open file, for calls that take no handle.
fn proc_path(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Names of a directory, sorted, kept once for all of its files.
struct Directory {
    root: Arc<OwnedFd>,
    /// Below the root.
    path: PathBuf,
    /// Each name and a zero.
    names: Box<[u8]>,
}

impl Directory {
    fn read(
        root: Arc<OwnedFd>,
        path: PathBuf,
        fd: &OwnedFd,
    ) -> std::result::Result<Directory, Errno> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(fd)? {
            let name = entry?.file_name().to_bytes_with_nul().to_vec();
            if name != b".\0" && name != b"..\0" {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(Directory {
            root,
            path,
            names: names.concat().into(),
        })
    }

    /// The places of the names, without their zeroes.
    fn ranges(&self) -> Vec<Range<usize>> {
        let mut at = 0;
        let parts = self.names.split_inclusive(|byte| *byte == 0);
        parts
            .map(|part| {
                let start = at;
                at += part.len();
                start..at - 1
            })
            .collect()
    }
}

/// A regular file that is read later.
struct HostFile {
    directory: Arc<Directory>,
    /// Start of its name.
    name: u32,
    /// Hash of what changes if the file does.
    stamp: u64,
}

impl HostFile {
    fn new(directory: Arc<Directory>, name: Range<usize>, stat: &Stat) -> HostFile {
        HostFile {
            directory,
            name: clamp_u32(name.start),
            stamp: stamp(stat),
        }
    }

    fn open(&self) -> io::Result<std::fs::File> {
        let rest = &self.directory.names[usize_of(self.name)..];
        let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = self.directory.path.join(OsStr::from_bytes(name));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = open_beneath(&self.directory.root, &path, flags)?;
        if stamp(&rustix::fs::fstat(&fd)?) != self.stamp {
            return Err(io::Error::other(
                "the file has changed while the image was built",
            ));
        }
        Ok(fd.into())
    }

    /// The contents, with the host's holes left out.
    fn content(self, stat: &Stat) -> io::Result<Content<'static>> {
        let size = nonnegative(stat.st_size);
        let whole = 0..size;
        let ranges = if size == 0 {
            Vec::new()
        } else if nonnegative(stat.st_blocks) * 512 < size {
            data_ranges(&self.open()?, size)?
        } else {
            vec![whole]
        };
        Ok(Content {
            size,
            data: Data::Later {
                ranges,
                file: Box::new(self),
            },
        })
    }
}

impl ReadAt for HostFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.open()?.read_exact_at(buf, offset)
    }
}

fn data_ranges(file: &std::fs::File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?.min(size);
        if start < end {
            ranges.push(start..end);
        }
        at = end.max(start + 1);
    }
    Ok(ranges)
}

fn stamp(stat: &Stat) -> u64 {
    let mut hasher = SipHasher13::new();
    (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mode).hash(&mut hasher);
    (stat.st_mtime, stat.st_mtime_nsec).hash(&mut hasher);
    (stat.st_ctime, stat.st_ctime_nsec).hash(&mut hasher);
    hasher.finish()
}

/// Opens a path beneath a directory, through no symbolic link.
fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    for _ in 0..TRIES {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => break,
            answer => return answer,
        }
    }
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (above, last) = (path.parent(), path.file_name());
    let mut at = None;
    for name in above.into_iter().flat_map(Path::components) {
        let from = at.as_ref().map_or(root.as_fd(), OwnedFd::as_fd);
        at = Some(rustix::fs::openat(
            from,
            name.as_os_str(),
            way,
            Mode::empty(),
        )?);
    }
    let from = at.as_ref().map_or(root.as_fd(), OwnedFd::as_fd);
    let last = last.unwrap_or(OsStr::new("."));
    rustix::fs::openat(from, last, flags, Mode::empty())
}

/// Extended attributes that ext4 can store, by a path whose last link is not followed.
fn xattrs(path: &Path, buffer: &mut Vec<u8>) -> std::result::Result<Vec<Xattr>, Errno> {
    buffer.clear();
    let is_handle = path.parent() == Some(Path::new("/proc/self/fd"));
    let list = match is_handle {
        true => rustix::fs::listxattr(path, spare_capacity(buffer)),
        false => rustix::fs::llistxattr(path, spare_capacity(buffer)),
    };
    match list {
        Err(Errno::NOTSUP) | Ok(0) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for name in buffer.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let mut value = Vec::with_capacity(XATTR_BYTES);
        let key = OsStr::from_bytes(name);
        let got = match is_handle {
            true => rustix::fs::getxattr(path, key, spare_capacity(&mut value)),
            false => rustix::fs::lgetxattr(path, key, spare_capacity(&mut value)),
        };
        match got {
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        found.push(Xattr {
            name: name.to_vec(),
            value: value.into_boxed_slice().into_vec(),
        });
    }
    Ok(found)
}

fn is_kept(name: &[u8]) -> bool {
    let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];
    spaces.iter().any(|space| name.starts_with(space))
}
