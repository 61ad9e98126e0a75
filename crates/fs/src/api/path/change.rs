//! Creation, renaming and removal by path.

use super::error::{At, PathError, Result};
use super::tree::join;
use super::walk::NameInDir;
use super::{AsBytes, Paths};
use crate::ops::RenameFlags;
use crate::state::inode::InodeRef;
use crate::types::attr::{FileType, SetAttr};
use crate::types::error::Error;
use std::collections::HashSet;
use uext4_format::{Corrupt, CorruptKind, InodeNr};

impl Paths {
    /// Creates a directory with mode `0o777`, less the bits of the umask.
    pub fn create_dir(&self, path: impl AsBytes) -> Result<()> {
        self.create_dir_mode(path, 0o777)
    }

    /// Creates a directory with these permission bits, less those of the umask.
    pub fn create_dir_mode(&self, path: impl AsBytes, mode: u16) -> Result<()> {
        let NameInDir {
            path, parent, name, ..
        } = self.new_entry(path.as_bytes())?;
        let made = self.fs.mkdir(&parent, name, mode, &self.caller);
        made.map(drop).at(path)
    }

    /// Creates a directory and its missing parents; it may exist.
    pub fn create_dir_all(&self, path: impl AsBytes) -> Result<()> {
        let path = path.as_bytes();
        for end in ends_of_names(path) {
            let part = path.split_at(end).0;
            match self.create_dir(part) {
                Err(failed) if matches!(failed.error(), Error::Exists) => {
                    if !self.metadata(part)?.is_dir() {
                        return Err(PathError::at_component(
                            path,
                            part.to_vec(),
                            Error::NotDirectory,
                        ));
                    }
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Creates a symbolic link at `path` to `target`, which need not exist.
    pub fn symlink(&self, target: impl AsBytes, path: impl AsBytes) -> Result<()> {
        let NameInDir {
            path, parent, name, ..
        } = self.new_entry(path.as_bytes())?.no_slash()?;
        let target = target.as_bytes();
        let made = self.fs.symlink(&parent, name, target, &self.caller);
        made.map(drop).at(path)
    }

    /// Creates a device node, fifo or socket; `device` is (major, minor).
    pub fn mknod(
        &self,
        path: impl AsBytes,
        kind: FileType,
        mode: u16,
        device: (u32, u32),
    ) -> Result<()> {
        let NameInDir {
            path, parent, name, ..
        } = self.new_entry(path.as_bytes())?.no_slash()?;
        let made = self
            .fs
            .mknod(&parent, name, kind, mode, device, &self.caller);
        made.map(drop).at(path)
    }

    /// Creates a hard link to the file at `original`; a symbolic link is not followed.
    pub fn hard_link(&self, original: impl AsBytes, path: impl AsBytes) -> Result<()> {
        let inode = self.symlink_inode(&original)?;
        let NameInDir {
            path, parent, name, ..
        } = self.new_entry(path.as_bytes())?.no_slash()?;
        let linked = self.fs.link(&inode, &parent, name, &self.caller);
        linked.map_err(|error| PathError::with_target(original.as_bytes(), path, error))
    }

    /// Renames, and replaces an existing file at `to`.
    pub fn rename(&self, from: impl AsBytes, to: impl AsBytes) -> Result<()> {
        self.rename_with(from, to, RenameFlags::Replace)
    }

    /// Renames with these flags.
    pub fn rename_with(
        &self,
        from: impl AsBytes,
        to: impl AsBytes,
        flags: RenameFlags,
    ) -> Result<()> {
        let from = self.existing_entry(from.as_bytes())?;
        let to = self.existing_entry(to.as_bytes())?;
        if from.slash || to.slash {
            let source = self.fs.lookup(&from.parent, from.name, &self.caller);
            if !source.at(from.path)?.is_dir() {
                return Err(Error::NotDirectory).at(from.path);
            }
        }
        let renamed = self.fs.rename(
            &from.parent,
            from.name,
            &to.parent,
            to.name,
            flags,
            &self.caller,
        );
        renamed.map_err(|error| PathError::with_target(from.path, to.path, error))
    }

    /// Removes a name of anything but a directory.
    pub fn remove_file(&self, path: impl AsBytes) -> Result<()> {
        let place = self
            .walker()
            .parent_entry(path.as_bytes(), Error::IsDirectory)?;
        let NameInDir {
            path, parent, name, ..
        } = place.no_slash()?;
        self.fs.unlink(&parent, name, &self.caller).at(path)
    }

    /// Removes a directory, which must be empty.
    pub fn remove_dir(&self, path: impl AsBytes) -> Result<()> {
        let NameInDir {
            path, parent, name, ..
        } = self.existing_entry(path.as_bytes())?;
        self.fs.rmdir(&parent, name, &self.caller).at(path)
    }

    /// Removes a directory and all below it; symbolic links are removed, not followed. After an
    /// error, which names the file that stays, the files removed so far stay removed.
    pub fn remove_dir_all(&self, path: impl AsBytes) -> Result<()> {
        let place = self.existing_entry(path.as_bytes())?;
        let (path, caller) = (place.path, &self.caller);
        let dir = self.fs.lookup(&place.parent, place.name, caller).at(path)?;
        if !dir.is_dir() {
            return Err(Error::NotDirectory).at(path);
        }
        if matches!(place.name, b"." | b"..") {
            return Err(Error::Invalid("'.' and '..' cannot be removed")).at(path);
        }
        let mut at = path.to_vec();
        let mut entered = HashSet::from([dir.nr()]);
        let mut open = vec![self.emptied(dir, &at)?];
        while let Some(top) = open.last_mut() {
            if let Some(name) = top.subdirs.pop() {
                at.truncate(top.path_bytes);
                at = join(&at, &name);
                let dir = self.fs.lookup(&top.dir, &name, caller).at(&at)?;
                if !entered.insert(dir.nr()) {
                    return Err(cycle(dir.nr())).at(&at);
                }
                let mut below = self.emptied(dir, &at)?;
                below.name = name;
                open.push(below);
                continue;
            }
            let Some(done) = open.pop() else { break };
            at.truncate(done.path_bytes);
            entered.remove(&done.dir.nr());
            let (parent, name) = match open.last() {
                Some(above) => (&above.dir, &done.name[..]),
                None => (&place.parent, place.name),
            };
            self.fs.rmdir(parent, name, caller).at(&at)?;
        }
        Ok(())
    }

    /// Sets the permission bits (`0o7777`) of the file at `path`; symbolic links are followed.
    pub fn set_permissions(&self, path: impl AsBytes, mode: u16) -> Result<()> {
        self.set_attr(
            path,
            &SetAttr {
                mode: Some(mode),
                ..SetAttr::default()
            },
        )
    }

    /// Changes attributes of the file at `path`; symbolic links are followed.
    pub fn set_attr(&self, path: impl AsBytes, set: &SetAttr) -> Result<()> {
        let set = self.fs.set_attr(&self.inode(&path)?, set, &self.caller);
        set.map(drop).at(path.as_bytes())
    }

    /// Removes all but the subdirectories of `dir`.
    fn emptied(&self, dir: InodeRef, path: &[u8]) -> Result<Emptied> {
        let entries: Vec<_> = self.list(dir.clone(), path)?.collect::<Result<_>>()?;
        let mut subdirs = Vec::new();
        for entry in entries {
            let below = || join(path, &entry.name);
            let is_dir = match entry.kind {
                Some(kind) => kind == FileType::Directory,
                None => {
                    let inode = self.fs.lookup(&dir, &entry.name, &self.caller);
                    inode
                        .map_err(|error| PathError::new(&below(), error))?
                        .is_dir()
                }
            };
            if is_dir {
                subdirs.push(entry.name);
            } else {
                let removed = self.fs.unlink(&dir, &entry.name, &self.caller);
                removed.map_err(|error| PathError::new(&below(), error))?;
            }
        }
        Ok(Emptied {
            name: Vec::new(),
            path_bytes: path.len(),
            dir,
            subdirs,
        })
    }

    fn new_entry<'p>(&self, path: &'p [u8]) -> Result<NameInDir<'p>> {
        self.walker().parent_entry(path, Error::Exists)
    }

    fn existing_entry<'p>(&self, path: &'p [u8]) -> Result<NameInDir<'p>> {
        self.walker().parent_entry(path, Error::Busy)
    }
}

/// The error for a directory below itself, whose removal or walk would not end.
pub(super) fn cycle(nr: InodeNr) -> Error {
    let place = uext4_format::DamageLocation::Inode(nr);
    Corrupt::new(place, "directory", CorruptKind::BelowItself).into()
}

/// A directory being removed: only empty subdirectories of these names are left in it.
struct Emptied {
    /// Its name; empty for the one where the removal starts.
    name: Vec<u8>,
    /// Length of its path.
    path_bytes: usize,
    dir: InodeRef,
    subdirs: Vec<Vec<u8>>,
}

impl NameInDir<'_> {
    fn no_slash(self) -> Result<Self> {
        if self.slash {
            Err(Error::NotDirectory).at(self.path)
        } else {
            Ok(self)
        }
    }
}

/// The end offset of each name in a path.
fn ends_of_names(path: &[u8]) -> Vec<usize> {
    (1..=path.len())
        .filter(|at| {
            path.get(at - 1) != Some(&b'/') && path.get(*at).is_none_or(|byte| *byte == b'/')
        })
        .collect()
}
