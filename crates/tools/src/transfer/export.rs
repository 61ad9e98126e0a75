//! Copies files and trees from an image to the host.
//!
//! Invariants: the image may be hostile, and so may other processes in the destination. The export
//! creates every file itself, with a checked name, below the destination or a directory that it
//! created and holds open. It follows no symbolic link on the host and overwrites nothing. It
//! exports each directory once; a second name of a directory is reported as damage.

use super::handles::{self, Identity};
use super::outcome::{Failures, Outcome, Place, Step};
use super::progress::Progress;
use super::restore::{Permissions, Restore};
use super::{PIECE_BYTES, join, second_name};
use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use uext4::path::Directory;
use uext4::{Attr, Caller, Error, FileType, Filesystem, InodeRef, Seek};

/// Treatment of device nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    Make,
    Leave,
}

/// How files are exported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) permissions: Permissions,
    pub(crate) devices: Devices,
    pub(crate) failures: Failures,
}

/// One export from a mounted image into a directory of the host.
pub(crate) struct Export<'a> {
    fs: &'a Filesystem,
    image: &'a ImageArgs,
    /// Destination directory; targets of hard links are relative to it.
    root: OwnedFd,
    /// Its path, for messages.
    root_path: PathBuf,
    /// Files with further names to export, by inode number.
    links: HashMap<u32, First>,
    /// Inode numbers of exported directories.
    entered: HashSet<u32>,
    progress: Progress,
    restore: Restore,
    devices: Devices,
    outcome: Outcome,
    buffer: Vec<u8>,
    /// Device nodes that were left out.
    left_out: u64,
}

/// First exported name of a file with several names.
struct First {
    /// From the root of the export.
    host: PathBuf,
    identity: Identity,
    /// Number of names still to export.
    names_left: u32,
}

/// A directory that is being filled.
struct Frame {
    fd: OwnedFd,
    /// From the root of the export.
    host: PathBuf,
    path: Vec<u8>,
    inode: InodeRef,
    entries: Directory,
}

/// Destination of one name: in `dir`, at the path `host_dir` below the root of the export.
struct Spot<'s> {
    dir: BorrowedFd<'s>,
    host_dir: &'s Path,
    name: &'s [u8],
    /// Path in the image: a directory and, for an entry of it, the entry's name.
    image: (&'s [u8], Option<&'s [u8]>),
}

impl Spot<'_> {
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name)
    }

    fn host(&self) -> PathBuf {
        self.host_dir.join(self.name())
    }

    fn path(&self) -> Vec<u8> {
        let (dir, name) = self.image;
        name.map_or_else(|| dir.to_vec(), |name| join(dir, name))
    }

    fn is_name(&self) -> bool {
        let name = self.name;
        !name.is_empty()
            && name != b"."
            && name != b".."
            && !name.iter().any(|b| b"/\0".contains(b))
    }
}

impl<'a> Export<'a> {
    /// An export into the directory `root`; `root_path` is its path in messages.
    pub(crate) fn new(
        fs: &'a Filesystem,
        image: &'a ImageArgs,
        root: OwnedFd,
        root_path: &Path,
        policy: Policy,
    ) -> Self {
        handles::allow_deep_trees();
        Self {
            fs,
            image,
            root,
            root_path: root_path.strip_prefix(".").unwrap_or(root_path).into(),
            links: HashMap::new(),
            entered: HashSet::new(),
            progress: Progress::new(|| None),
            restore: Restore::new(policy.permissions),
            devices: policy.devices,
            outcome: Outcome::new(policy.failures),
            buffer: vec![0; PIECE_BYTES],
            left_out: 0,
        }
    }

    /// Shows progress relative to a total in bytes.
    pub(crate) fn with_total(mut self, total: impl FnOnce() -> Option<u64>) -> Self {
        self.progress = Progress::new(total);
        self
    }

    /// Prints notes about lost attributes and nodes, and returns the outcome of the transfer.
    pub(crate) fn finish(self) -> Result<()> {
        drop(self.progress);
        if self.left_out > 0 {
            crate::failure::note(format_args!("{} device nodes were left out", self.left_out));
        }
        if self.restore.reduced > 0 {
            let reduced = self.restore.reduced;
            crate::failure::note(format_args!(
                "{reduced} owners or attributes were not kept; run as root to keep all"
            ));
        }
        self.outcome.finish()
    }

    /// Exports `inode`, which has the path `path` in the image, as `name`.
    pub(crate) fn tree(&mut self, inode: InodeRef, path: &[u8], name: &[u8]) -> Result<()> {
        let root = self.root.try_clone().at("the destination")?;
        let mut open = Vec::new();
        let top = Spot {
            dir: root.as_fd(),
            host_dir: Path::new(""),
            name,
            image: (path, None),
        };
        let begun = self.entry(&top, inode);
        self.go_on(begun, &mut open)?;
        self.drain(open)
    }

