//! Inodes that no name may lead to: reserved numbers, files of the file system itself, and inodes
//! that hold the value of an attribute.
//!
//! Invariants: fixed while mounted. A change of these numbers (`tune`) ends with an unmount.
//! References: kernel documentation, "Special inodes".

use super::Inode;
use crate::{Error, Result};
use uext4_format::{Corrupt, Feature, Geometry, InodeNr, Place, Superblock};

/// Numbers of inodes that belong to the file system itself.
pub(crate) struct HiddenInodes {
    /// Numbers below are reserved, but for the root.
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

    /// True for a reserved number and for a file of the file system itself.
    pub(crate) fn contains(&self, nr: InodeNr) -> bool {
        self.is_special(nr) || self.is_journal(nr)
    }

    fn is_special(&self, nr: InodeNr) -> bool {
        (nr.0 < self.first_inode && nr != InodeNr::ROOT) || self.files.contains(&nr.0)
    }

    /// True for the journal. One with an ordinary number may have the name `/.journal`, as
    /// `tune2fs -j` gives it on a mounted file system.
    pub(crate) fn is_journal(&self, nr: InodeNr) -> bool {
        nr.0 == self.journal
    }

    /// Refuses what a name must not lead to.
    ///
    /// # Errors
    /// `Corrupt`; `NotPermitted` for a journal that may have a name.
    pub(super) fn refuse(&self, inode: &Inode) -> Result<()> {
        let nr = inode.nr();
        let problem = if self.is_special(nr) {
            "a name leads to it, but it belongs to the file system itself"
        } else if inode.holds_value() {
            "a name leads to it, but it holds the value of an attribute"
        } else if self.is_journal(nr) {
            return Err(Error::NotPermitted);
        } else {
            return Ok(());
        };
        Err(Corrupt::new(Place::Inode(nr), "inode", problem).into())
    }
}
