//! Free-space gauge for the write-back cache.
//!
//! The kernel completes a write before it sends the data. While the free space is less than the
//! kernel may hold in dirty pages, a completed write may fail later, so writers must ask first
//! (`server/enospc.rs`).
//!
//! Layout: a check of the free space sums over all CPUs. It is repeated only after enough bytes
//! were written to change the result. Each thread shard counts down its share of these bytes.
//! References: kernel doc `admin-guide/sysctl/vm.rst` (`dirty_ratio`) and
//! `ABI/testing/sysfs-class-bdi` (`max_ratio`: 1 % for FUSE).

use uext4::{FreeSpace, Writers};
use uext4_num::clamp_i64;
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

/// The kernel's dirty limit is 1 % of 20 % of the available memory, 1/500. This larger share of the
/// total memory leaves a margin for other settings.
const PART_OF_MEMORY: u64 = 256;
const HELD_BYTES_MIN: u64 = 32 << 20;
/// Dirty limit in percent while it is small relative to the free space; a higher limit throttles
/// writers less.
pub(crate) const MORE_PERCENT: u32 = 3;
/// Minimum ratio of free space to that limit.
const ROOMY: u64 = 4;
/// Maximum bytes between two checks, since free space shrinks not only by writes.
const STEP_BYTES_MAX: i64 = 16 << 20;

/// Writers for which space is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scarce {
    None,
    /// Writers without access to the reserved blocks.
    Users,
    All,
}

impl Scarce {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    fn number(self) -> u8 {
        self as u8
    }
}

/// Free-space gauge; see the module.
pub(crate) struct Gauge {
    /// Maximum dirty bytes in the kernel; 0 without write-back cache.
    held_bytes_max: AtomicU64,
    /// Bytes left to write before the next check, per shard.
    unseen_bytes: Sharded<AtomicI64>,
    scarce: AtomicU8,
}

impl Gauge {
    /// A gauge for a mount with write-back cache.
    pub(crate) fn new() -> Self {
        Self::holding((memory_bytes() / PART_OF_MEMORY).max(HELD_BYTES_MIN))
    }

    /// A gauge that never reports scarcity.
    pub(crate) fn idle() -> Self {
        Self {
            held_bytes_max: AtomicU64::new(0),
            unseen_bytes: Sharded::new(|_| AtomicI64::new(0)),
            scarce: AtomicU8::new(Scarce::None.number()),
        }
    }

    fn holding(bytes: u64) -> Self {
        Self {
            held_bytes_max: AtomicU64::new(bytes),
            ..Self::idle()
        }
    }

    fn held_bytes_max(&self) -> u64 {
        self.held_bytes_max.load(Ordering::Relaxed)
    }

    /// Whether the free space allows a dirty limit of [`MORE_PERCENT`].
    pub(crate) fn is_roomy(&self, room: FreeSpace) -> bool {
        let held = self.held_bytes_max();
        held > 0 && room.users_bytes / ROOMY >= held * u64::from(MORE_PERCENT)
    }

    /// Accounts for a dirty limit of [`MORE_PERCENT`]. Called at most once.
    pub(crate) fn assume_larger_limit(&self) {
        let held = self.held_bytes_max() * u64::from(MORE_PERCENT);
        self.held_bytes_max.store(held, Ordering::Relaxed);
        self.set_unseen_bytes(0);
    }

    fn set_unseen_bytes(&self, bytes: i64) {
        let share = bytes / clamp_i64(self.unseen_bytes.iter().count());
        let shards = self.unseen_bytes.iter();
        shards.for_each(|shard| shard.store(share, Ordering::Relaxed));
    }

