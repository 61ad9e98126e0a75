//! One export into a directory of the host.
//!
//! Invariants: the image may be hostile, and so may other processes in the destination. The export
//! creates every file itself, with a checked name, below the destination or a directory that it
//! created and holds open. It follows no symbolic link on the host and overwrites nothing. It
//! exports each directory once; a second name of a directory is reported as damage. Memory is
//! bounded: a level costs its name and a descriptor, and there are at most [`LEVELS_MAX`] of them.

use super::{Export, Original};
use crate::beneath::{self, Identity};
use crate::error::{Damage, InImage, OnHost};
use crate::{Error, Result, join, name_of, sorted};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use uext4::path::Walk;
use uext4::{FileType, InodeRef};

/// Most directories one below the other: programs that work with paths reach no more.
const LEVELS_MAX: usize = 4096;

/// One export into a directory of the host.
pub(super) struct Run<'r, 'a> {
    pub(super) export: &'r mut Export<'a>,
    /// Destination directory; targets of hard links are relative to it.
    root: OwnedFd,
    /// Its path, for errors.
    root_path: PathBuf,
    /// Files with further names to export, by inode number.
    links: HashMap<u32, First>,
    /// Inode numbers of exported directories.
    entered: HashSet<u32>,
    /// A path of the walk that is not exported, if it is an empty directory.
    left_out: Option<&'static [u8]>,
    root_attributes: Attributes,
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
    /// The directory whose attributes it gets at the end, without its path.
    from: Original,
    /// Lengths of its paths, on the host and in the image.
    host_bytes: usize,
    path_bytes: usize,
}

/// The directories that are being filled, the innermost last.
struct Open {
    frames: Vec<Frame>,
    /// The path of the innermost one, from the root of the export.
    host: Vec<u8>,
    /// Its path in the image.
    path: Vec<u8>,
}

impl Open {
    /// Begins the walk with this directory.
    fn new((made, host): (Made, Vec<u8>)) -> Self {
        let mut open = Self {
            frames: Vec::new(),
            host: Vec::new(),
            path: Vec::new(),
        };
        open.push(made, host);
        open
    }

    fn push(&mut self, Made { fd, mut from }: Made, host: Vec<u8>) {
        self.host = host;
        self.path = std::mem::take(&mut from.path);
        self.frames.push(Frame {
            fd,
            from,
            host_bytes: self.host.len(),
            path_bytes: self.path.len(),
        });
    }

    /// Takes the innermost one, with its paths.
    fn pop(&mut self) -> Option<(Made, PathBuf)> {
        let Frame { fd, mut from, .. } = self.frames.pop()?;
        from.path.clone_from(&self.path);
        let host = PathBuf::from(OsStr::from_bytes(&self.host));
        if let Some(above) = self.frames.last() {
            self.host.truncate(above.host_bytes);
            self.path.truncate(above.path_bytes);
        }
        Some((Made { fd, from }, host))
    }
}

/// What becomes of owner, mode and attributes of the directory into which a content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attributes {
    /// It gets those of the image.
    Come,
    /// It was there before, and may be a home or `/tmp`.
    Stay,
}

/// A directory of the host, and the one of the image whose content and attributes it gets.
struct Made {
    fd: OwnedFd,
    from: Original,
}

/// Destination of one name: in `dir`, at the path `host_dir` below the root of the export.
pub(super) struct Spot<'s> {
    pub(super) dir: BorrowedFd<'s>,
    host_dir: &'s Path,
    pub(super) name: &'s OsStr,
    /// Directories above it, from the root of the export on.
    levels: usize,
}

impl Spot<'_> {
    fn host(&self) -> PathBuf {
        self.host_dir.join(self.name)
    }

    fn is_name(&self) -> bool {
        sorted::is_name(self.name.as_bytes())
    }
}

