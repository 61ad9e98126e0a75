//! The engine as a [`Target`] of operations and as a [`Source`] of a manifest.
//!
//! Paths are walked inode by inode and follow no symbolic link, as testkit's model does.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use uext4::format::FileType;
use uext4::{
    Attr, Caller, Error, Filesystem, InodeRef, RenameFlags, Seek, SetAttr, SetMode, Visit,
    WriteContext,
};
use uext4_testkit::manifest::{DataRun, Entry, FileKind, Source, Stat};
use uext4_testkit::ops::{Errno, Node, Op, RenameHow, Target, XattrHow, written_bytes};
use uext4_testkit::tree::{Device, Time};

/// A mounted file system that testkit's operations run on, as root.
pub struct EngineTarget<'a> {
    fs: &'a Filesystem,
    caller: Caller,
}

/// The `errno` that a user program would get.
pub fn errno(error: &Error) -> Errno {
    Errno(error.errno())
}

fn answer<T>(result: uext4::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| errno(&error))
}

impl<'a> EngineTarget<'a> {
    /// Performs operations on `fs` as the superuser.
    pub fn new(fs: &'a Filesystem) -> Self {
        Self {
            fs,
            caller: Caller::root(),
        }
    }

    /// The parent directory of `path`, and its last name.
    ///
    /// # Errors
    /// The first error of the walk.
    pub fn parent_and_name<'p>(&self, path: &'p [u8]) -> Result<(InodeRef, &'p [u8]), Errno> {
        let mut parent = answer(self.fs.root())?;
        let mut rest = path;
        while let Some(at) = rest.iter().position(|byte| *byte == b'/') {
            let child = answer(self.fs.lookup(&parent, &rest[..at], &self.caller))?;
            if self.fs.attr(&child).kind != FileType::Directory {
                return Err(Errno::ENOTDIR);
            }
            parent = child;
            rest = &rest[at + 1..];
        }
        Ok((parent, rest))
    }

    /// The inode at `path`; the root for the empty path.
    ///
    /// # Errors
    /// The first error of the walk.
    pub fn find(&self, path: &[u8]) -> Result<InodeRef, Errno> {
        if path.is_empty() {
            return answer(self.fs.root());
        }
        let (parent, name) = self.parent_and_name(path)?;
        answer(self.fs.lookup(&parent, name, &self.caller))
    }

    /// A regular file, as by `open` for writing.
    ///
    /// # Errors
    /// The error of `open(2)` for any other file.
    pub fn file(&self, path: &[u8]) -> Result<InodeRef, Errno> {
        let inode = self.find(path)?;
        match self.fs.attr(&inode).kind {
            FileType::Regular => Ok(inode),
            FileType::Directory => Err(Errno::EISDIR),
            FileType::Symlink => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The error of the engine; bytes written before it stay.
    pub fn write_all(&self, file: &InodeRef, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            let (at, rest) = (offset + done as u64, &bytes[done..]);
            done += answer(self.fs.write(file, at, rest, &WriteContext::ROOT))?.len_bytes;
        }
        Ok(())
    }

    fn make(&self, path: &[u8], kind: FileType, mode: u32) -> Result<(), Errno> {
        let (parent, name) = self.parent_and_name(path)?;
        let mode = mode as u16;
        let made = match kind {
            FileType::Directory => self.fs.mkdir(&parent, name, mode, &self.caller),
            FileType::Regular => self.fs.create(&parent, name, mode, &self.caller),
            kind => self
                .fs
                .mknod(&parent, name, kind, mode, (0, 0), &self.caller),
        };
        answer(made).map(drop)
    }

    fn make_node(&self, path: &[u8], mode: u32, node: Node) -> Result<(), Errno> {
        let (kind, device) = match node {
            Node::Socket => (FileType::Socket, (0, 0)),
            Node::Char(major, minor) => (FileType::CharDevice, (major, minor)),
            Node::Block(major, minor) => (FileType::BlockDevice, (major, minor)),
        };
        let (parent, name) = self.parent_and_name(path)?;
        let caller = &self.caller;
        let made = self
            .fs
            .mknod(&parent, name, kind, mode as u16, device, caller);
        answer(made).map(drop)
    }

    fn link(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let inode = self.find(from)?;
        let (parent, name) = self.parent_and_name(to)?;
        // As the VFS: an existing name is reported before an invalid source.
        match self.fs.lookup(&parent, name, &self.caller) {
            Err(Error::NotFound) => {}
            other => return answer(other).and(Err(Errno::EEXIST)),
        }
        answer(self.fs.link(&inode, &parent, name, &self.caller))
    }

    fn rename(&self, from: &[u8], to: &[u8], how: RenameHow) -> Result<(), Errno> {
        let flags = match how {
            RenameHow::Replace => RenameFlags::Replace,
            RenameHow::NoReplace => RenameFlags::NoReplace,
            RenameHow::Exchange => RenameFlags::Exchange,
            RenameHow::Whiteout => RenameFlags::Whiteout,
            RenameHow::WhiteoutNoReplace => RenameFlags::WhiteoutNoReplace,
            RenameHow::NoReplaceExchange => return Err(Errno::EINVAL),
        };
        // As the VFS: both parents first, then the names, the old one first.
        let (from, from_name) = self.parent_and_name(from)?;
        let (to, to_name) = self.parent_and_name(to)?;
        answer(self.fs.lookup(&from, from_name, &self.caller))?;
        let caller = &self.caller;
        answer(
            self.fs
                .rename(&from, from_name, &to, to_name, flags, caller),
        )
    }

    fn set_attr(&self, path: &[u8], set: &SetAttr) -> Result<(), Errno> {
        let inode = self.find(path)?;
        if set.mode.is_some() && self.fs.attr(&inode).kind == FileType::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        answer(self.fs.set_attr(&inode, set, &self.caller)).map(drop)
    }

    fn fsync(&self, path: &[u8]) -> Result<(), Errno> {
        let inode = self.find(path)?;
        match self.fs.attr(&inode).kind {
            FileType::Regular | FileType::Directory => answer(self.fs.fsync(&inode)),
            FileType::Symlink => Err(Errno::ELOOP),
            FileType::Fifo => Err(Errno::EINVAL),
            _ => Err(Errno::ENXIO),
        }
    }

    fn set_xattr(&self, path: &[u8], name: &str, value: &[u8], how: XattrHow) -> Result<(), Errno> {
        let mode = match how {
            XattrHow::Either => SetMode::Any,
            XattrHow::Create => SetMode::Create,
            XattrHow::Replace => SetMode::Replace,
        };
        let inode = self.find(path)?;
        answer(
            self.fs
                .set_xattr(&inode, name.as_bytes(), value, mode, &self.caller),
        )
    }
}

