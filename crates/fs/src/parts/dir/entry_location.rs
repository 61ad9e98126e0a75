//! The block of an entry that was found, for a change of it.

use crate::cache::meta::MetaBlock;
use crate::state::inode::InodeRef;
use uext4_format::InodeNr;
use uext4_format::dirent::Location;
use uext4_sync::Arc;

/// The block of an entry of inode `nr`; valid while `index` is held, or its version is unchanged.
pub(crate) struct EntryLocation {
    pub(super) block: Arc<MetaBlock>,
    pub(super) nr: InodeNr,
    /// Location of the entry, with `BlockState::changes` at that time; `None` if the block
    /// was not searched, as for a dentry, whose inode is in use.
    pub(super) seen: Option<(Location, u32)>,
}

impl EntryLocation {
    /// True when the inode is known to be in use.
    pub(super) fn is_served(&self) -> bool {
        self.seen.is_none()
    }

    /// True when the block did not change between two lookups, `before` and this.
    pub(super) fn is_unchanged(&self, before: &Self) -> bool {
        let changes = |location: &Self| location.seen.map(|(_, changes)| changes);
        Arc::ptr_eq(&self.block, &before.block)
            && self.nr == before.nr
            && changes(self).is_some()
            && changes(self) == changes(before)
    }
}

/// An inode, and the location of its entry.
pub(super) type FoundEntry = (InodeRef, Option<EntryLocation>);
