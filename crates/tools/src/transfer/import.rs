//! From the host into an image.

use super::{PIECE_BYTES, Progress, join};
use crate::failure::{At, Result};
use crate::image::ImageArgs;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use uext4::{Caller, Error, FileType, Filesystem, InodeRef, SetAttr, SetMode, SetTime, Timestamp};

/// What happens to a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Refuse,
    Replace,
}

/// One import into a mounted image.
pub(crate) struct Import<'a> {
    fs: &'a Filesystem,
    image: &'a ImageArgs,
    caller: Caller,
    existing: Existing,
    /// Inodes made for host files with several names, by (device, inode).
    links: HashMap<(u64, u64), InodeRef>,
    progress: Progress,
    buffer: Vec<u8>,
}

/// A directory that is being filled.
struct Frame {
    host: PathBuf,
    meta: Metadata,
    inode: InodeRef,
    path: Vec<u8>,
    names: Vec<OsString>,
}

impl<'a> Import<'a> {
    pub(crate) fn new(fs: &'a Filesystem, image: &'a ImageArgs, existing: Existing) -> Self {
        Self {
            fs,
            image,
            caller: Caller::root(),
            existing,
            links: HashMap::new(),
            progress: Progress::new(),
            buffer: vec![0; PIECE_BYTES],
        }
    }

    /// Brings in the host file or tree `host` as `name` in `parent`, which has the path `dir`.
    pub(crate) fn tree(
        &mut self,
        host: &Path,
        parent: &InodeRef,
        dir: &[u8],
        name: &[u8],
    ) -> Result<()> {
        let mut open = Vec::new();
        open.extend(self.entry(host, parent, dir, name)?);
        self.drain(open)
    }

    /// Brings in what is in the host directory `host`.
    pub(crate) fn content(&mut self, host: &Path, inode: InodeRef, path: &[u8]) -> Result<()> {
        for name in names(host)? {
            self.tree(&host.join(&name), &inode, path, name.as_bytes())?;
        }
        Ok(())
    }

    fn drain(&mut self, mut open: Vec<Frame>) -> Result<()> {
        while let Some(top) = open.last_mut() {
            let Some(name) = top.names.pop() else {
                // Attributes last: filling it changed the times, and a default ACL would be
                // inherited.
                let Some(done) = open.pop() else { break };
                let at = self.image.name_of(&done.path);
                self.attributes(&done.host, &done.meta, &done.inode, &at)?;
                continue;
            };
            let host = top.host.join(&name);
            let (parent, dir) = (top.inode.clone(), top.path.clone());
            let below = self.entry(&host, &parent, &dir, name.as_bytes())?;
            open.extend(below);
        }
        Ok(())
    }

    /// Brings in one name; answers a directory, still empty.
    fn entry(
        &mut self,
        host: &Path,
        parent: &InodeRef,
        dir: &[u8],
        name: &[u8],
    ) -> Result<Option<Frame>> {
        let meta = std::fs::symlink_metadata(host).at(host.display())?;
        let path = join(dir, name);
        let at = self.image.name_of(&path);
        self.progress.at(&path);
        if meta.is_dir() {
            let inode = self.directory(parent, name).at(&at)?;
            let names = names(host)?;
            return Ok(Some(Frame {
                host: host.to_path_buf(),
                meta,
                inode,
                path,
                names,
            }));
        }
        if self.existing == Existing::Replace {
            match self.fs.unlink(parent, name, &self.caller) {
                Err(Error::NotFound) => {}
                other => other.at(&at)?,
            }
        }
        let key = (meta.dev(), meta.ino());
        if let Some(inode) = self.links.get(&key) {
            self.fs.link(inode, parent, name, &self.caller).at(&at)?;
            return Ok(None);
        }
        let inode = self.make(host, &meta, parent, name, &at)?;
        self.attributes(host, &meta, &inode, &at)?;
        if meta.nlink() > 1 {
            self.links.insert(key, inode);
        }
        Ok(None)
    }

