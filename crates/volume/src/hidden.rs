//! Inodes that no name may refer to, by number: reserved numbers and internal files.
//!
//! Invariants: fixed while mounted. After `tune` changes these numbers, the file system is
//! unmounted.
//! References: kernel documentation, "Special inodes".

use uext4_format::{Feature, Geometry, InodeNr, Superblock};

/// Numbers of the internal inodes.
pub struct HiddenInodes {
    /// Lower numbers are reserved, except the root.
    first_inode: u32,
    /// Quota files and the orphan file; 0 for one that is not there.
    files: [u32; 4],
    /// The journal; 0 when it is on another device.
    journal: u32,
}

impl HiddenInodes {
    /// Reads the numbers in the superblock.
    pub fn of(superblock: &Superblock, geometry: &Geometry) -> Self {
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
    pub fn contains(&self, nr: InodeNr) -> bool {
        self.is_special(nr) || self.is_journal(nr)
    }

    /// Whether the number is reserved, or that of a quota file or the orphan file.
    pub fn is_special(&self, nr: InodeNr) -> bool {
        (nr.0 < self.first_inode && nr != InodeNr::ROOT) || self.files.contains(&nr.0)
    }

    /// Whether the number is the journal's. A journal with an ordinary number may have the name
    /// `/.journal`, which `tune2fs -j` makes on a mounted file system.
    pub fn is_journal(&self, nr: InodeNr) -> bool {
        nr.0 == self.journal
    }
}