    /// Exports the entries of a directory, without the directory itself. `/lost+found` is left out.
    pub(crate) fn content(&mut self, inode: &InodeRef, path: &[u8]) -> Result<()> {
        self.entered.insert(self.fs.attr(inode).ino.0);
        let entries = Directory::of(self.fs, inode, path).at(self.image.name_of(path))?;
        for entry in entries {
            if self.outcome.is_interrupted() {
                break;
            }
            let found = entry.of(|| self.image.name_of(path));
            let found = found.and_then(|entry| {
                let path = join(path, &entry.name);
                let found = self.fs.lookup(inode, &entry.name, &Caller::root());
                Ok((found.of(|| self.image.name_of(&path))?, path, entry.name))
            });
            match found {
                Ok((_, path, _)) if path == b"/lost+found" => {}
                Ok((inode, path, name)) => self.tree(inode, &path, &name)?,
                Err(ended) => self.outcome.note(Err(ended))?,
            }
        }
        Ok(())
    }

    /// Fills the open directories depth-first until none is open.
    fn drain(&mut self, mut open: Vec<Frame>) -> Result<()> {
        while let Some(frame) = open.last_mut() {
            let interrupted = self.outcome.is_interrupted();
            let next = frame.entries.next().filter(|_| !interrupted);
            let Some(entry) = next else {
                let Some(done) = open.pop() else { break };
                let closed = self.close(&done);
                self.outcome.note(closed)?;
                continue;
            };
            let below = self.child(frame, entry);
            self.go_on(below, &mut open)?;
        }
        Ok(())
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

    fn child(
        &mut self,
        frame: &Frame,
        entry: uext4::path::Result<uext4::path::Entry>,
    ) -> Step<Option<Frame>> {
        let entry = entry.of(|| self.image.name_of(&frame.path))?;
        let spot = Spot {
            dir: frame.fd.as_fd(),
            host_dir: &frame.host,
            name: &entry.name,
            image: (&frame.path, Some(&entry.name)),
        };
        let inode = self.fs.lookup(&frame.inode, &entry.name, &Caller::root());
        let inode = inode.of(|| self.image.name_of(&spot.path()))?;
        self.entry(&spot, inode)
    }

    /// Sets the attributes of a directory after its content, because filling it changes its times.
    fn close(&mut self, done: &Frame) -> Step<()> {
        let attr = self.fs.attr(&done.inode);
        let set = self
            .restore
            .open(done.fd.as_fd(), self.fs, &done.inode, &attr);
        set.of(|| self.shown(&done.host))
    }

    /// Path of a host file in messages.
    fn shown(&self, host: &Path) -> String {
        self.root_path.join(host).display().to_string()
    }

    /// Exports one entry. For a directory it returns the open, empty directory.
    fn entry(&mut self, spot: &Spot<'_>, inode: InodeRef) -> Step<Option<Frame>> {
        if !spot.is_name() {
            let at = self.image.name_of(&spot.path());
            let text = format!("{at}: no file can have this name");
            return Err(Failure::new(Exit::Damaged, text).into());
        }
        self.progress.at(|| spot.path());
        let attr = self.fs.attr(&inode);
        if attr.kind == FileType::Directory {
            return self.directory(spot, inode, &attr).map(Some);
        }
        if self.is_link(spot, &attr)? {
            return Ok(None);
        }
        let made = match attr.kind {
            FileType::Regular => Some(self.file(spot, &inode, &attr)?),
            _ => self.special(spot, &inode, &attr)?,
        };
        if let (Some(made), true) = (made, attr.links > 1) {
            let first = First {
                host: spot.host(),
                identity: Identity::of(made.as_fd()).of(|| self.shown(&spot.host()))?,
                names_left: attr.links - 1,
            };
            self.links.insert(attr.ino.0, first);
        }
        Ok(None)
    }

    fn directory(&mut self, spot: &Spot<'_>, inode: InodeRef, attr: &Attr) -> Step<Frame> {
        let path = spot.path();
        if !self.entered.insert(attr.ino.0) {
            return Err(second_name(&self.image.name_of(&path), attr.ino.0).into());
        }
        let entries = Directory::of(self.fs, &inode, &path);
        let entries = entries.of(|| self.image.name_of(&path))?;
        let host = spot.host();
        let fd = handles::make_directory(spot.dir, spot.name());
        let fd = fd.of(|| self.shown(&host))?;
        Ok(Frame {
            fd,
            host,
            path,
            inode,
            entries,
        })
    }

    /// Creates a hard link to a file that was already exported; false if it was not.
    fn is_link(&mut self, spot: &Spot<'_>, attr: &Attr) -> Step<bool> {
        let Some(first) = self.links.get_mut(&attr.ino.0) else {
            return Ok(false);
        };
        let (root, identity) = (self.root.as_fd(), first.identity);
        let linked = handles::link_beneath(root, &first.host, identity, spot.dir, spot.name());
        first.names_left = first.names_left.saturating_sub(1);
        if first.names_left == 0 {
            self.links.remove(&attr.ino.0);
        }
        linked.of(|| self.shown(&spot.host()))?;
        Ok(true)
    }

    fn file(&mut self, spot: &Spot<'_>, inode: &InodeRef, attr: &Attr) -> Step<OwnedFd> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(spot.dir, spot.name(), flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(fd.of(|| self.shown(&spot.host()))?);
        let copied = self.data(&file, spot, inode, attr.size_bytes);
        let set = self.restore.open(file.as_fd(), self.fs, inode, attr);
        copied?;
        set.of(|| self.shown(&spot.host()))?;
        Ok(file.into())
    }

    /// Copies the data and preserves holes. A read error truncates the copy at that offset.
    fn data(&mut self, file: &File, spot: &Spot<'_>, inode: &InodeRef, size: u64) -> Step<()> {
        let (mut end, mut length) = (0, 0);
        while end < size {
            let start = match self.fs.seek(inode, end, Seek::Data) {
                Err(Error::NoOffset) => break,
                other => other.of(|| self.image.name_of(&spot.path()))?,
            };
            let hole = self.fs.seek(inode, start, Seek::Hole);
            end = hole.of(|| self.image.name_of(&spot.path()))?;
            self.run(file, spot, inode, start..end)?;
            length = end;
        }
        if length < size {
            file.set_len(size).of(|| self.shown(&spot.host()))?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        file: &File,
        spot: &Spot<'_>,
        inode: &InodeRef,
        range: std::ops::Range<u64>,
    ) -> Step<()> {
        let mut offset = range.start;
        while offset < range.end {
            let want = (range.end - offset).min(PIECE_BYTES as u64) as usize;
            let piece = self.buffer.split_at_mut(want).0;
            let read = self.fs.read(inode, offset, piece);
            let read = match read.of(|| self.image.name_of(&spot.path())) {
                Ok(read) if read > 0 => read,
                failed => {
                    // The copy ends here; the unreadable range is not filled with zeroes.
                    file.set_len(offset).of(|| self.shown(&spot.host()))?;
                    failed?;
                    let text = format!(
                        "{}: its data end before its size",
                        self.image.name_of(&spot.path())
                    );
                    return Err(Failure::new(Exit::Damaged, text).into());
                }
            };
            let written = file.write_all_at(piece.split_at(read).0, offset);
            written.of(|| self.shown(&spot.host()))?;
            offset += read as u64;
            self.progress.add(read as u64);
            self.outcome.add_bytes(read as u64);
        }
        Ok(())
    }

    /// Creates a symbolic link, device node, pipe or socket; `None` if it is left out.
    fn special(&mut self, spot: &Spot<'_>, inode: &InodeRef, attr: &Attr) -> Step<Option<OwnedFd>> {
        use rustix::fs::FileType as Host;
        let (major, minor) = attr.rdev;
        let (kind, device) = match attr.kind {
            FileType::CharDevice => (Host::CharacterDevice, rustix::fs::makedev(major, minor)),
            FileType::BlockDevice => (Host::BlockDevice, rustix::fs::makedev(major, minor)),
            FileType::Socket => (Host::Socket, 0),
            FileType::Fifo => (Host::Fifo, 0),
            _ => (Host::Symlink, 0),
        };
        let is_device = matches!(kind, Host::CharacterDevice | Host::BlockDevice);
        if is_device && self.devices == Devices::Leave {
            self.left_out += 1;
            return Ok(None);
        }
        let made = if kind == Host::Symlink {
            let target = self.fs.read_link(inode);
            let target = target.of(|| self.image.name_of(&spot.path()))?;
            rustix::fs::symlinkat(OsStr::from_bytes(&target), spot.dir, spot.name())
        } else {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(spot.dir, spot.name(), kind, mode, device)
        };
        if let Err(error) = made {
            let at = self.image.name_of(&spot.path());
            if self.restore.lacks_privilege(error, attr, &at) {
                return Ok(None);
            }
        }
        let shown = || self.root_path.join(spot.host()).display().to_string();
        made.of(shown)?;
        let fd = handles::open_made(spot.dir, spot.name(), kind, device).of(shown)?;
        let set = self.restore.by_handle(fd.as_fd(), self.fs, inode, attr);
        set.of(shown)?;
        Ok(Some(fd))
    }
}