impl<'r, 'a> Run<'r, 'a> {
    /// An export into the directory `root`; `root_path` is its path in errors.
    pub(super) fn new(export: &'r mut Export<'a>, root: OwnedFd, root_path: &Path) -> Self {
        Self {
            export,
            root,
            root_path: root_path.strip_prefix(".").unwrap_or(root_path).into(),
            links: HashMap::new(),
            entered: HashSet::new(),
            left_out: None,
            root_attributes: Attributes::Stay,
        }
    }

    /// Exports the file or tree at `path`; `host` has its new name.
    pub(super) fn tree(&mut self, path: &[u8], host: &Path) -> Result<()> {
        match self.begin_tree(path, host) {
            Ok(Some(made)) => {
                let name = name_of(host)?.as_bytes().to_vec();
                self.fill(path, Open::new((made, name)))
            }
            other => self.export.monitor.finish(other.map(drop)),
        }
    }

    fn begin_tree(&mut self, path: &[u8], host: &Path) -> Result<Option<Made>> {
        let inode = self.export.fs.paths().symlink_inode(path)?;
        let root = self.root.try_clone().on_host(|| host.into())?;
        let top = Spot {
            dir: root.as_fd(),
            host_dir: Path::new(""),
            name: name_of(host)?,
            levels: 0,
        };
        self.entry(&top, inode, path.to_vec())
    }

    /// Exports the content of the directory at `path` into the root.
    pub(super) fn content(&mut self, path: &[u8], attributes: Attributes) -> Result<()> {
        self.root_attributes = attributes;
        match self.begin_content(path) {
            Ok(made) => self.fill(path, Open::new((made, Vec::new()))),
            Err(error) => self.export.monitor.finish(Err(error)),
        }
    }

    fn begin_content(&mut self, path: &[u8]) -> Result<Made> {
        let fs = self.export.fs.clone();
        let (inode, root) = (fs.paths().inode(path)?, fs.root());
        if root.in_image(|| path.to_vec())?.nr() == inode.nr() {
            self.left_out = Some(b"lost+found");
        }
        self.entered.insert(inode.nr().0);
        Ok(Made {
            fd: self.root.try_clone().on_host(|| self.root_path.clone())?,
            from: Original {
                attr: fs.attr(&inode),
                fs,
                inode,
                path: path.to_vec(),
            },
        })
    }

    /// Exports all below the directory at `path` into the open directory.
    fn fill(&mut self, path: &[u8], mut open: Open) -> Result<()> {
        let filled = match self.export.fs.paths().walk(path) {
            Ok(walk) => self.follow(walk, path, &mut open),
            Err(failed) => self.export.monitor.finish(Err(failed.into())),
        };
        let filled = filled.and_then(|()| self.close_below(0, &mut open));
        while let Some((left, host)) = open.pop() {
            // The first error is told.
            let _ = self.close(&left, &host);
        }
        filled
    }

    fn follow(&mut self, mut walk: Walk, start: &[u8], open: &mut Open) -> Result<()> {
        while let Some(file) = walk.next() {
            self.export.monitor.check()?;
            let file = match file {
                Ok(file) => file,
                Err(failed) => {
                    self.export.monitor.finish(Err(failed.into()))?;
                    continue;
                }
            };
            self.close_below(file.depth, open)?;
            if self.left_out == Some(file.path.as_slice()) && self.is_empty(&file.path) {
                walk.skip_content();
                continue;
            }
            let Some(top) = open.frames.last() else {
                break;
            };
            let spot = Spot {
                dir: top.fd.as_fd(),
                host_dir: Path::new(OsStr::from_bytes(&open.host)),
                name: OsStr::from_bytes(file.name()),
                levels: open.frames.len(),
            };
            match self.entry(&spot, file.inode.clone(), join(start, &file.path)) {
                Ok(Some(made)) => {
                    let host = spot.host().into_os_string().into_vec();
                    open.push(made, host);
                }
                other => {
                    walk.skip_content();
                    self.export.monitor.finish(other.map(drop))?;
                }
            }
        }
        Ok(())
    }

