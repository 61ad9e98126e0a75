//! Release of the space preallocated for a file.

use crate::state::engine::Fs;
use crate::state::inode::Inode;

impl Fs {
    /// Frees the inode's preallocated space, unless the inode is in use again.
    pub(crate) fn discard_unused(&self, inode: &Inode) {
        if inode.is_unused() {
            self.discard_preallocation(inode);
        }
    }

    /// Frees the space preallocated for the next writes to the inode.
    pub(crate) fn discard_preallocation(&self, inode: &Inode) {
        if let Some(held) = inode.preallocation().filter(|held| !held.is_empty()) {
            self.space.discard_preallocation(held);
        }
    }
}
