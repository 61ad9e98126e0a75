//! Times of a file whose data change.

use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use uext4_format::Timestamp;

/// Granularity of timestamps in nanoseconds, as the kernel's clock tick: changes within one tick
/// share a timestamp.
const TICK_NS: u32 = 4_000_000;

/// Effect of a change of data on the file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The times become the time of the change.
    Change,
    /// The times stay: the caller sets them itself.
    Keep,
}

impl Times {
    pub(super) fn now(self, fs: &Fs) -> Option<Timestamp> {
        (self == Self::Change).then(|| fs.now())
    }
}

/// Whether a change at `now` must update the times: they are not of this tick.
pub(super) fn stale_times(state: &InodeState, now: Timestamp) -> bool {
    let now = state.disk.stored(now);
    let tick = Timestamp {
        nanoseconds: now.nanoseconds / TICK_NS * TICK_NS,
        ..now
    };
    let recent = |time: Timestamp| time >= tick && time <= now;
    !recent(state.disk.mtime) || !recent(state.disk.ctime)
}

/// Updates the times after a change of the data.
pub(super) fn touch(state: &mut InodeState, now: Timestamp) {
    if stale_times(state, now) {
        state.disk.set_mtime(now);
        state.disk.set_ctime(now);
    }
}