impl Target for EngineTarget<'_> {
    fn run(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Create { path, mode } => self.make(path, FileType::Regular, *mode),
            Op::Mkdir { path, mode } => self.make(path, FileType::Directory, *mode),
            Op::Mkfifo { path, mode } => self.make(path, FileType::Fifo, *mode),
            Op::Mknod { path, mode, node } => self.make_node(path, *mode, *node),
            Op::Symlink { path, target } => {
                let (parent, name) = self.parent_and_name(path)?;
                answer(self.fs.symlink(&parent, name, target, &self.caller)).map(drop)
            }
            Op::Link { from, to } => self.link(from, to),
            Op::Unlink { path } => {
                let (parent, name) = self.parent_and_name(path)?;
                answer(self.fs.unlink(&parent, name, &self.caller))
            }
            Op::Rmdir { path } => {
                let (parent, name) = self.parent_and_name(path)?;
                answer(self.fs.rmdir(&parent, name, &self.caller))
            }
            Op::Rename { from, to, how } => self.rename(from, to, *how),
            Op::Write {
                path,
                offset_bytes,
                len_bytes,
                seed,
            } => {
                let file = self.file(path)?;
                self.write_all(&file, *offset_bytes, &written_bytes(*seed, *len_bytes))
            }
            Op::Truncate { path, size_bytes } => {
                let file = self.file(path)?;
                answer(self.fs.truncate(&file, *size_bytes))
            }
            Op::Chmod { path, mode } => {
                let mode = Some(*mode as u16);
                self.set_attr(
                    path,
                    &SetAttr {
                        mode,
                        ..SetAttr::default()
                    },
                )
            }
            Op::Chown { path, uid, gid } => {
                let (uid, gid) = (Some(*uid), Some(*gid));
                self.set_attr(
                    path,
                    &SetAttr {
                        uid,
                        gid,
                        ..SetAttr::default()
                    },
                )
            }
            Op::SetXattr {
                path,
                name,
                value,
                how,
            } => self.set_xattr(path, name, value, *how),
            Op::RemoveXattr { path, name } => {
                let inode = self.find(path)?;
                answer(self.fs.remove_xattr(&inode, name.as_bytes(), &self.caller))
            }
            Op::Fsync { path } => self.fsync(path),
        }
    }
}

