//! Inodes in use are charged to their owners.

use crate::state::{Check, Step};
use crate::usages::{BYTES_PER_OWNER, Usage};
use uext4_format::{Inode, InodeFlags, InodeNr};
use uext4_num::u64_of;

impl Check<'_> {
    /// Counts an inode in use for its owners, with values of attributes in inodes of their own.
    pub(crate) fn charge(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
        clusters: u64,
        values: u64,
    ) -> Step {
        if self.usages.are_none() || !self.is_charged(nr, inode) {
            return Ok(());
        }
        let usage = Usage {
            inodes: values.saturating_add(1),
            bytes: clusters.saturating_mul(self.geometry.cluster_size()),
        };
        let n_new = self.usages.add(inode, usage);
        self.take_owners(n_new)
    }

    fn is_charged(&self, nr: InodeNr, inode: &Inode) -> bool {
        let disk = self.superblock;
        !self.is_reserved(nr)
            && nr.0 != disk.prj_quota_inum
            && nr.0 != disk.orphan_file_inum
            && !inode.flags.contains(InodeFlags::EA_INODE)
    }

    /// Counts the memory of owners that are new.
    pub(crate) fn take_owners(&mut self, n_new: usize) -> Step {
        let Some(trial) = &mut self.trial else {
            return self.take(u64_of(n_new) * BYTES_PER_OWNER);
        };
        if trial.put_owners(n_new) {
            return Ok(());
        }
        self.end_trial()
    }
}
