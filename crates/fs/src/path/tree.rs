//! Depth-first walk of a tree, and its errors with paths.
//!
//! Invariants: memory is bounded by the depth of the tree. A directory that is below itself, which
//! only a damaged image has, is an error and not an endless walk.

use super::change::cycle;
use super::{AsBytes, Directory, Paths};
use crate::{Error, InodeRef, Result};

/// One file of a [`Walk`].
#[derive(Clone)]
pub struct WalkEntry {
    /// Path from the start of the walk, without a leading `/`.
    pub path: Vec<u8>,
    /// The file; a symbolic link is not followed.
    pub inode: InodeRef,
}

/// An error of a [`Walk`], and the path where it occurred.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {error}", String::from_utf8_lossy(path))]
pub struct WalkError {
    /// Path from the start of the walk.
    pub path: Vec<u8>,
    /// The error there.
    #[source]
    pub error: Error,
}

/// All files below a directory; each directory comes before its content.
///
/// A file that is removed during the walk may be left out. After an error the walk goes on with the
/// next file.
pub struct Walk<'fs> {
    paths: Paths<'fs>,
    open: Vec<Level<'fs>>,
    /// The directory that was answered last: its content comes next.
    next: Option<WalkEntry>,
}

struct Level<'fs> {
    dir: WalkEntry,
    entries: Directory<'fs>,
}

impl<'fs> Paths<'fs> {
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
    /// ```
    ///
    /// # Errors
    /// `path` is no directory that the caller may read.
    pub fn walk(&self, path: impl AsBytes) -> Result<Walk<'fs>> {
        let mut walk = Walk {
            paths: self.clone(),
            open: Vec::new(),
            next: None,
        };
        let start = WalkEntry {
            path: Vec::new(),
            inode: self.inode(path)?,
        };
        walk.enter(start).map_err(|failed| failed.error)?;
        Ok(walk)
    }
}

impl<'fs> Walk<'fs> {
    /// Leaves out the content of the directory that was answered last.
    pub fn skip_content(&mut self) {
        self.next = None;
    }

    fn enter(&mut self, dir: WalkEntry) -> std::result::Result<(), WalkError> {
        let nr = dir.inode.nr();
        let entries = match self.open.iter().any(|above| above.dir.inode.nr() == nr) {
            true => Err(cycle(nr)),
            false => self.paths.list(dir.inode.clone()),
        };
        let entries = entries.map_err(|error| WalkError {
            path: dir.path.clone(),
            error,
        })?;
        self.open.push(Level { dir, entries });
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = std::result::Result<WalkEntry, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(dir) = self.next.take()
            && let Err(failed) = self.enter(dir)
        {
            return Some(Err(failed));
        }
        loop {
            let Level { dir, entries } = self.open.last_mut()?;
            let (path, found) = match entries.next() {
                None => {
                    self.open.pop();
                    continue;
                }
                Some(Err(error)) => (dir.path.clone(), Err(error)),
                Some(Ok(entry)) => {
                    let Paths { fs, caller } = &self.paths;
                    let found = fs.lookup(&dir.inode, &entry.name, caller);
                    (join(&dir.path, &entry.name), found)
                }
            };
            return Some(match found {
                Err(Error::NotFound) => continue,
                Err(error) => Err(WalkError { path, error }),
                Ok(inode) => {
                    let file = WalkEntry { path, inode };
                    self.next = file.inode.is_dir().then(|| file.clone());
                    Ok(file)
                }
            });
        }
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir.is_empty() {
        true => name.to_vec(),
        false => [dir, b"/", name].concat(),
    }
}
