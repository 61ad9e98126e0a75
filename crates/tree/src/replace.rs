//! A new file in the place of an old one: made under another name, then renamed.
//!
//! Invariant: the name has the old file until the new one is complete, also after an error. If the
//! process ends before, the incomplete file is left beside it.

use crate::Existing;
use uext4::{Caller, Error, Filesystem, InodeRef, RenameFlags, Result};

/// Names that are tried for an incomplete file.
const TRIES: u32 = 1000;

/// The name that a file has while it is made.
pub struct NewName<'n> {
    fs: &'n Filesystem,
    parent: &'n InodeRef,
    name: &'n [u8],
    caller: &'n Caller,
    temporary: Option<Vec<u8>>,
}

impl<'n> NewName<'n> {
    /// The name for a file that gets `name` in `parent`, where nothing or a file may be.
    ///
    /// # Errors
    /// [`Error::Exists`] if a file is there and is to stay, [`Error::IsDirectory`], or those of the
    /// file system.
    pub fn find(
        fs: &'n Filesystem,
        parent: &'n InodeRef,
        name: &'n [u8],
        existing: Existing,
        caller: &'n Caller,
    ) -> Result<Self> {
        let mut new = Self {
            fs,
            parent,
            name,
            caller,
            temporary: None,
        };
        match fs.lookup(parent, name, caller) {
            Err(Error::NotFound) => return Ok(new),
            Ok(_) if existing == Existing::Refuse => return Err(Error::Exists),
            Ok(there) if there.is_dir() => return Err(Error::IsDirectory),
            there => drop(there?),
        }
        for nr in 0..TRIES {
            let name = format!(".uext4-{nr}.part").into_bytes();
            match fs.lookup(parent, &name, caller) {
                Err(Error::NotFound) => {
                    new.temporary = Some(name);
                    return Ok(new);
                }
                there => drop(there?),
            }
        }
        Err(Error::Exists)
    }

    /// The name under which to make the file.
    pub fn as_bytes(&self) -> &[u8] {
        self.temporary.as_deref().unwrap_or(self.name)
    }

    /// Gives the complete file its name. Where it replaces another, its data are durable first.
    ///
    /// # Errors
    /// Those of the file system; the incomplete file is gone then.
    pub fn keep(self) -> Result<()> {
        let Some(temporary) = &self.temporary else {
            return Ok(());
        };
        let (from, to) = ((self.parent, &temporary[..]), (self.parent, self.name));
        let flags = RenameFlags::Replace;
        let inode = self.fs.lookup(from.0, from.1, self.caller);
        let stored = inode.and_then(|inode| self.fs.fdatasync(&inode));
        let renamed = stored.and_then(|()| {
            self.fs
                .rename(from.0, from.1, to.0, to.1, flags, self.caller)
        });
        if renamed.is_err() {
            self.remove();
        }
        renamed
    }

    /// Removes an incomplete file; errors are ignored.
    pub fn remove(&self) {
        // The first error is told.
        let _ = self.fs.unlink(self.parent, self.as_bytes(), self.caller);
    }
}
