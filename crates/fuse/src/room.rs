//! How much room is left, when the kernel holds written data back.
//!
//! It tells a writer "done" before it brings the data. While less room is left than it may hold,
//! that could be untrue: so who writes is made to ask first (`server/scarce.rs`).
//!
//! Layout: looking costs a sum over all processors, so it is done again after so many bytes were
//! written that the answer may be another one. Threads count them apart, each its share.
//! References: kernel doc `admin-guide/sysctl/vm.rst` (`dirty_ratio`) and
//! `ABI/testing/sysfs-class-bdi` (`max_ratio`: 1 % for FUSE).

use uext4::{Room, Writers};
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

/// The kernel holds 1 % of 20 % of the memory that it can spare; more is for other settings.
const PART_OF_MEMORY: u64 = 256;
const HELD_BYTES_MIN: u64 = 32 << 20;
/// What the kernel may hold where that is little beside the room that is left: writers are slowed
/// down less.
pub(crate) const MORE_PERCENT: u32 = 3;
/// So little: one part in this many.
const ROOMY: u64 = 4;
/// Looked at least this often, since room is not taken by writing only.
const STEP_BYTES_MAX: i64 = 16 << 20;

/// For whom room is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scarce {
    Nobody,
    /// Not for those who may use the reserve.
    Users,
    All,
}

/// See the module.
pub(crate) struct Gauge {
    /// What the kernel may hold; 0 when it holds nothing.
    held_bytes_max: AtomicU64,
    /// Bytes to be written until the next look, by shard.
    unseen_bytes: Sharded<AtomicI64>,
    scarce: AtomicU8,
}

impl Gauge {
    /// For a kernel that holds data back.
    pub(crate) fn new() -> Self {
        Self::holding((memory_bytes() / PART_OF_MEMORY).max(HELD_BYTES_MIN))
    }

    /// For one that does not.
    pub(crate) fn idle() -> Self {
        Self {
            held_bytes_max: AtomicU64::new(0),
            unseen_bytes: Sharded::new(|_| AtomicI64::new(0)),
            scarce: AtomicU8::new(Scarce::Nobody as u8),
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

    /// Whether the kernel may hold [`MORE_PERCENT`].
    pub(crate) fn is_roomy(&self, room: Room) -> bool {
        let held = self.held_bytes_max();
        held > 0 && room.users_bytes / ROOMY >= held * u64::from(MORE_PERCENT)
    }

    /// The kernel holds [`MORE_PERCENT`] from now on; once at most.
    pub(crate) fn expect_more(&self) {
        let held = self.held_bytes_max() * u64::from(MORE_PERCENT);
        self.held_bytes_max.store(held, Ordering::Relaxed);
        self.set_unseen_bytes(0);
    }

    fn set_unseen_bytes(&self, bytes: i64) {
        let share = bytes / self.unseen_bytes.iter().count() as i64;
        let shards = self.unseen_bytes.iter();
        shards.for_each(|shard| shard.store(share, Ordering::Relaxed));
    }

    /// Whether room is scarce for somebody.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::SeqCst) != Scarce::Nobody as u8
    }

    /// Whether room is scarce for such a writer.
    pub(crate) fn is_scarce_for(&self, writer: Writers) -> bool {
        let enough = match writer {
            Writers::Users => Scarce::Nobody,
            Writers::Privileged => Scarce::Users,
        };
        self.scarce.load(Ordering::SeqCst) > enough as u8
    }

    /// So many bytes were written. True when room became scarce for somebody for whom it was not.
    pub(crate) fn note(&self, bytes: u64, room: impl FnOnce() -> Room) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let looks = || {
            let unseen = self.unseen_bytes.local();
            unseen.fetch_sub(bytes, Ordering::Relaxed) <= bytes || self.is_scarce()
        };
        self.held_bytes_max() > 0 && looks() && self.look(room)
    }

    /// Looks now; as [`Self::note`].
    pub(crate) fn look(&self, room: impl FnOnce() -> Room) -> bool {
        let held = self.held_bytes_max();
        if held == 0 {
            return false;
        }
        let room = room();
        // What was scarce is so until some more is there.
        let needs = |now| match self.scarce.load(Ordering::SeqCst) >= now as u8 {
            true => held + held / 4,
            false => held,
        };
        let scarce = if room.all_bytes < needs(Scarce::All) {
            Scarce::All
        } else if room.users_bytes < needs(Scarce::Users) {
            Scarce::Users
        } else {
            Scarce::Nobody
        };
        let spare = i64::try_from(room.users_bytes.saturating_sub(held)).unwrap_or(i64::MAX);
        let step = (spare / 4).min(STEP_BYTES_MAX);
        self.set_unseen_bytes(step);
        self.scarce.swap(scarce as u8, Ordering::SeqCst) < scarce as u8
    }
}

fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(system.mem_unit.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(users_bytes: u64, all_bytes: u64) -> impl Fn() -> Room {
        move || Room {
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
        assert!(!gauge.look(room(1000, 1000)) && scarce(&gauge) == (false, false));
        assert!(gauge.look(room(99, 120)) && scarce(&gauge) == (true, false));
        assert!(!gauge.look(room(99, 120)));
        assert!(gauge.look(room(0, 99)) && scarce(&gauge) == (true, true));
        assert!(!gauge.look(room(99, 110)) && scarce(&gauge) == (true, true));
        assert!(!gauge.look(room(124, 125)) && scarce(&gauge) == (true, false));
        assert!(!gauge.look(room(125, 125)) && !gauge.is_scarce());
    }

    #[test]
    fn it_is_looked_at_again_before_what_is_there_can_be_gone() {
        let gauge = Gauge::holding(100);
        let much = 100 + 800 * gauge.unseen_bytes.iter().count() as u64;
        assert!(!gauge.note(1, room(much, much)));
        // One thread's share of a quarter of what is too much.
        assert!(!gauge.note(199, || unreachable!("too early")));
        assert!(gauge.note(1, room(50, 50)));
        assert!(!gauge.note(1, room(much, much)) && !gauge.is_scarce());
    }

    #[test]
    fn more_is_held_where_there_is_room_for_it() {
        let gauge = Gauge::holding(100);
        assert!(!gauge.is_roomy(room(1199, 2000)()) && gauge.is_roomy(room(1200, 1200)()));
        assert!(!gauge.look(room(299, 299)));
        gauge.expect_more();
        assert!(gauge.note(1, room(299, 299)) && scarce(&gauge) == (true, true));
        assert!(!Gauge::idle().is_roomy(room(u64::MAX, u64::MAX)()));
    }

    #[test]
    fn where_nothing_is_held_nothing_is_scarce() {
        let gauge = Gauge::idle();
        assert!(!gauge.look(room(0, 0)) && !gauge.note(1 << 60, room(0, 0)));
        assert!(!gauge.is_scarce() && !gauge.is_scarce_for(Writers::Users));
    }
}
