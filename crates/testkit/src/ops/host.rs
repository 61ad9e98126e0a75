//! Runs operations on a mounted directory, one system call each.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs as sys;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, XattrFlags};

use super::{Errno, Node, Op, RenameHow, Target, XattrHow, written_bytes};

type OpResult<T> = Result<T, Errno>;

/// A mounted directory as a [`Target`]. It agrees with the model only if run as root.
#[derive(Debug)]
pub struct HostTarget {
    root: PathBuf,
}

/// A parent directory and a name in it.
struct NameInDir<'a> {
    parent: OwnedFd,
    name: &'a [u8],
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

impl HostTarget {
    /// Performs operations below the host directory `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
        }
    }

    /// Opens the parent of `path`; follows no symlink.
    fn open_parent<'a>(&self, path: &'a [u8]) -> OpResult<NameInDir<'a>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut parent = sys::open(&self.root, flags, Mode::empty())?;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        loop {
            // `split` yields at least one part, and the last one returns.
            let name = parts.next().unwrap_or_default();
            if parts.peek().is_none() {
                return Ok(NameInDir { parent, name });
            }
            parent = sys::openat(&parent, name, flags, Mode::empty())?;
        }
    }

    fn open(&self, path: &[u8], flags: OFlags) -> OpResult<OwnedFd> {
        let place = self.open_parent(path)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(sys::openat(
            &place.parent,
            place.name,
            flags,
            Mode::empty(),
        )?)
    }

    fn make(&self, path: &[u8], kind: FileType, mode: u32) -> OpResult<()> {
        let at = self.open_parent(path)?;
        sys::mknodat(&at.parent, at.name, kind, Mode::from_raw_mode(mode), 0)?;
        self.chmod(path, mode)
    }

    fn make_node(&self, path: &[u8], mode: u32, node: Node) -> OpResult<()> {
        let (kind, (major, minor)) = match node {
            Node::Socket => (FileType::Socket, (0, 0)),
            Node::Char(major, minor) => (FileType::CharacterDevice, (major, minor)),
            Node::Block(major, minor) => (FileType::BlockDevice, (major, minor)),
        };
        let at = self.open_parent(path)?;
        let device = sys::makedev(major, minor);
        sys::mknodat(&at.parent, at.name, kind, Mode::from_raw_mode(mode), device)?;
        self.chmod(path, mode)
    }

    /// Independent of the umask. A symlink is refused as by `fchmodat2`.
    fn chmod(&self, path: &[u8], mode: u32) -> OpResult<()> {
        let at = self.open_parent(path)?;
        let stat = sys::statat(&at.parent, at.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(Errno(rustix::io::Errno::OPNOTSUPP.raw_os_error()));
        }
        let mode = Mode::from_raw_mode(mode);
        Ok(sys::chmodat(&at.parent, at.name, mode, AtFlags::empty())?)
    }

    fn rename(&self, from: &[u8], to: &[u8], how: RenameHow) -> OpResult<()> {
        let flags = match how {
            RenameHow::Replace => RenameFlags::empty(),
            RenameHow::NoReplace => RenameFlags::NOREPLACE,
            RenameHow::Exchange => RenameFlags::EXCHANGE,
            RenameHow::Whiteout => RenameFlags::WHITEOUT,
            RenameHow::WhiteoutNoReplace => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
            RenameHow::NoReplaceExchange => {
                let (from, to) = (self.root.as_path(), self.root.as_path());
                let both = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
                return Ok(sys::renameat_with(sys::CWD, from, sys::CWD, to, both)?);
            }
        };
        let (from, to) = (self.open_parent(from)?, self.open_parent(to)?);
        Ok(sys::renameat_with(
            &from.parent,
            from.name,
            &to.parent,
            to.name,
            flags,
        )?)
    }

    /// As `linkat`, looks up `from` before it walks to `to`.
    fn link(&self, from: &[u8], to: &[u8]) -> OpResult<()> {
        let from = self.open_parent(from)?;
        sys::statat(&from.parent, from.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let to = self.open_parent(to)?;
        Ok(sys::linkat(
            &from.parent,
            from.name,
            &to.parent,
            to.name,
            AtFlags::empty(),
        )?)
    }

    fn write(&self, path: &[u8], offset_bytes: u64, bytes: &[u8]) -> OpResult<()> {
        let file = self.open(path, OFlags::WRONLY)?;
        let mut done = 0;
        while done < bytes.len() {
            // A FIFO without a reader cannot be opened (`ENXIO`). It has one for a moment if
            // another thread starts a process while this one reads it: the child has its
            // descriptors until it executes its program.
            done += match rustix::io::pwrite(&file, &bytes[done..], offset_bytes + done as u64) {
                Err(rustix::io::Errno::SPIPE) => Err(rustix::io::Errno::NXIO),
                written => written,
            }?;
        }
        Ok(())
    }

    /// Runs a call that takes no directory descriptor with a path through `/proc`.
    fn through_proc<T>(&self, path: &[u8], call: impl FnOnce(&Path) -> OpResult<T>) -> OpResult<T> {
        use std::os::fd::AsRawFd;
        let at = self.open_parent(path)?;
        let dir = PathBuf::from(format!("/proc/self/fd/{}", at.parent.as_raw_fd()));
        call(&dir.join(std::ffi::OsStr::from_bytes(at.name)))
    }

    fn set_xattr(&self, path: &[u8], name: &str, value: &[u8], how: XattrHow) -> OpResult<()> {
        let flags = match how {
            XattrHow::Either => XattrFlags::empty(),
            XattrHow::Create => XattrFlags::CREATE,
            XattrHow::Replace => XattrFlags::REPLACE,
        };
        self.through_proc(path, |path| Ok(sys::lsetxattr(path, name, value, flags)?))
    }

    fn chown(&self, path: &[u8], uid: u32, gid: u32) -> OpResult<()> {
        let at = self.open_parent(path)?;
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(uid),
            rustix::fs::Gid::from_raw(gid),
        );
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(sys::chownat(
            &at.parent,
            at.name,
            Some(uid),
            Some(gid),
            flags,
        )?)
    }
}

