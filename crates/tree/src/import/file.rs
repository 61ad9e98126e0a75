//! Imports one file: its data, attributes and further names.

use super::{Existing, Frame, Import, Times};
use crate::error::{InImage, OnHost};
use crate::replace::NewName;
use crate::source::{self, Links, Source, State};
use crate::{Error, PIECE_BYTES, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType as Host, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::path::PathError;
use uext4::{FileType, InodeRef, SetAttr, SetMode, SetTime, Timestamp, WriteContext};
use uext4_num::{clamp_usize, u64_of};

/// A file of the host and its destination name.
pub(super) struct Spot<'s> {
    pub(super) dir: BorrowedFd<'s>,
    pub(super) host_name: &'s OsStr,
    /// The path in the host, which errors show.
    pub(super) host: &'s Path,
    pub(super) parent: &'s InodeRef,
    pub(super) name: &'s [u8],
    /// The path in the image, which errors show.
    pub(super) path: &'s [u8],
}

/// How far a copy came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copied {
    /// Byte behind the last one.
    end: u64,
    /// Whether the file of the host ends there.
    is_at_end: bool,
}

impl Spot<'_> {
    pub(super) fn host(&self) -> PathBuf {
        self.host.to_path_buf()
    }

    pub(super) fn path(&self) -> Vec<u8> {
        self.path.to_vec()
    }
}

