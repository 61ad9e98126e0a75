//! Baseline of inode allocation, for experiments: a clear bit is found without a lock, the journal
//! gets the bitmap, and the bit is tested and set under the group's lock. If another thread was
//! faster, the search goes on.
//!
//! All threads begin at the first inode of the directory's group, so they race for the same bits.

use super::Space;
use super::group::Group;
use crate::state::base::Base;
use crate::types::error::Result;
use uext4_alloc::InodeBits;
use uext4_format::{FileType, GroupNr, InodeNr};
use uext4_journal::Handle;

impl Space {
    /// Allocates an inode of this group; `None` if all are in use.
    pub(super) fn take_racing(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        (nr, group, bits): (GroupNr, &Group, &InodeBits),
        kind: FileType,
    ) -> Result<Option<InodeNr>> {
        let mut from = self.first_index(nr);
        while let Some(index) = bits.first_clear(from) {
            handle.touch(&group.inodes);
            let is_mine = {
                let _lock = handle.write(&group.inodes);
                bits.set(index)
            };
            if is_mine {
                self.took(base, handle, nr, index, kind)?;
                return Ok(Some(self.geometry().inode_at(nr, index)));
            }
            from = index + 1;
        }
        self.policy.counts().report_full(nr);
        Ok(None)
    }
}