impl Target for HostTarget {
    fn run(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Create { path, mode } => self.make(path, FileType::RegularFile, *mode),
            Op::Mkfifo { path, mode } => self.make(path, FileType::Fifo, *mode),
            Op::Mknod { path, mode, node } => self.make_node(path, *mode, *node),
            Op::Mkdir { path, mode } => {
                let at = self.open_parent(path)?;
                sys::mkdirat(&at.parent, at.name, Mode::from_raw_mode(*mode))?;
                self.chmod(path, *mode)
            }
            Op::Symlink { path, target } => {
                let at = self.open_parent(path)?;
                Ok(sys::symlinkat(target.as_slice(), &at.parent, at.name)?)
            }
            Op::Link { from, to } => self.link(from, to),
            Op::Unlink { path } => {
                let at = self.open_parent(path)?;
                Ok(sys::unlinkat(&at.parent, at.name, AtFlags::empty())?)
            }
            Op::Rmdir { path } => {
                let at = self.open_parent(path)?;
                Ok(sys::unlinkat(&at.parent, at.name, AtFlags::REMOVEDIR)?)
            }
            Op::Rename { from, to, how } => self.rename(from, to, *how),
            Op::Write {
                path,
                offset_bytes,
                len_bytes,
                seed,
            } => self.write(path, *offset_bytes, &written_bytes(*seed, *len_bytes)),
            Op::Truncate { path, size_bytes } => {
                let file = self.open(path, OFlags::WRONLY)?;
                Ok(sys::ftruncate(&file, *size_bytes)?)
            }
            Op::Chmod { path, mode } => self.chmod(path, *mode),
            Op::Chown { path, uid, gid } => self.chown(path, *uid, *gid),
            Op::SetXattr {
                path,
                name,
                value,
                how,
            } => self.set_xattr(path, name, value, *how),
            Op::RemoveXattr { path, name } => {
                self.through_proc(path, |path| Ok(sys::lremovexattr(path, name.as_str())?))
            }
            Op::Fsync { path } => {
                let file = self.open(path, OFlags::RDONLY)?;
                Ok(sys::fsync(&file)?)
            }
        }
    }
}