    /// Whether a directory below the root has no names. One that cannot be read counts as full.
    fn is_empty(&self, path: &[u8]) -> bool {
        let names = self.export.fs.paths().read_dir(path);
        names.is_ok_and(|mut names| names.next().is_none())
    }

    /// Ends the directories below this depth, deepest first.
    fn close_below(&mut self, depth: usize, open: &mut Open) -> Result<()> {
        while open.frames.len() > depth
            && let Some((done, host)) = open.pop()
        {
            let closed = self.close(&done, &host);
            self.export.monitor.finish(closed)?;
        }
        Ok(())
    }

    /// Sets the attributes of a directory after its content, because filling it changes its times.
    fn close(&mut self, done: &Made, host: &Path) -> Result<()> {
        // The root has no path.
        if self.root_attributes == Attributes::Stay && host.as_os_str().is_empty() {
            return Ok(());
        }
        let host = self.root_path.join(host);
        self.export.restore.open(done.fd.as_fd(), &done.from, &host)
    }

    /// Path of a host file in errors.
    pub(super) fn host(&self, spot: &Spot<'_>) -> PathBuf {
        self.root_path.join(spot.host())
    }

    /// Exports one file. For a directory it returns the open, empty directory.
    fn entry(&mut self, spot: &Spot<'_>, inode: InodeRef, path: Vec<u8>) -> Result<Option<Made>> {
        let fs = self.export.fs.clone();
        let from = Original {
            attr: fs.attr(&inode),
            fs,
            inode,
            path,
        };
        if !spot.is_name() {
            return Err(from.damaged(Damage::Name));
        }
        self.export.monitor.begin(&from.path)?;
        if from.attr.kind == FileType::Directory {
            return self.directory(spot, from).map(Some);
        }
        if self.is_link(spot, &from)? {
            return Ok(None);
        }
        let made = match from.attr.kind {
            FileType::Regular => Some(self.file(spot, &from)?),
            _ => self.special(spot, &from)?,
        };
        if let (Some(made), true) = (made, from.attr.links > 1) {
            let first = First {
                host: spot.host(),
                identity: Identity::of(made.as_fd()).on_host(|| self.host(spot))?,
                names_left: from.attr.links - 1,
            };
            self.links.insert(from.attr.ino.0, first);
        }
        Ok(None)
    }

    fn directory(&mut self, spot: &Spot<'_>, from: Original) -> Result<Made> {
        let nr = from.attr.ino.0;
        if !self.entered.insert(nr) {
            return Err(from.damaged(Damage::SecondName(nr)));
        }
        let levels = spot.levels;
        if levels >= LEVELS_MAX {
            let path = from.path;
            return Err(Error::TooDeep { path, levels });
        }
        match beneath::make_directory(spot.dir, spot.name) {
            // One descriptor is open for each level.
            Err(Errno::MFILE) => Err(Error::TooDeep {
                path: from.path,
                levels,
            }),
            made => Ok(Made {
                fd: made.on_host(|| self.host(spot))?,
                from,
            }),
        }
    }

    /// Creates a hard link to a file that was already exported; false if it was not.
    fn is_link(&mut self, spot: &Spot<'_>, from: &Original) -> Result<bool> {
        let Some(first) = self.links.get_mut(&from.attr.ino.0) else {
            return Ok(false);
        };
        let (root, identity) = (self.root.as_fd(), first.identity);
        let linked = beneath::link_beneath(root, &first.host, identity, spot.dir, spot.name);
        first.names_left = first.names_left.saturating_sub(1);
        if first.names_left == 0 {
            self.links.remove(&from.attr.ino.0);
        }
        linked.on_host(|| self.host(spot))?;
        Ok(true)
    }
}

impl Original {
    pub(super) fn damaged(&self, damage: Damage) -> Error {
        let path = self.path.clone();
        Error::Damaged { path, damage }
    }
}
