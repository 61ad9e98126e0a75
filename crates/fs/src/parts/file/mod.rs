//! Data of regular files, and targets of symbolic links.
//!
//! There is no page cache: reads and writes go directly to the device, except new data with delayed
//! allocation (`delayed`). Data are written to reserved blocks first; then one handle sets the
//! bitmap bits, maps the blocks and updates the size. A crash therefore never exposes stale block
//! contents, and `data=ordered` needs no extra write.
//!
//! Invariants: the bytes behind the size in the last block are zero on disk; a shrink zeroes them,
//! and a change that moves the size up past a partial block zeroes its tail first. A commit never
//! contains written extents behind the size on disk; unwritten ones are allowed.
//!
//! Locking: `Inode::io` shared to read, exclusive to change; it keeps blocks from being freed under
//! a reader. The state's lock is held for lookups only, not during data I/O.
//!
//! Not here: permissions, setuid bits, waiting for durability (`ops`).

mod allocate;
mod balance;
mod delay;
mod fallocate;
mod fiemap;
mod inline;
mod io;
mod lost_flush;
mod preallocation;
mod read;
mod seek;
mod shift;
mod size;
mod symlink;
#[cfg(test)]
mod tests;
mod truncate;
mod whole_blocks;
mod window;
mod write;
mod write_out;

pub(crate) use delay::{discard_delayed, renew_age};
pub use fallocate::FallocateMode;
pub(crate) use fallocate::fallocate;
pub use fiemap::Extent;
pub(crate) use fiemap::fiemap;
pub(crate) use inline::{clear as leave_inode, init as init_inline};
use lost_flush::lost;
pub use read::FileRange;
pub(crate) use read::{read, read_in_place};
pub use seek::Seek;
pub(crate) use seek::seek;
pub(crate) use symlink::{is_fast_link, read_link, write_link};
pub(crate) use truncate::{can_be_cut, finish_truncate, free_all_blocks, truncate};
pub(crate) use whole_blocks::{append_zeroes, cut_to};
pub use write::{Position, Written};
pub(crate) use write::{check_position, check_room, write};
pub(crate) use write_out::{close, hold_for_owners, write_out, write_out_and_tell, write_out_some};

use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::space::Reserve;
use crate::types::attr::Checks;
use crate::types::error::{Error, Result};
use uext4_format::{FileType, InodeFlags, Timestamp};

/// Effect of a change of data on the file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The times become the time of the change.
    Change,
    /// The times stay: the caller sets them itself.
    Keep,
}

impl Times {
    fn now(self, fs: &Fs) -> Option<Timestamp> {
        (self == Self::Change).then(|| fs.now())
    }
}

/// Terms of a change of data.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) reserve: Reserve,
    pub(crate) times: Times,
    /// Whether immutable and append-only files refuse it here.
    pub(crate) checks: Checks,
}

impl Terms {
    /// Those of a change by the engine itself, or by a test.
    pub(crate) const OWN: Self = Self {
        reserve: Reserve::MayUse,
        times: Times::Change,
        checks: Checks::Done,
    };
}

/// Granularity of timestamps in nanoseconds, as the kernel's clock tick: changes within one tick
/// share a timestamp.
const TICK_NS: u32 = 4_000_000;

/// Refuses encrypted files, since there is no key.
fn check_not_encrypted(state: &InodeState) -> Result<()> {
    if state.disk.flags.contains(InodeFlags::ENCRYPT) {
        Err(Error::NoKey)
    } else {
        Ok(())
    }
}

/// Refuses inodes other than regular files.
pub(crate) fn check_regular(state: &InodeState) -> Result<()> {
    match state.disk.file_type() {
        // Loading refuses an inode in use without a type.
        Some(FileType::Regular) | None => Ok(()),
        Some(FileType::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

/// Refuses changes of files that fs-verity sealed.
fn check_may_change(state: &InodeState) -> Result<()> {
    check_not_encrypted(state)?;
    if state.disk.flags.contains(InodeFlags::VERITY) {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// Whether a change at `now` must update the times: they are not of this tick.
fn stale_times(state: &InodeState, now: Timestamp) -> bool {
    let now = state.disk.stored(now);
    let tick = Timestamp {
        nanoseconds: now.nanoseconds / TICK_NS * TICK_NS,
        ..now
    };
    let recent = |time: Timestamp| time >= tick && time <= now;
    !recent(state.disk.mtime) || !recent(state.disk.ctime)
}

/// Updates the times after a change of the data.
fn touch(state: &mut InodeState, now: Timestamp) {
    if stale_times(state, now) {
        state.disk.set_mtime(now);
        state.disk.set_ctime(now);
    }
}
