//! Loads inodes that names refer to, and checks that they are in use.

use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef, refuse_hidden};
use crate::types::error::{Error, Result};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, InodeNr};

impl Fs {
    /// A counted hold on an inode that must be in use.
    pub(crate) fn inode(&self, nr: InodeNr) -> Result<InodeRef> {
        self.checked(InodeRef::new(self.load_inode(nr)?))
    }

    /// The inode, if it is in use and a name may refer to it. The caller has no inode locked.
    pub(crate) fn checked(&self, inode: InodeRef) -> Result<InodeRef> {
        self.check_served(&inode).map(|()| inode)
    }

    /// Fails unless the inode is in use and a name may refer to it.
    pub(crate) fn check_served(&self, inode: &Inode) -> Result<()> {
        refuse_hidden(&self.hidden, inode)?;
        if inode.is_freed() {
            return Err(Error::Stale);
        }
        let (links, kind) = {
            let state = inode.read();
            (state.disk.links, state.disk.file_type())
        };
        if links == 0 && !inode.is_orphan() {
            return Err(Error::Stale);
        }
        if kind.is_none() {
            let place = DamageLocation::Inode(inode.nr());
            return Err(Corrupt::new(place, "inode", CorruptKind::FileType).into());
        }
        Ok(())
    }

    /// The root directory.
    ///
    /// # Errors
    /// `Corrupt` when it is free or no directory.
    pub(crate) fn root(&self) -> Result<InodeRef> {
        let bad = |problem| {
            let place = match self.inodes.location(&self.space, InodeNr::ROOT) {
                Ok((block, _)) => DamageLocation::InodeBlock(InodeNr::ROOT, block),
                Err(_) => DamageLocation::Inode(InodeNr::ROOT),
            };
            Error::Corrupt(Corrupt::new(place, "root directory", problem))
        };
        match self.inode(InodeNr::ROOT) {
            Err(Error::Stale) => Err(bad(CorruptKind::InodeFree)),
            Ok(root) if !root.is_dir() => Err(bad(CorruptKind::NoDirectory)),
            other => other,
        }
    }
}
