//! Where the callers of a mount run, for threads that read `/dev/fuse`.
//!
//! A request that its caller's core answers takes two switches; one that another core answers wakes
//! that core's thread, and then the caller. The device does not say where a request comes from, so
//! each thread asks `/proc` for one of many. While all are of one caller, which stays on one core,
//! the *front*, its thread alone takes requests. The others stay awake on their cores: the
//! system would move the caller to one that sleeps, and who sleeps in the device is woken for each
//! request. Several callers keep several threads busy, so they have no front.
//!
//! Invariants: who looks or naps stands back, never who sleeps in the device; and nobody looks on
//! when nothing was taken for one look or nap. So a front that waits for a disk keeps others
//! waiting for no longer than that. What takes long is begun only when there is no front any more.

use super::look::LOOKERS_MAX;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use uext4_sync::CachePadded;

/// No front: whoever looks takes what comes.
const ANYWHERE: usize = usize::MAX;
/// Requests of a thread for each caller that it asks for: that takes several microseconds.
const REQUESTS_PER_SAMPLE: u32 = 64;
/// Requests of the front until it lets a thread that sleeps have one.
const REQUESTS_PER_WAKE: u32 = 8;
/// Samples in a row that are as the one before and make a front: two callers seldom have so many.
const SAME_MIN: usize = 8;
/// How long a thread beside the front sleeps at a time where its core is busy without it.
const NAP: Duration = Duration::from_millis(1);

/// What the threads of a mount know of its callers.
struct Front {
    cpu: AtomicUsize,
    /// The last sample: a caller and its core.
    last: AtomicU64,
    /// Samples in a row that were as the one before.
    n_same: AtomicUsize,
    /// Threads that sleep in the device.
    n_asleep: AtomicUsize,
    /// Requests taken while there is a front, which writes it; others read it once per look.
    n_taken: CachePadded<AtomicUsize>,
    /// Cores that have a thread.
    seats: CpuSet,
}

impl Front {
    fn new(seats: CpuSet) -> Self {
        Self {
            cpu: AtomicUsize::new(ANYWHERE),
            last: AtomicU64::new(u64::MAX),
            n_same: AtomicUsize::new(0),
            n_asleep: AtomicUsize::new(0),
            n_taken: CachePadded::new(AtomicUsize::new(0)),
            seats,
        }
    }

    fn note_caller(&self, caller: u32, cpu: usize) {
        let sample = u64::from(caller) << 32 | cpu as u64 & u64::from(u32::MAX);
        let is_same = self.last.swap(sample, Relaxed) == sample;
        if !is_same || !self.has_seat(cpu) {
            self.scatter();
        } else if self.n_same.fetch_add(1, Relaxed) + 1 >= SAME_MIN {
            self.cpu.store(cpu, Relaxed);
        }
    }

    fn has_seat(&self, cpu: usize) -> bool {
        cpu < CpuSet::MAX_CPU && self.seats.is_set(cpu)
    }

    fn scatter(&self) {
        if self.n_same.load(Relaxed) != 0 {
            self.n_same.store(0, Relaxed);
            self.cpu.store(ANYWHERE, Relaxed);
        }
    }
}

/// The place of one thread.
pub(crate) struct Seat {
    /// `None`: it takes whatever comes, wherever it runs.
    front: Option<Arc<Front>>,
    cpu: usize,
    anywhere: CpuSet,
    is_home: bool,
    n_until_sample: u32,
    /// It is at the front and lets a thread that sleeps have the next request, so that it sleeps no
    /// more.
    stands_back: bool,
}

impl Seat {
    /// A place for a thread that takes whatever comes.
    pub(crate) fn free() -> Self {
        Self {
            front: None,
            cpu: ANYWHERE,
            anywhere: CpuSet::new(),
            is_home: false,
            n_until_sample: REQUESTS_PER_SAMPLE,
            stands_back: false,
        }
    }

    /// Places for the threads of a mount. Callers are followed where each core has a thread and all
    /// may look at the same time: on more cores one always sleeps, and callers are moved there.
    pub(crate) fn for_threads(n_threads: usize) -> Vec<Self> {
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let follows = n_threads == LOOKERS_MAX && n_threads == allowed.count() as usize;
        let front = follows.then(|| Arc::new(Front::new(allowed)));
        let seat = |_| Self {
            front: front.clone(),
            cpu: cpus.next().unwrap_or(ANYWHERE),
            anywhere: allowed,
            ..Self::free()
        };
        (0..n_threads).map(seat).collect()
    }

    fn is_front(&self, front: &Front) -> bool {
        matches!(front.cpu.load(Relaxed), cpu if cpu == ANYWHERE || cpu == self.cpu)
    }

    /// Whether the thread, which looks for a request, may take one.
    pub(super) fn may_take(&mut self) -> bool {
        let Some(front) = &self.front else {
            return true;
        };
        if self.stands_back && front.n_asleep.load(Relaxed) == 0 {
            self.stands_back = false;
        }
        !self.stands_back && self.is_front(front)
    }

    /// Requests taken while there is a front.
    pub(super) fn n_taken(&self) -> usize {
        let front = self.front.as_ref();
        front.map_or(0, |front| front.n_taken.load(Relaxed))
    }

    /// Waits beside the front without the device, which would wake the thread for each request.
    pub(super) fn nap(&self) {
        std::thread::sleep(NAP);
    }

