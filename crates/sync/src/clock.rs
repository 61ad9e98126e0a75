//! Time sources: the system's clock and a manual one.
//!
//! Code that stamps inodes or times commits holds an `Arc<dyn Clock>`, so that a whole run can be
//! reproduced from one seed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use uext4_num::{clamp_i64, low_u32, nonnegative};

const NS: i64 = 1_000_000_000;

/// A point of wall time since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Whole seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanoseconds: u32,
}

/// A source of time; shared by all threads.
pub trait Clock: Send + Sync {
    /// Time since 1970, for timestamps; may be set back.
    fn wall(&self) -> WallTime;
    /// Time since some fixed moment; never runs backwards.
    fn monotonic(&self) -> Duration;
    /// CPU time of the calling thread, in user and kernel mode. Only differences between two values
    /// of one thread have a meaning. Costs a system call, which [`Self::monotonic`] does not.
    fn of_thread(&self) -> Duration;
}

/// The system's clock; in a simulation, the virtual time. Its wall time moves in ticks, as that of
/// the kernel's file systems does, so its timestamps are comparable with those of the kernel's
/// caches.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Tick of the wall time in a simulation: that of a kernel with 250 ticks per second.
#[cfg(simulated)]
const TICK: Duration = Duration::from_millis(4);

/// Wall time in a simulation, which begins at the same moment each time.
#[cfg(simulated)]
fn simulated_wall(now: Duration) -> WallTime {
    const START_NS: i64 = 1_700_000_000 * NS;
    let ticks = now.as_nanos() / TICK.as_nanos();
    from_ns(START_NS.saturating_add(clamp_i64(ticks * TICK.as_nanos())))
}

impl Clock for RealClock {
    fn wall(&self) -> WallTime {
        #[cfg(simulated)]
        if let Some(now) = crate::simulation::now() {
            return simulated_wall(now);
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        WallTime {
            seconds: now.tv_sec,
            // The kernel returns less than a second's worth.
            nanoseconds: low_u32(now.tv_nsec.cast_unsigned()),
        }
    }
    fn monotonic(&self) -> Duration {
        #[cfg(simulated)]
        if let Some(now) = crate::simulation::now() {
            return now;
        }
        self.start.elapsed()
    }
    fn of_thread(&self) -> Duration {
        #[cfg(simulated)]
        if let Some(now) = crate::simulation::now() {
            return now;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // The kernel returns no negative time, and less than a second's worth of nanoseconds.
        Duration::new(
            time.tv_sec.unsigned_abs(),
            low_u32(time.tv_nsec.unsigned_abs()),
        )
    }
}

/// A clock that moves only by [`Self::advance`].
#[derive(Debug)]
pub struct ManualClock {
    start_ns: i64,
    now_ns: AtomicI64,
}

impl ManualClock {
    /// A stopped clock at `start` (between the years 1678 and 2262).
    pub fn new(start: WallTime) -> Self {
        let start_ns = start
            .seconds
            .saturating_mul(NS)
            .saturating_add(start.nanoseconds.into());
        Self {
            start_ns,
            now_ns: AtomicI64::new(start_ns),
        }
    }
    /// Moves the clock forward by `by`.
    pub fn advance(&self, by: Duration) {
        self.now_ns
            .fetch_add(clamp_i64(by.as_nanos()), Ordering::AcqRel);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> WallTime {
        from_ns(self.now_ns.load(Ordering::Acquire))
    }
    fn monotonic(&self) -> Duration {
        let ns = self
            .now_ns
            .load(Ordering::Acquire)
            .saturating_sub(self.start_ns);
        Duration::from_nanos(nonnegative(ns))
    }
    /// Every thread has a processor all the time.
    fn of_thread(&self) -> Duration {
        self.monotonic()
    }
}

fn from_ns(ns: i64) -> WallTime {
    WallTime {
        seconds: ns.div_euclid(NS),
        nanoseconds: low_u32(ns.rem_euclid(NS).cast_unsigned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_until_told() {
        let start = WallTime {
            seconds: -2,
            nanoseconds: 500_000_000,
        };
        let clock = ManualClock::new(start);
        assert_eq!((clock.wall(), clock.monotonic()), (start, Duration::ZERO));
        clock.advance(Duration::from_millis(700));
        assert_eq!(
            clock.wall(),
            WallTime {
                seconds: -1,
                nanoseconds: 200_000_000
            }
        );
        assert_eq!(clock.monotonic(), Duration::from_millis(700));
    }

    #[test]
    fn the_real_clock_is_past_this_codes_birth_and_never_runs_backwards() {
        let clock = RealClock::new();
        let (wall, monotonic) = (clock.wall(), clock.monotonic());
        assert!(wall.seconds > 1_700_000_000 && wall.nanoseconds < NS as u32);
        assert!(clock.monotonic() >= monotonic);
    }

    #[test]
    fn the_time_of_a_thread_moves_while_it_works_and_not_while_another_does() {
        const WORK: Duration = Duration::from_millis(50);
        let clock = RealClock::new();
        let work = move || {
            let begin = clock.of_thread();
            while clock.of_thread() - begin < WORK {
                std::hint::spin_loop();
            }
        };
        let begin = clock.of_thread();
        std::thread::spawn(work).join().expect("it ends");
        let waited = clock.of_thread() - begin;
        assert!(waited < WORK / 2, "{waited:?}");
    }
}
