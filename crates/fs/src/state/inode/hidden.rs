//! Inodes that no name may refer to: reserved numbers, internal files, and value inodes of
//! attributes.
//!
//! Invariants: fixed while mounted. After `tune` changes these numbers, the file system is
//! unmounted.
//! References: kernel documentation, "Special inodes".

use super::Inode;
use crate::types::error::{Error, Result};
use uext4_format::{Corrupt, CorruptKind, Feature, Geometry, InodeNr, Place, Superblock};

/// Numbers of the internal inodes.
pub(crate) struct HiddenInodes {
    /// Lower numbers are reserved, except the root.
    first_inode: u32,
    /// Quota files and the orphan file; 0 for one that is not there.
    files: [u32; 4],
    /// The journal; 0 when it is on another device.
    journal: u32,
}

impl HiddenInodes {
    pub(crate) fn of(superblock: &Superblock, geometry: &Geometry) -> Self {
        let has_journal = superblock.features().has(Feature::HAS_JOURNAL);
        Self {
            first_inode: geometry.first_inode,
            files: [
                superblock.usr_quota_inum,
                superblock.grp_quota_inum,
                superblock.prj_quota_inum,
                superblock.orphan_file_inum,
            ],
            journal: if has_journal {
                superblock.journal_inum
            } else {
                0
            },
        }
    }

    /// Whether the number is reserved or belongs to an internal file.
    pub(crate) fn contains(&self, nr: InodeNr) -> bool {
        self.is_special(nr) || self.is_journal(nr)
    }

    fn is_special(&self, nr: InodeNr) -> bool {
        (nr.0 < self.first_inode && nr != InodeNr::ROOT) || self.files.contains(&nr.0)
    }

    /// Whether the number is the journal's. A journal with an ordinary number may have the name
    /// `/.journal`, which `tune2fs -j` makes on a mounted file system.
    pub(crate) fn is_journal(&self, nr: InodeNr) -> bool {
        nr.0 == self.journal
    }

    /// Refuses inodes that a name must not refer to.
    ///
    /// # Errors
    /// `Corrupt`; `NotPermitted` for a journal that may have a name.
    pub(crate) fn refuse(&self, inode: &Inode) -> Result<()> {
        let nr = inode.nr();
        let problem = if self.is_special(nr) {
            CorruptKind::SpecialNamed
        } else if inode.holds_value() {
            CorruptKind::ValueNamed
        } else if self.is_journal(nr) {
            return Err(Error::NotPermitted);
        } else {
            return Ok(());
        };
        Err(Corrupt::new(Place::Inode(nr), "inode", problem).into())
    }
}