    /// Goes to the thread's core while there is a front.
    pub(super) fn settle(&mut self) {
        let Some(front) = &self.front else { return };
        let has_front = front.cpu.load(Relaxed) != ANYWHERE;
        if has_front == self.is_home {
            return;
        }
        self.is_home = has_front;
        let mut home = CpuSet::new();
        home.set(self.cpu);
        // Where it may not, it runs as before.
        let _ = sched_setaffinity(None, if has_front { &home } else { &self.anywhere });
    }

    /// Sleeps in the device by `sleep`.
    pub(super) fn sleep<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        self.stands_back = false;
        let Some(front) = &self.front else {
            return sleep();
        };
        front.n_asleep.fetch_add(1, Relaxed);
        let slept = sleep();
        front.n_asleep.fetch_sub(1, Relaxed);
        slept
    }

    /// The thread is about to serve what may take long: others take what comes meanwhile.
    pub(super) fn leave(&self) {
        if let Some(front) = &self.front {
            front.scatter();
        }
    }

    /// The thread has served a request of `caller`; `cpu_of` says on which core that runs.
    pub(super) fn note(&mut self, caller: u32, cpu_of: impl FnOnce(u32) -> Option<usize>) {
        let Some(front) = &self.front else { return };
        if front.cpu.load(Relaxed) != ANYWHERE {
            front.n_taken.fetch_add(1, Relaxed);
        }
        self.n_until_sample -= 1;
        if self.n_until_sample == 0 {
            self.n_until_sample = REQUESTS_PER_SAMPLE;
            if let Some(cpu) = cpu_of(caller) {
                front.note_caller(caller, cpu);
            }
        }
        if self.n_until_sample.is_multiple_of(REQUESTS_PER_WAKE) {
            self.stands_back =
                front.cpu.load(Relaxed) == self.cpu && front.n_asleep.load(Relaxed) > 0;
        }
    }
}

/// The core that a thread of the system last ran on, where `/proc` tells.
pub(super) fn cpu_of(thread: u32) -> Option<usize> {
    cpu_in(&std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?)
}

/// The `processor` of a line of `/proc/PID/stat`. Behind the name, which may have spaces, it is the
/// 37th word.
fn cpu_in(stat: &str) -> Option<usize> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads with cores of their own, whatever this machine has.
    fn two_seats() -> [Seat; 2] {
        let mut cpus = CpuSet::new();
        [0, 1].iter().for_each(|&cpu| cpus.set(cpu));
        let front = Arc::new(Front::new(cpus));
        [0, 1].map(|cpu| Seat {
            front: Some(front.clone()),
            cpu,
            ..Seat::free()
        })
    }

    fn serve(seat: &mut Seat, n_samples: usize, cpu: usize) {
        for _ in 0..n_samples * REQUESTS_PER_SAMPLE as usize {
            seat.note(9, |_| Some(cpu));
        }
    }

    fn takers(seats: &mut [Seat; 2]) -> [bool; 2] {
        seats.each_mut().map(Seat::may_take)
    }

    #[test]
    fn a_caller_on_one_core_is_served_there() {
        let mut seats = two_seats();
        assert_eq!(takers(&mut seats), [true, true]);
        serve(&mut seats[0], SAME_MIN, 1);
        assert_eq!(takers(&mut seats), [true, true], "the first is of another");
        serve(&mut seats[0], 1, 1);
        assert_eq!(takers(&mut seats), [false, true]);
        serve(&mut seats[1], 1, 0);
        assert_eq!(takers(&mut seats), [true, true]);
    }

    #[test]
    fn several_callers_are_served_by_all() {
        let mut seats = two_seats();
        for request in 0..4 * SAME_MIN as u32 * REQUESTS_PER_SAMPLE {
            seats[0].note(request / REQUESTS_PER_SAMPLE % 2, |_| Some(1));
            assert_eq!(takers(&mut seats), [true, true]);
        }
    }

    #[test]
    fn callers_on_cores_without_a_thread_are_served_by_all() {
        let mut seats = two_seats();
        for cpu in [7, CpuSet::MAX_CPU, ANYWHERE] {
            serve(&mut seats[0], 2 * SAME_MIN, cpu);
            assert_eq!(takers(&mut seats), [true, true]);
        }
    }

    #[test]
    fn what_takes_long_leaves_no_front() {
        let mut seats = two_seats();
        serve(&mut seats[0], 2 * SAME_MIN, 1);
        assert_eq!(takers(&mut seats), [false, true]);
        seats[1].leave();
        assert_eq!(takers(&mut seats), [true, true]);
        serve(&mut seats[1], SAME_MIN - 1, 1);
        assert_eq!(takers(&mut seats), [true, true]);
    }

    #[test]
    fn who_sleeps_beside_the_front_is_woken_by_one_request() {
        let [mut first, mut second] = two_seats();
        serve(&mut first, 2 * SAME_MIN, 0);
        second.sleep(|| {
            assert!(first.may_take());
            serve(&mut first, 1, 0);
            assert!(!first.may_take());
        });
        assert!(first.may_take() && !second.may_take());
    }

    #[test]
    fn a_caller_is_found() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5 6 7 8 9 10 11 12 \
                    13 14 15 16 17 18 19 20 17 3 0 0";
        assert_eq!(cpu_in(line), Some(3));
        assert_eq!(cpu_in("7 (a) S 1"), None);
        let allowed = sched_getaffinity(None).expect("it may look");
        let here = (0..CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu));
        let mut home = CpuSet::new();
        home.set(here.expect("it runs"));
        sched_setaffinity(None, &home).expect("it may stay");
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(cpu_of(thread.cast_unsigned()), here);
        assert_eq!(cpu_of(0), None);
    }
}