    /// Whether space is scarce for any writer.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::SeqCst) != Scarce::None.number()
    }

    /// Whether space is scarce for this class of writers.
    pub(crate) fn is_scarce_for(&self, writer: Writers) -> bool {
        let enough = match writer {
            Writers::Users => Scarce::None,
            Writers::Named | Writers::Privileged => Scarce::Users,
        };
        self.scarce.load(Ordering::SeqCst) > enough.number()
    }

    /// Accounts for `bytes` written bytes. Returns true if scarcity increased.
    pub(crate) fn count_written(&self, bytes: u64, room: impl FnOnce() -> FreeSpace) -> bool {
        if self.held_bytes_max() == 0 {
            return false;
        }
        let bytes = clamp_i64(bytes);
        let unseen = self.unseen_bytes.local();
        let is_due = unseen.fetch_sub(bytes, Ordering::Relaxed) <= bytes || self.is_scarce();
        is_due && self.check_now(room)
    }

    /// Checks the free space at once; returns as [`Self::count_written`].
    pub(crate) fn check_now(&self, room: impl FnOnce() -> FreeSpace) -> bool {
        let held = self.held_bytes_max();
        if held == 0 {
            return false;
        }
        let room = room();
        // Hysteresis: scarcity ends only with 25 % more space. For example, a program at the limit
        // writes and deletes a file in turn: without it, each round would invalidate the attributes
        // of all writers.
        let needs = |now: Scarce| {
            if self.scarce.load(Ordering::SeqCst) >= now.number() {
                held + held / 4
            } else {
                held
            }
        };
        let scarce = if room.all_bytes < needs(Scarce::All) {
            Scarce::All
        } else if room.users_bytes < needs(Scarce::Users) {
            Scarce::Users
        } else {
            Scarce::None
        };
        let spare = clamp_i64(room.users_bytes.saturating_sub(held));
        let step = (spare / 4).min(STEP_BYTES_MAX);
        self.set_unseen_bytes(step);
        self.scarce.swap(scarce.number(), Ordering::SeqCst) < scarce.number()
    }
}

fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(system.mem_unit.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(users_bytes: u64, all_bytes: u64) -> impl Fn() -> FreeSpace {
        move || FreeSpace {
            users_bytes,
            all_bytes,
        }
    }

    fn scarce(gauge: &Gauge) -> (bool, bool) {
        let all = gauge.is_scarce_for(Writers::Privileged);
        (gauge.is_scarce_for(Writers::Users), all)
    }

    #[test]
    fn what_became_scarce_is_told_once_and_ends_later() {
        let gauge = Gauge::holding(100);
        assert!(!gauge.check_now(room(1000, 1000)) && scarce(&gauge) == (false, false));
        assert!(gauge.check_now(room(99, 120)) && scarce(&gauge) == (true, false));
        assert!(!gauge.check_now(room(99, 120)));
        assert!(gauge.check_now(room(0, 99)) && scarce(&gauge) == (true, true));
        assert!(!gauge.check_now(room(99, 110)) && scarce(&gauge) == (true, true));
        assert!(!gauge.check_now(room(124, 125)) && scarce(&gauge) == (true, false));
        assert!(!gauge.check_now(room(125, 125)) && !gauge.is_scarce());
    }

    #[test]
    fn it_is_looked_at_again_before_what_is_there_can_be_gone() {
        let gauge = Gauge::holding(100);
        let much = 100 + 800 * gauge.unseen_bytes.iter().count() as u64;
        assert!(!gauge.count_written(1, room(much, much)));
        // One thread's share of a quarter of the excess.
        assert!(!gauge.count_written(199, || unreachable!("too early")));
        assert!(gauge.count_written(1, room(50, 50)));
        assert!(!gauge.count_written(1, room(much, much)) && !gauge.is_scarce());
    }

    #[test]
    fn more_is_held_where_there_is_room_for_it() {
        let gauge = Gauge::holding(100);
        assert!(!gauge.is_roomy(room(1199, 2000)()) && gauge.is_roomy(room(1200, 1200)()));
        assert!(!gauge.check_now(room(299, 299)));
        gauge.assume_larger_limit();
        assert!(gauge.count_written(1, room(299, 299)) && scarce(&gauge) == (true, true));
        assert!(!Gauge::idle().is_roomy(room(u64::MAX, u64::MAX)()));
    }

    #[test]
    fn where_nothing_is_held_nothing_is_scarce() {
        let gauge = Gauge::idle();
        assert!(!gauge.check_now(room(0, 0)) && !gauge.count_written(1 << 60, room(0, 0)));
        assert!(!gauge.is_scarce() && !gauge.is_scarce_for(Writers::Users));
    }
}
