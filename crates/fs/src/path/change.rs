//! Creation, renaming and removal by path.

use super::walk::{Last, Place};
use super::{AsBytes, Paths};
use crate::{Error, FileType, InodeRef, RenameFlags, Result, SetAttr};
use uext4_format::{Corrupt, CorruptKind, InodeNr};

impl Paths<'_> {
    /// Creates a directory.
    pub fn create_dir(&self, path: impl AsBytes) -> Result<()> {
        self.create_dir_mode(path, 0o777)
    }

    /// Creates a directory with these permission bits, less those of the umask.
    pub fn create_dir_mode(&self, path: impl AsBytes, mode: u16) -> Result<()> {
        let place = self.new_place(path.as_bytes())?;
        self.fs
            .mkdir(&place.parent, place.name, mode, &self.caller)
            .map(drop)
    }

    /// Creates a directory and its missing parents; it may exist.
    pub fn create_dir_all(&self, path: impl AsBytes) -> Result<()> {
        let path = path.as_bytes();
        let mut ends: Vec<usize> = ends_of_names(path);
        while let Some(end) = ends.first().copied() {
            ends.remove(0);
            let part = path.split_at(end).0;
            match self.create_dir(part) {
                Err(Error::Exists) if self.metadata(part)?.is_dir() => {}
                Err(Error::Exists) => return Err(Error::NotDirectory),
                other => other?,
            }
        }
        Ok(())
    }

    /// Creates a symbolic link at `path` to `target`, which need not exist.
    pub fn symlink(&self, target: impl AsBytes, path: impl AsBytes) -> Result<()> {
        let place = self.new_place(path.as_bytes())?;
        place.no_slash()?;
        self.fs
            .symlink(&place.parent, place.name, target.as_bytes(), &self.caller)
            .map(drop)
    }

    /// Creates a device node, fifo or socket; `device` is (major, minor).
    pub fn mknod(
        &self,
        path: impl AsBytes,
        kind: FileType,
        mode: u16,
        device: (u32, u32),
    ) -> Result<()> {
        let place = self.new_place(path.as_bytes())?;
        place.no_slash()?;
        self.fs
            .mknod(&place.parent, place.name, kind, mode, device, &self.caller)
            .map(drop)
    }

    /// Creates a hard link to the file at `original`; a symbolic link is not followed.
    pub fn hard_link(&self, original: impl AsBytes, path: impl AsBytes) -> Result<()> {
        let inode = self.walker().existing(original.as_bytes(), Last::Keep)?;
        let place = self.new_place(path.as_bytes())?;
        place.no_slash()?;
        self.fs
            .link(&inode, &place.parent, place.name, &self.caller)
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
        let from = self.old_place(from.as_bytes())?;
        let to = self.old_place(to.as_bytes())?;
        if from.slash || to.slash {
            let source = self.fs.lookup(&from.parent, from.name, &self.caller)?;
            if !source.is_dir() {
                return Err(Error::NotDirectory);
            }
        }
        self.fs.rename(
            &from.parent,
            from.name,
            &to.parent,
            to.name,
            flags,
            &self.caller,
        )
    }

    /// Removes a name of anything but a directory.
    pub fn remove_file(&self, path: impl AsBytes) -> Result<()> {
        let place = self
            .walker()
            .place(path.as_bytes())?
            .ok_or(Error::IsDirectory)?;
        place.no_slash()?;
        self.fs.unlink(&place.parent, place.name, &self.caller)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: impl AsBytes) -> Result<()> {
        let place = self.old_place(path.as_bytes())?;
        self.fs.rmdir(&place.parent, place.name, &self.caller)
    }

    /// Removes a directory and all below it; symbolic links are removed, not followed. After an
    /// error, the files removed so far stay removed.
    pub fn remove_dir_all(&self, path: impl AsBytes) -> Result<()> {
        let place = self.old_place(path.as_bytes())?;
        let dir = self.fs.lookup(&place.parent, place.name, &self.caller)?;
        if !dir.is_dir() {
            return Err(Error::NotDirectory);
        }
        if matches!(place.name, b"." | b"..") {
            return Err(Error::Invalid("'.' and '..' cannot be removed"));
        }
        let mut open = vec![Open {
            name: place.name.to_vec(),
            subdirs: self.empty(&dir)?,
            dir,
        }];
        while let Some(top) = open.last_mut() {
            if let Some(name) = top.subdirs.pop() {
                let dir = self.fs.lookup(&top.dir, &name, &self.caller)?;
                if open.iter().any(|above| above.dir.nr() == dir.nr()) {
                    return Err(cycle(dir.nr()));
                }
                open.push(Open {
                    name,
                    subdirs: self.empty(&dir)?,
                    dir,
                });
                continue;
            }
            let Some(done) = open.pop() else { break };
            let parent = open.last().map_or(&place.parent, |above| &above.dir);
            self.fs.rmdir(parent, &done.name, &self.caller)?;
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
        let inode = self.walker().existing(path.as_bytes(), Last::Follow)?;
        self.fs.set_attr(&inode, set, &self.caller).map(drop)
    }

    /// Removes all but the subdirectories of `dir`; answers their names.
    fn empty(&self, dir: &InodeRef) -> Result<Vec<Vec<u8>>> {
        let entries: Vec<_> = self.list(dir.clone())?.collect::<Result<_>>()?;
        let mut subdirs = Vec::new();
        for entry in entries {
            let kind = match entry.kind {
                Some(kind) => kind,
                None => self.fs.lookup(dir, &entry.name, &self.caller)?.kind(),
            };
            match kind {
                FileType::Directory => subdirs.push(entry.name),
                _ => self.fs.unlink(dir, &entry.name, &self.caller)?,
            }
        }
        Ok(subdirs)
    }

    fn new_place<'p>(&self, path: &'p [u8]) -> Result<Place<'p>> {
        self.walker().place(path)?.ok_or(Error::Exists)
    }

    fn old_place<'p>(&self, path: &'p [u8]) -> Result<Place<'p>> {
        self.walker().place(path)?.ok_or(Error::Busy)
    }
}

/// The error for a directory below itself, whose removal or walk would not end.
pub(super) fn cycle(nr: InodeNr) -> Error {
    let place = uext4_format::Place::Inode(nr);
    Corrupt::new(place, "directory", CorruptKind::BelowItself).into()
}

/// A directory being removed: only empty subdirectories of these names are left in it.
struct Open {
    name: Vec<u8>,
    dir: InodeRef,
    subdirs: Vec<Vec<u8>>,
}

impl Place<'_> {
    fn no_slash(&self) -> Result<()> {
        if self.slash {
            Err(Error::NotDirectory)
        } else {
            Ok(())
        }
    }
}

/// The end offset of each name in a path.
fn ends_of_names(path: &[u8]) -> Vec<usize> {
    let is_end = |at: &usize| {
        path.get(at - 1) != Some(&b'/') && path.get(*at).is_none_or(|byte| *byte == b'/')
    };
    (1..=path.len()).filter(is_end).collect()
}