impl Import<'_> {
    /// Imports one name. For a directory it returns the open, empty directory. `open` holds the
    /// directories above.
    pub(super) fn entry(
        &mut self,
        spot: &Spot<'_>,
        links: Links,
        open: &[Frame],
    ) -> Result<Option<Frame>> {
        self.monitor.begin(spot.path)?;
        let source = Source::open(spot.dir, spot.host_name, links).on_host(|| spot.host())?;
        let source = match source {
            Source {
                state,
                fd: Some(fd),
            } if state.kind() == Host::Directory => {
                return self.directory(spot, &state, fd, open).map(Some);
            }
            other => other,
        };
        self.create_or_link(&source, spot).map(|()| None)
    }

    /// Makes a file that is no directory, or one more name of one that was imported.
    fn create_or_link(&mut self, source: &Source, spot: &Spot<'_>) -> Result<()> {
        let (fs, caller) = (self.fs.clone(), self.caller.clone());
        let identity = source.state.identity();
        // A later source may have replaced all names of the file.
        let first = self
            .links
            .get(&identity)
            .filter(|first| fs.attr(first).links > 0);
        let first = first.cloned();
        // A source may have several names of a file, and the target as well.
        if let (Some(first), Existing::Replace) = (&first, self.existing)
            && let Ok(there) = fs.lookup(spot.parent, spot.name, &caller)
            && there.nr() == first.nr()
        {
            return Ok(());
        }
        let new = NewName::find(&fs, spot.parent, spot.name, self.existing, &caller);
        let new = new.in_image(|| spot.path())?;
        if let Some(first) = first {
            let linked = fs.link(&first, spot.parent, new.as_bytes(), &caller);
            linked.in_image(|| spot.path())?;
            return new.keep().in_image(|| spot.path());
        }
        let inode = self.make(source, spot, new.as_bytes())?;
        let filled = self.fill(source, spot, &inode);
        if filled.is_err() {
            new.remove();
        }
        filled?;
        new.keep().in_image(|| spot.path())?;
        if source.state.has_more_names() {
            self.links.insert(identity, inode);
        }
        Ok(())
    }

    /// Creates the file without its contents.
    fn make(&self, source: &Source, spot: &Spot<'_>, name: &[u8]) -> Result<InodeRef> {
        let (fs, caller) = (&self.fs, &self.caller);
        let parent = spot.parent;
        let made = match source.state.kind() {
            Host::RegularFile => fs.create(parent, name, 0o600, caller),
            Host::Symlink => {
                let target = rustix::fs::readlinkat(spot.dir, spot.host_name, Vec::new());
                let target = target.on_host(|| spot.host())?;
                fs.symlink(parent, name, target.as_bytes(), caller)
            }
            special => {
                let kind = match special {
                    Host::CharacterDevice => FileType::CharDevice,
                    Host::BlockDevice => FileType::BlockDevice,
                    Host::Socket => FileType::Socket,
                    _ => FileType::Fifo,
                };
                fs.mknod(parent, name, kind, 0o600, source.state.device(), caller)
            }
        };
        made.in_image(|| spot.path())
    }

    /// Writes data and attributes.
    fn fill(&mut self, source: &Source, spot: &Spot<'_>, inode: &InodeRef) -> Result<()> {
        if let Some(file) = &source.fd {
            self.data(file, &source.state, spot, inode)?;
        }
        let xattrs = source.xattrs(spot.dir, spot.host_name);
        let xattrs = xattrs.on_host(|| spot.host())?;
        self.set_attributes(&source.state, xattrs, inode, spot.path)
    }

    /// Copies the data up to their end and preserves holes. The size that the file claims is no
    /// bound: `/proc` claims nothing, `/sys` a page, and the file may change meanwhile.
    fn data(
        &mut self,
        file: &OwnedFd,
        state: &State,
        spot: &Spot<'_>,
        inode: &InodeRef,
    ) -> Result<()> {
        let size = state.size();
        let mut copied = Copied {
            end: 0,
            is_at_end: false,
        };
        while copied.end < size && !copied.is_at_end {
            let start = match rustix::fs::seek(file, SeekFrom::Data(copied.end)) {
                Err(Errno::NXIO) => break,
                // A file system without SEEK_DATA support: everything is data.
                Err(Errno::INVAL) => copied.end,
                other => other.on_host(|| spot.host())?,
            };
            let hole = rustix::fs::seek(file, SeekFrom::Hole(start));
            let end = hole.unwrap_or(size).clamp(start, size.max(start));
            if end == start {
                break;
            }
            copied = self.run(file.as_fd(), start..end, spot, inode)?;
        }
        let now = State::of(file).on_host(|| spot.host())?;
        if size == 0 {
            copied = self.run(file.as_fd(), 0..u64::MAX, spot, inode)?;
        } else if !copied.is_at_end {
            // A hole at the end, or one that a truncation made.
            copied.end = size.min(now.size());
        }
        if self.fs.attr(inode).size_bytes < copied.end {
            let extended = self.fs.truncate(inode, copied.end);
            extended.in_image(|| spot.path())?;
        }
        if now.size() != size || now.times().1 != state.times().1 {
            self.monitor.changed(spot.path);
        }
        Ok(())
    }

    fn run(
        &mut self,
        file: BorrowedFd<'_>,
        range: Range<u64>,
        spot: &Spot<'_>,
        inode: &InodeRef,
    ) -> Result<Copied> {
        let mut offset = range.start;
        while offset < range.end {
            self.monitor.check()?;
            let want = clamp_usize(range.end - offset).min(PIECE_BYTES);
            let piece = self.buffer.split_at_mut(want).0;
            let read = rustix::io::pread(file, &mut *piece, offset).on_host(|| spot.host())?;
            if read == 0 {
                return Ok(Copied {
                    end: offset,
                    is_at_end: true,
                });
            }
            let mut rest = piece.split_at(read).0;
            while !rest.is_empty() {
                let written = self.fs.write(inode, offset, rest, &WriteContext::ROOT);
                let written = written.in_image(|| spot.path())?;
                rest = rest.split_at(written.len_bytes).1;
                offset += u64_of(written.len_bytes);
            }
            self.monitor.add_bytes(u64_of(read));
        }
        Ok(Copied {
            end: offset,
            is_at_end: false,
        })
    }

    pub(super) fn made_directory(&self, spot: &Spot<'_>) -> uext4::Result<InodeRef> {
        let Spot { parent, name, .. } = *spot;
        match self.fs.mkdir(parent, name, 0o700, &self.caller) {
            Err(uext4::Error::Exists) => {
                let there = self.fs.lookup(parent, name, &self.caller)?;
                if there.is_dir() {
                    Ok(there)
                } else {
                    Err(uext4::Error::Exists)
                }
            }
            other => other,
        }
    }

    pub(super) fn set_attributes(
        &self,
        state: &State,
        xattrs: source::Xattrs,
        inode: &InodeRef,
        path: &[u8],
    ) -> Result<()> {
        let caller = &self.caller;
        for (name, value) in xattrs {
            let name = name.as_bytes();
            let set = self.fs.set_xattr(inode, name, &value, SetMode::Any, caller);
            set.map_err(|error| Error::Attribute {
                name: name.escape_ascii().to_string(),
                error: PathError::new(path, error),
            })?;
        }
        let (atime, mtime) = self.times.of(state.times());
        let (uid, gid) = state.owner();
        let set = SetAttr {
            mode: (state.kind() != Host::Symlink).then_some(state.mode()),
            uid: Some(uid),
            gid: Some(gid),
            atime: Some(SetTime::At(atime)),
            mtime: Some(SetTime::At(mtime)),
            ..SetAttr::default()
        };
        let set = self.fs.set_attr(inode, &set, caller);
        set.map(drop).in_image(|| path.to_vec())
    }
}

impl Times {
    /// Access and modification time in the image, from those on the host.
    fn of(self, (atime, mtime): (Timestamp, Timestamp)) -> (Timestamp, Timestamp) {
        match self {
            Times::Host => (atime, mtime),
            Times::At(time) => (time, time),
            Times::NotAfter(latest) if mtime > latest => (latest, latest),
            Times::NotAfter(_) => (mtime, mtime),
        }
    }
}