impl EngineTarget<'_> {
    fn seen(&self, path: &[u8]) -> Result<InodeRef> {
        let found = self.find(path);
        found.map_err(|errno| anyhow::anyhow!("lookup answers errno {}", errno.0))
    }
}

impl Source for EngineTarget<'_> {
    fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.fs.read_dir(&self.seen(path)?, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                names.push(entry.name.to_vec());
            }
            Visit::Continue
        })?;
        Ok(names)
    }

    fn stat(&self, path: &[u8]) -> Result<Stat> {
        let attr = self.fs.attr(&self.seen(path)?);
        Ok(Stat {
            inode: u64::from(attr.ino.0),
            entry: entry(&attr),
        })
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        Ok(self.fs.read_link(&self.seen(path)?)?)
    }

    fn xattrs(&self, path: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let inode = self.seen(path)?;
        let names = self.fs.list_xattrs(&inode, &self.caller)?;
        let mut pairs = BTreeMap::new();
        for name in names {
            let value = self.fs.get_xattr(&inode, &name, &self.caller);
            let value = value.with_context(|| format!("xattr {}", name.escape_ascii()))?;
            pairs.insert(name, value);
        }
        Ok(pairs)
    }

    fn read(&self, path: &[u8], piece_bytes: usize, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let inode = self.seen(path)?;
        let mut buffer = vec![0; piece_bytes];
        let mut at = 0;
        loop {
            let len = self.fs.read(&inode, at, &mut buffer)?;
            if len == 0 {
                return Ok(());
            }
            sink(&buffer[..len]);
            at += len as u64;
        }
    }

    fn data_runs(&self, path: &[u8]) -> Result<Option<Vec<DataRun>>> {
        let inode = self.seen(path)?;
        let mut runs = Vec::new();
        let mut at = 0;
        loop {
            let start_bytes = match self.fs.seek(&inode, at, Seek::Data) {
                Err(Error::NoOffset) => return Ok(Some(runs)),
                other => other?,
            };
            let end_bytes = self.fs.seek(&inode, start_bytes, Seek::Hole)?;
            runs.push(DataRun {
                start_bytes,
                end_bytes,
            });
            at = end_bytes;
        }
    }
}

fn entry(attr: &Attr) -> Entry {
    let kind = match attr.kind {
        FileType::Regular => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::CharDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
    };
    let mut entry = Entry::new(kind);
    entry.mode = u32::from(attr.mode);
    (entry.uid, entry.gid) = (attr.uid, attr.gid);
    entry.nlink = u64::from(attr.links);
    entry.size_bytes = attr.size_bytes;
    entry.allocated_sectors = attr.sectors;
    entry.atime = time_of(attr.atime);
    entry.mtime = time_of(attr.mtime);
    entry.ctime = time_of(attr.ctime);
    if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) {
        let (major, minor) = attr.rdev;
        entry.device = Some(Device { major, minor });
    }
    entry
}

fn time_of(time: uext4::Timestamp) -> Time {
    Time {
        seconds: time.seconds,
        nanos: time.nanoseconds,
    }
}
