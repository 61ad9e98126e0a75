//! Size and times of a file that is being written.
//!
//! An executor that maps blocks updates both in its own transaction, as the invariant of the module
//! demands; the end of the write updates what is left.

use super::super::inline;
use super::super::size::Sizes;
use super::super::times::{stale_times, touch};
use super::super::write_out::write_out_locked;
use super::Write;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::credits;
use crate::types::error::Result;
use uext4_format::Timestamp;
use uext4_journal::Object;

/// The file as the write knows it.
pub(super) struct Snapshot {
    pub(super) sizes: Sizes,
    /// The data are in the inode.
    pub(super) inline: bool,
    /// The file ends before the write, inside a block that may hold anything behind the end.
    pub(super) gap: bool,
    /// The times must become those of the write.
    stale: bool,
}

impl Snapshot {
    pub(super) fn new(fs: &Fs, state: &InodeState, start: u64, now: Option<Timestamp>) -> Self {
        let sizes = Sizes::of(state);
        Self {
            sizes,
            inline: inline::is_inline(state),
            gap: start > sizes.seen && !sizes.seen.is_multiple_of(fs.block_bytes()),
            stale: now.is_some_and(|now| stale_times(state, now)),
        }
    }
}

impl Write<'_> {
    /// The sizes with the data up to byte `end`.
    pub(super) fn sizes_at(&self, end: u64) -> Sizes {
        let sizes = self.file.sizes;
        sizes.resized(self.fs, self.buffer, sizes.seen.max(end))
    }

    /// Updates size and times, for data up to byte `end`, in the transaction that logs `state`.
    pub(super) fn store_size_and_times(&mut self, state: &mut InodeState, end: u64) {
        self.file.sizes = self.sizes_at(end);
        self.file.sizes.store(state);
        self.file.stale = false;
        if let Some(now) = self.now {
            touch(state, now);
        }
    }

    /// Updates what the executors have not updated. A size that only users see needs no
    /// transaction.
    pub(super) fn update_size_and_times(&mut self) -> Result<()> {
        let (fs, inode, end) = (self.fs, self.inode, self.at());
        let (before, after) = (self.file.sizes, self.sizes_at(end));
        if after.on_disk != before.on_disk {
            let handle = fs.start_recorded(credits::ATTRIBUTES)?;
            self.store_size_and_times(&mut handle.write(inode), end);
        } else if let Some(now) = self.now.filter(|_| self.file.stale) {
            fs.change_times(inode, now, |state| self.store_size_and_times(state, end))?;
        } else if after != before {
            after.store(&mut inode.live().write_unlogged());
        }
        Ok(())
    }

    /// Writes out the delayed data, which may be of this write: users see those first.
    pub(super) fn write_out_before(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let before = self.file.sizes;
        if self.done > 0 && self.at() > before.seen {
            let seen = self.at();
            Sizes { seen, ..before }.store(&mut self.inode.live().write_unlogged());
        }
        let written = write_out_locked(self.fs, self.inode, self.buffer);
        self.file.sizes = Sizes::of(&self.inode.read());
        written
    }
}
