//! Collects orphans: a deleted orphan may be marked in use, and its deletion time may be a link of
//! the orphan list.

use crate::{Check, Step};
use std::collections::BTreeSet;
use uext4_format::{InodeNr, RawInode, superblock::state};
use uext4_num::u64_of;

/// Memory for each, in bytes.
const BYTES_EACH: u64 = 16;

impl Check<'_> {
    /// Collects them. With the error state set, neither a mount nor e2fsck frees any.
    pub(crate) fn find_orphans(&mut self) -> Step {
        let (marked, last) = (self.superblock.state, self.superblock.last_orphan);
        if marked & state::ERROR != 0 {
            return Ok(());
        }
        let mut found: BTreeSet<u32> = self.orphan_file.iter().map(|nr| nr.0).collect();
        self.take(u64_of(found.len()) * BYTES_EACH)?;
        let (mut next, mut met) = (last, BTreeSet::new());
        while self.may_be_orphan(next) && met.insert(next) {
            self.take(BYTES_EACH)?;
            let Some(inode) = self.read_inode(InodeNr(next))? else {
                break;
            };
            next = RawInode(&inode).dtime();
        }
        found.append(&mut met);
        self.orphans = found;
        Ok(())
    }

    fn may_be_orphan(&self, nr: u32) -> bool {
        nr >= self.geometry.first_inode && self.geometry.contains_inode(InodeNr(nr))
    }

    pub(crate) fn is_orphan(&self, nr: InodeNr) -> bool {
        self.orphans.contains(&nr.0)
    }
}