    fn directory(&self, parent: &InodeRef, name: &[u8]) -> uext4::Result<InodeRef> {
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

    fn make(
        &mut self,
        host: &Path,
        meta: &Metadata,
        parent: &InodeRef,
        name: &[u8],
        at: &str,
    ) -> Result<InodeRef> {
        let (fs, caller) = (self.fs, &self.caller);
        let kind = meta.file_type();
        if kind.is_file() {
            let file = File::open(host).at(host.display())?;
            let inode = fs.create(parent, name, 0o600, caller).at(at)?;
            self.data(&file, host, meta.len(), &inode, at)?;
            return Ok(inode);
        }
        if kind.is_symlink() {
            let target = std::fs::read_link(host).at(host.display())?;
            return fs
                .symlink(parent, name, target.as_os_str().as_bytes(), caller)
                .at(at);
        }
        let special = if kind.is_char_device() {
            FileType::CharDevice
        } else if kind.is_block_device() {
            FileType::BlockDevice
        } else if kind.is_socket() {
            FileType::Socket
        } else {
            FileType::Fifo
        };
        let device = (
            rustix::fs::major(meta.rdev()),
            rustix::fs::minor(meta.rdev()),
        );
        fs.mknod(parent, name, special, 0o600, device, caller)
            .at(at)
    }

    /// Copies the data; holes stay holes.
    fn data(
        &mut self,
        file: &File,
        host: &Path,
        size: u64,
        inode: &InodeRef,
        at: &str,
    ) -> Result<()> {
        let mut end = 0;
        while end < size {
            let start = match rustix::fs::seek(file, SeekFrom::Data(end)) {
                Err(Errno::NXIO) => break,
                // A file system that knows no holes has data everywhere.
                Err(Errno::INVAL) => end,
                other => other.at(host.display())?,
            };
            end = rustix::fs::seek(file, SeekFrom::Hole(start))
                .unwrap_or(size)
                .clamp(start, size.max(start));
            if end == start {
                break;
            }
            self.run(file, host, start..end, inode, at)?;
        }
        if self.fs.attr(inode).size_bytes < size {
            self.fs.truncate(inode, size).at(at)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        file: &File,
        host: &Path,
        range: std::ops::Range<u64>,
        inode: &InodeRef,
        at: &str,
    ) -> Result<()> {
        let mut offset = range.start;
        while offset < range.end {
            let want = (range.end - offset).min(PIECE_BYTES as u64) as usize;
            let piece = self.buffer.split_at_mut(want).0;
            let read = file.read_at(piece, offset).at(host.display())?;
            if read == 0 {
                // The file became shorter meanwhile.
                return Ok(());
            }
            let mut rest = piece.split_at(read).0;
            while !rest.is_empty() {
                let written = self.fs.write(inode, offset, rest).at(at)?;
                rest = rest.split_at(written).1;
                offset += written as u64;
            }
            self.progress.add(read as u64);
        }
        Ok(())
    }

    fn attributes(&self, host: &Path, meta: &Metadata, inode: &InodeRef, at: &str) -> Result<()> {
        for (name, value) in xattrs(host).at(host.display())? {
            self.fs
                .set_xattr(inode, name.as_bytes(), &value, SetMode::Any, &self.caller)
                .at(at)?;
        }
        let time = |seconds, nanoseconds: i64| {
            Some(SetTime::At(Timestamp::new(seconds, nanoseconds as u32)))
        };
        let set = SetAttr {
            mode: (!meta.is_symlink()).then_some((meta.mode() & 0o7777) as u16),
            uid: Some(meta.uid()),
            gid: Some(meta.gid()),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ..SetAttr::default()
        };
        self.fs.set_attr(inode, &set, &self.caller).map(drop).at(at)
    }
}

fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = std::fs::read_dir(dir).at(dir.display())?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names: Vec<OsString> = names.collect::<std::io::Result<_>>().at(dir.display())?;
    // In order of names, so that the same tree makes the same image; taken from the end.
    names.sort_by(|a, b| b.cmp(a));
    Ok(names)
}

/// Attributes that ext4 can keep; none where the host's file system has none.
fn xattrs(path: &Path) -> std::result::Result<Vec<(OsString, Vec<u8>)>, Errno> {
    let mut list = Vec::with_capacity(64 << 10);
    match rustix::fs::llistxattr(path, rustix::buffer::spare_capacity(&mut list)) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for name in list.split(|byte| *byte == 0).filter(|name| kept(name)) {
        let mut value = Vec::with_capacity(64 << 10);
        let name = OsStr::from_bytes(name);
        match rustix::fs::lgetxattr(path, name, rustix::buffer::spare_capacity(&mut value)) {
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        found.push((OsString::from_vec(name.as_bytes().to_vec()), value));
    }
    Ok(found)
}

fn kept(name: &[u8]) -> bool {
    let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];
    spaces.iter().any(|space| name.starts_with(space))
}
