//! From an image to the host.
//!
//! Invariants: the image may be hostile. Everything is made new, by names that are checked, in
//! directories that were made here and are held open: no symbolic link of the image is ever
//! followed on the host, and nothing that exists is overwritten.

use super::{PIECE_BYTES, Progress, join};
use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use uext4::path::{Directory, Entry};
use uext4::{Attr, Caller, Error, FileType, Filesystem, InodeRef, Seek, Timestamp};

/// One export from a mounted image into a directory of the host.
pub(crate) struct Export<'a> {
    fs: &'a Filesystem,
    image: &'a ImageArgs,
    /// Where all goes to; names of hard links count from here.
    root: OwnedFd,
    /// Its path, for messages.
    root_path: PathBuf,
    links: HashMap<u32, PathBuf>,
    progress: Progress,
    /// Owners, device nodes and privileged attributes can be kept.
    privileged: bool,
    /// Files that lost something since we are not privileged.
    reduced: u64,
}

struct Frame {
    fd: OwnedFd,
    /// From the root of the export.
    host: PathBuf,
    path: Vec<u8>,
    inode: InodeRef,
    entries: Vec<Entry>,
}

impl<'a> Export<'a> {
    /// Exports into the existing directory `root`.
    pub(crate) fn new(fs: &'a Filesystem, image: &'a ImageArgs, root: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty()).at(root.display())?;
        Ok(Self {
            fs,
            image,
            root: fd,
            root_path: root.strip_prefix(".").unwrap_or(root).into(),
            links: HashMap::new(),
            progress: Progress::new(),
            privileged: rustix::process::geteuid().is_root(),
            reduced: 0,
        })
    }

    /// What to call a file of the host in messages.
    fn shown(&self, host: &Path) -> String {
        self.root_path.join(host).display().to_string()
    }

    /// Files that could not be kept whole without privilege.
    pub(crate) fn reduced(&self) -> u64 {
        self.reduced
    }

    /// Exports `inode`, which has the path `path` in the image, as `name`.
    pub(crate) fn tree(&mut self, inode: InodeRef, path: &[u8], name: &[u8]) -> Result<()> {
        let root = self.root.try_clone().at("the destination")?;
        let mut open = Vec::new();
        open.extend(self.entry(root.as_fd(), Path::new(""), name, path.to_vec(), inode)?);
        while let Some(top) = open.last_mut() {
            let Some(entry) = top.entries.pop() else {
                let Some(done) = open.pop() else { break };
                let attr = self.fs.attr(&done.inode);
                let at = self.image.name_of(&done.path);
                self.attributes(done.fd.as_fd(), &done.inode, &attr)
                    .at(at)?;
                continue;
            };
            let path = join(&top.path, &entry.name);
            let inode = self.fs.inode(entry.inode).at(self.image.name_of(&path))?;
            let below = self.entry(top.fd.as_fd(), &top.host, &entry.name, path, inode)?;
            open.extend(below);
        }
        Ok(())
    }

    /// Exports what is in a directory.
    pub(crate) fn content(&mut self, inode: InodeRef, path: &[u8]) -> Result<()> {
        for entry in self.list(&inode, path)? {
            if entry.name == b"lost+found" && path == b"/" {
                continue;
            }
            let path = join(path, &entry.name);
            let inode = self.fs.inode(entry.inode).at(self.image.name_of(&path))?;
            self.tree(inode, &path, &entry.name)?;
        }
        Ok(())
    }

    fn list(&self, inode: &InodeRef, path: &[u8]) -> Result<Vec<Entry>> {
        let entries = Directory::of(self.fs, inode).and_then(Iterator::collect::<uext4::Result<_>>);
        entries.at(self.image.name_of(path))
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        host: &Path,
        name: &[u8],
        path: Vec<u8>,
        inode: InodeRef,
    ) -> Result<Option<Frame>> {
        let at = self.image.name_of(&path);
        if name.is_empty()
            || name == b"."
            || name == b".."
            || name.contains(&b'/')
            || name.contains(&0)
        {
            return Err(Failure::new(
                Exit::Damaged,
                format!("{at}: no file can have this name"),
            ));
        }
        self.progress.at(&path);
        let name = OsStr::from_bytes(name);
        let host = host.join(name);
        let shown = self.shown(&host);
        let attr = self.fs.attr(&inode);
        if attr.kind == FileType::Directory {
            rustix::fs::mkdirat(dir, name, Mode::RWXU).at(&shown)?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).at(&shown)?;
            let entries = self.list(&inode, &path)?;
            return Ok(Some(Frame {
                fd,
                host,
                path,
                inode,
                entries,
            }));
        }
        if let Some(first) = self.links.get(&attr.ino.0) {
            rustix::fs::linkat(&self.root, first, dir, name, AtFlags::empty()).at(&shown)?;
            return Ok(None);
        }
        let made = match attr.kind {
            FileType::Regular => self
                .file(dir, name, &host, &inode, &attr, &at)
                .map(|()| true)?,
            _ => self.special(dir, name, &inode, &attr, &at).at(&shown)?,
        };
        if made && attr.links > 1 {
            self.links.insert(attr.ino.0, host);
        }
        Ok(None)
    }

    fn file(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        host: &Path,
        inode: &InodeRef,
        attr: &Attr,
        at: &str,
    ) -> Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let shown = self.shown(host);
        let fd = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR).at(&shown)?;
        let file = File::from(fd);
        file.set_len(attr.size_bytes).at(&shown)?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut end = 0;
        while end < attr.size_bytes {
            let start = match self.fs.seek(inode, end, Seek::Data) {
                Err(Error::NoOffset) => break,
                other => other.at(at)?,
            };
            end = self.fs.seek(inode, start, Seek::Hole).at(at)?;
            let mut offset = start;
            while offset < end {
                let want = (end - offset).min(PIECE_BYTES as u64) as usize;
                let piece = buffer.split_at_mut(want).0;
                let read = self.fs.read(inode, offset, piece).at(at)?;
                if read == 0 {
                    return Err(Failure::new(
                        Exit::Damaged,
                        format!("{at}: ends before its size"),
                    ));
                }
                file.write_all_at(piece.split_at(read).0, offset)
                    .at(&shown)?;
                offset += read as u64;
                self.progress.add(read as u64);
            }
        }
        self.attributes(file.as_fd(), inode, attr).at(&shown)
    }

    /// Makes a symbolic link, node, pipe or socket; false when only the superuser could.
    fn special(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        inode: &InodeRef,
        attr: &Attr,
        at: &str,
    ) -> std::result::Result<bool, Errno> {
        use rustix::fs::FileType as Host;
        let (major, minor) = attr.rdev;
        let (kind, device) = match attr.kind {
            FileType::CharDevice => (Host::CharacterDevice, rustix::fs::makedev(major, minor)),
            FileType::BlockDevice => (Host::BlockDevice, rustix::fs::makedev(major, minor)),
            FileType::Socket => (Host::Socket, 0),
            FileType::Fifo => (Host::Fifo, 0),
            _ => (Host::Symlink, 0),
        };
        if kind == Host::Symlink {
            let target = self.fs.read_link(inode).map_err(errno)?;
            rustix::fs::symlinkat(OsStr::from_bytes(&target), dir, name)?;
        } else {
            match rustix::fs::mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device) {
                Err(Errno::PERM) if !self.privileged => {
                    eprintln!(
                        "uext4: note: {at}: only the superuser can make a {}",
                        crate::show::kind(attr.kind)
                    );
                    return Ok(false);
                }
                other => other?,
            }
        }
        // Without a descriptor: opening a device or pipe would do something.
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        let put = |key: &OsStr, value: &[u8]| {
            rustix::fs::lsetxattr(&path, key, value, XattrFlags::empty())
        };
        self.xattrs(inode, put)?;
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        let (uid, gid) = owner(attr);
        self.unless_refused(rustix::fs::chownat(dir, name, uid, gid, nofollow))?;
        if kind != Host::Symlink {
            let mode = Mode::from_raw_mode(attr.mode.into());
            rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?;
        }
        rustix::fs::utimensat(dir, name, &times(attr), nofollow)?;
        Ok(true)
    }

    fn attributes(
        &mut self,
        fd: BorrowedFd<'_>,
        inode: &InodeRef,
        attr: &Attr,
    ) -> std::result::Result<(), Errno> {
        let (uid, gid) = owner(attr);
        self.unless_refused(rustix::fs::fchown(fd, uid, gid))?;
        rustix::fs::fchmod(fd, Mode::from_raw_mode(attr.mode.into()))?;
        // After the owner, whose change takes capabilities away.
        self.xattrs(inode, |key, value| {
            rustix::fs::fsetxattr(fd, key, value, XattrFlags::empty())
        })?;
        rustix::fs::futimens(fd, &times(attr))
    }

    fn xattrs(
        &mut self,
        inode: &InodeRef,
        put: impl Fn(&OsStr, &[u8]) -> std::result::Result<(), Errno>,
    ) -> std::result::Result<(), Errno> {
        let caller = Caller::root();
        for name in self.fs.list_xattrs(inode, &caller).map_err(errno)? {
            let value = self.fs.get_xattr(inode, &name, &caller).map_err(errno)?;
            match put(OsStr::from_bytes(&name), &value) {
                // A file system of the host that has no such attributes.
                Err(Errno::NOTSUP) => self.reduced += 1,
                other => self.unless_refused(other)?,
            }
        }
        Ok(())
    }

    fn unless_refused(
        &mut self,
        answer: std::result::Result<(), Errno>,
    ) -> std::result::Result<(), Errno> {
        match answer {
            Err(Errno::PERM) if !self.privileged => {
                self.reduced += 1;
                Ok(())
            }
            other => other,
        }
    }
}

fn errno(error: Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

fn owner(attr: &Attr) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(attr.uid)), Some(Gid::from_raw(attr.gid)))
}

fn times(attr: &Attr) -> Timestamps {
    let spec = |time: Timestamp| Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    };
    Timestamps {
        last_access: spec(attr.atime),
        last_modification: spec(attr.mtime),
    }
}
