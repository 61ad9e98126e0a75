//! Depth-first walk of a tree.
//!
//! Invariants: memory is bounded by the depth of the tree: one path, and the directories that are
//! open. A directory that is below itself, which only a damaged image has, is an error and not an
//! endless walk.

use super::change::cycle;
use super::error::{At, PathError, Result};
use super::{AsBytes, Directory, Metadata, Paths};
use crate::ops::filesystem::Filesystem;
use crate::state::inode::InodeRef;
use crate::types::error::Error;
use std::collections::HashSet;
use uext4_format::InodeNr;
use uext4_sync::Arc;

/// One file of a [`Walk`].
#[derive(Clone)]
pub struct WalkEntry {
    /// Path from the start of the walk, without a leading `/`.
    pub path: Vec<u8>,
    /// Number of names in `path`; 1 in the directory where the walk starts.
    pub depth: usize,
    name_bytes: usize,
    /// The file; a symbolic link is not followed.
    pub inode: InodeRef,
    fs: Filesystem,
    start: Arc<[u8]>,
}

impl WalkEntry {
    /// The last name of the path. In a damaged image it may contain `/`.
    pub fn name(&self) -> &[u8] {
        let start = self.path.len() - self.name_bytes;
        self.path.split_at(start).1
    }

    /// Path from the root of the file system: that of the walk, as it was given, and the one below.
    pub fn full_path(&self) -> Vec<u8> {
        join(&self.start, &self.path)
    }

    /// Attributes of the file; a symbolic link is not followed.
    pub fn metadata(&self) -> Metadata {
        Metadata::new(self.fs.attr(&self.inode))
    }
}

/// All files below a directory; each directory comes before its content.
///
/// A file that is removed during the walk may be left out. After an error the walk goes on with the
/// next file.
pub struct Walk {
    paths: Paths,
    /// Path of the directory where the walk starts, for errors.
    start: Arc<[u8]>,
    open: Vec<Level>,
    /// Path of the innermost open directory.
    path: Vec<u8>,
    /// Numbers of the open directories.
    entered: HashSet<InodeNr>,
    /// The directory that was answered last: its content comes next.
    next: Option<WalkEntry>,
}

struct Level {
    inode: InodeRef,
    /// Length of its path.
    path_bytes: usize,
    entries: Directory,
}

impl Paths {
    /// All files below the directory at `path`, in the order of the directories.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use uext4::{Filesystem, MountOptions, device::MemDevice, mkfs};
    /// # let device = Arc::new(MemDevice::new(16 << 20));
    /// # mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4)).unwrap();
    /// # let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
    /// # let paths = fs.paths();
    /// paths.create_dir_all("/srv/www").unwrap();
    /// paths.write("/srv/www/index.html", "Hello").unwrap();
    /// let found: Vec<_> = paths.walk("/srv").unwrap().map(|file| file.unwrap().path).collect();
    /// assert_eq!(found, [&b"www"[..], b"www/index.html"]);
    /// let last = paths.walk("/srv").unwrap().last().unwrap().unwrap();
    /// assert_eq!((last.full_path(), last.metadata().len()), (b"/srv/www/index.html".into(), 5));
    /// ```
    ///
    /// # Errors
    /// `path` is no directory that the caller may read.
    pub fn walk(&self, path: impl AsBytes) -> Result<Walk> {
        let mut walk = Walk {
            paths: self.clone(),
            start: path.as_bytes().into(),
            open: Vec::new(),
            path: Vec::new(),
            entered: HashSet::new(),
            next: None,
        };
        walk.enter(WalkEntry {
            path: Vec::new(),
            depth: 0,
            name_bytes: 0,
            inode: self.inode(path)?,
            fs: self.fs.clone(),
            start: walk.start.clone(),
        })?;
        Ok(walk)
    }
}

impl Walk {
    /// Leaves out the content of the directory that was answered last.
    pub fn skip_content(&mut self) {
        self.next = None;
    }

    fn enter(&mut self, dir: WalkEntry) -> Result<()> {
        let nr = dir.inode.nr();
        if self.entered.contains(&nr) {
            return Err(cycle(nr)).at(&join(&self.start, &dir.path));
        }
        let entries = self.paths.list(dir.inode.clone(), b"");
        let entries = entries
            .map_err(|failed| PathError::new(&join(&self.start, &dir.path), failed.into()))?;
        self.entered.insert(nr);
        self.open.push(Level {
            inode: dir.inode,
            path_bytes: dir.path.len(),
            entries,
        });
        self.path = dir.path;
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(done) = self.open.pop() {
            self.entered.remove(&done.inode.nr());
        }
        let above = self.open.last().map_or(0, |level| level.path_bytes);
        self.path.truncate(above);
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(dir) = self.next.take()
            && let Err(failed) = self.enter(dir)
        {
            return Some(Err(failed));
        }
        loop {
            let depth = self.open.len();
            let Level { inode, entries, .. } = self.open.last_mut()?;
            let entry = match entries.next_entry() {
                None => {
                    self.leave();
                    continue;
                }
                Some(Err(failed)) => {
                    return Some(Err(failed).at(&join(&self.start, &self.path)));
                }
                Some(Ok(entry)) => entry,
            };
            let path = join(&self.path, &entry.name);
            let Paths { fs, caller } = &self.paths;
            let inode = match fs.lookup(inode, &entry.name, caller) {
                Err(Error::NotFound) => continue,
                Err(error) => return Some(Err(error).at(&join(&self.start, &path))),
                Ok(inode) => inode,
            };
            let file = WalkEntry {
                path,
                depth,
                name_bytes: entry.name.len(),
                inode,
                fs: fs.clone(),
                start: self.start.clone(),
            };
            self.next = file.inode.is_dir().then(|| file.clone());
            return Some(Ok(file));
        }
    }
}

pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() || name.is_empty() || dir.ends_with(b"/") {
        [dir, name].concat()
    } else {
        [dir, b"/", name].concat()
    }
}
