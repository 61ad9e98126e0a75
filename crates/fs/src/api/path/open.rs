//! Options to open a file.

use super::error::{At, PathError, Result};
use super::file::Rights;
use super::walk::Last;
use super::{AsBytes, File, Paths};
use crate::ops::WriteContext;
use crate::parts::access::Want;
use crate::state::inode::InodeRef;
use crate::types::attr::FileType;
use crate::types::error::Error;

/// Options to open a file, as `std::fs::OpenOptions`; all are off at first.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u16,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* pub fn $name(&mut self, on: bool) -> &mut Self {
            self.$name = on;
            self
        })*
    };
}

impl OpenOptions {
    /// Options for opening, all of them off.
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
        }
    }

    switches! {
        /// Open for reading, which needs the permission to read.
        read
        /// Open for writing, which needs the permission to write.
        write
        /// Every write goes to the end of the file, also beside other writers; implies writing.
        append
        /// Truncate the file; needs writing.
        truncate
        /// Create the file if it does not exist; needs writing.
        create
        /// Create the file; it must not exist.
        create_new
    }

    /// Permission bits of a new file, before the umask.
    pub fn mode(&mut self, mode: u16) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As open(2): [`Error::IsDirectory`] for writing a directory, [`Error::Exists`] when the file
    /// must be new, [`Error::Invalid`] when the options contradict each other.
    pub fn open(&self, paths: &Paths, path: impl AsBytes) -> Result<File> {
        let path = path.as_bytes();
        self.check().at(path)?;
        let caller = paths.caller();
        let inode = self.inode(paths, path)?;
        if self.truncate && paths.fs.attr(&inode).size_bytes != 0 {
            paths.fs.truncate(&inode, 0).at(path)?;
        }
        let rights = Rights {
            read: self.read,
            write: self.writes(),
            append: self.append,
            context: WriteContext::by(caller.clone()),
        };
        Ok(File::new(&paths.fs, path, inode, rights))
    }

    fn writes(&self) -> bool {
        self.write || self.append
    }

    fn makes(&self) -> bool {
        self.create || self.create_new
    }

    fn check(&self) -> crate::types::error::Result<()> {
        if !self.read && !self.writes() {
            return Err(Error::Invalid(
                "a file is opened for reading, writing or both",
            ));
        }
        if (self.truncate || self.makes()) && !self.writes() {
            return Err(Error::Invalid("making and truncating need writing"));
        }
        Ok(())
    }

    fn inode(&self, paths: &Paths, path: &[u8]) -> Result<InodeRef> {
        if self.makes() && path.ends_with(b"/") {
            return refused_as_directory(paths, path);
        }
        let last = if self.create_new {
            Last::Keep
        } else {
            Last::Follow
        };
        loop {
            let found = paths.walker().walk(path, last)?;
            let Some(name) = &found.missing else {
                let inode = found.inode().clone();
                self.check_existing(paths, &inode).at(path)?;
                return Ok(inode);
            };
            if !self.makes() {
                return Err(PathError::at_component(path, found.path(), Error::NotFound));
            }
            let (dir, caller) = (found.inode(), paths.caller());
            match paths.fs.create(dir, name, self.mode, caller) {
                // Another thread created it meanwhile.
                Err(Error::Exists) if !self.create_new => {}
                other => return other.at(path),
            }
        }
    }

    fn check_existing(&self, paths: &Paths, inode: &InodeRef) -> crate::types::error::Result<()> {
        if self.create_new {
            return Err(Error::Exists);
        }
        match inode.kind() {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid("not a regular file")),
        }
        if self.read {
            paths.fs.access(inode, paths.caller(), Want::READ)?;
        }
        if self.writes() {
            paths.fs.access(inode, paths.caller(), Want::WRITE)?;
        }
        Ok(())
    }
}

/// The error of making a file under a name with a slash at its end.
fn refused_as_directory(paths: &Paths, path: &[u8]) -> Result<InodeRef> {
    let last = path.iter().rposition(|byte| *byte != b'/').unwrap_or(0);
    let name = path.split_at(last + 1).0;
    paths.walker().walk(name, Last::Keep)?;
    Err(Error::IsDirectory).at(path)
}
