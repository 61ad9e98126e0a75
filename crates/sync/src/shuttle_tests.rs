//! Schedules that the model checker tries: `RUSTFLAGS="--cfg shuttle" cargo test -p uext4-sync`.

use crate::atomic::{AtomicU32, Ordering::SeqCst};
use crate::thread;
use crate::{Condvar, Counter, Mutex, Rank, SeqLock};
use crate::{FreezeBarrier, RwLock, RwLockWriteGuard, SequenceCount, Version, VersionedLock};
use std::sync::Arc;

const ITERATIONS: usize = 1000;

/// A hand-over through a condition variable never loses a wake-up.
#[test]
fn a_waiter_sees_every_hand_over() {
    shuttle::check_random(
        || {
            let slot = Arc::new((Mutex::new(Rank::Queue, 0u32), Condvar::new()));
            let producer = {
                let slot = slot.clone();
                thread::spawn(move || {
                    for value in 1..=3 {
                        *slot.0.lock() = value;
                        slot.1.notify_all();
                    }
                })
            };
            let mut value = slot.0.lock();
            while *value < 3 {
                slot.1.wait(&mut value);
            }
            drop(value);
            producer.join().expect("the producer does not panic");
        },
        ITERATIONS,
    );
}

/// No writer comes between an exclusive guard and its downgrade.
#[test]
fn a_downgrade_admits_no_writer_in_between() {
    shuttle::check_random(
        || {
            let lock = Arc::new(RwLock::new(Rank::MetaBlock, 0));
            let threads: Vec<_> = (1..4)
                .map(|id| {
                    let lock = lock.clone();
                    thread::spawn(move || {
                        let mut guard = lock.write();
                        *guard = id;
                        let guard = RwLockWriteGuard::downgrade(guard);
                        thread::yield_now();
                        assert_eq!(*guard, id);
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|t| t.join().expect("no thread panics"));
        },
        ITERATIONS,
    );
}

/// Each thread has its own stack of ranks although the checker runs all on one system thread, and
/// two locks of one rank in ascending order never deadlock.
#[test]
fn ascending_pairs_do_not_deadlock() {
    shuttle::check_random(
        || {
            let locks: Arc<[RwLock<u32>; 3]> =
                Arc::new(std::array::from_fn(|_| RwLock::new(Rank::InodeState, 0)));
            let threads: Vec<_> = [(0, 1), (1, 2), (0, 2)]
                .into_iter()
                .map(|(a, b)| {
                    let locks = locks.clone();
                    thread::spawn(move || {
                        let mut first = locks[a].write_ordered(a as u64);
                        let mut second = locks[b].write_ordered(b as u64);
                        *first += 1;
                        *second += 1;
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|t| t.join().expect("no thread panics"));
            assert_eq!(locks.iter().map(|lock| *lock.read()).sum::<u32>(), 6);
        },
        ITERATIONS,
    );
}

/// A closed freeze barrier is empty, and its waiters continue when it opens.
#[test]
fn a_closed_barrier_is_empty() {
    shuttle::check_random(
        || {
            let shared = Arc::new((FreezeBarrier::default(), AtomicU32::new(0)));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let _pass = shared.0.enter();
                        shared.1.fetch_add(1, SeqCst);
                        thread::yield_now();
                        shared.1.fetch_sub(1, SeqCst);
                    })
                })
                .collect();
            shared.0.close();
            assert_eq!(shared.1.load(SeqCst), 0);
            thread::yield_now();
            assert_eq!(shared.1.load(SeqCst), 0);
            shared.0.open();
            threads
                .into_iter()
                .for_each(|t| t.join().expect("no thread panics"));
        },
        ITERATIONS,
    );
}

/// Threads that divide parts never meet one that holds the lock shared.
#[test]
fn what_is_held_shared_is_not_divided() {
    shuttle::check_random(
        || {
            let index = Arc::new(VersionedLock::new(Rank::DirIndex));
            let inside = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let spawn = |mine: usize| {
                let (index, inside) = (index.clone(), inside.clone());
                thread::spawn(move || {
                    let (divided, shared) = match mine {
                        0 => (Some(index.divide()), None),
                        _ => (None, Some(index.read())),
                    };
                    inside[mine].fetch_add(1, SeqCst);
                    thread::yield_now();
                    assert_eq!(inside[1 - mine].load(SeqCst), 0);
                    inside[mine].fetch_sub(1, SeqCst);
                    drop((divided, shared));
                })
            };
            let threads = [0, 1, 0, 1].map(spawn);
            threads
                .into_iter()
                .for_each(|t| t.join().expect("no thread panics"));
        },
        ITERATIONS,
    );
}

/// Two places for a value, and an index that says which one holds it.
struct Roads {
    index: VersionedLock,
    sign: RwLock<usize>,
    /// The index as of a version of the structure.
    copy: RwLock<(Version, usize)>,
    places: [RwLock<Option<u32>>; 2],
}

impl Roads {
    fn here(value: u32) -> Arc<Self> {
        let index = VersionedLock::new(Rank::DirIndex);
        let version = index.version().expect("it is open");
        Arc::new(Self {
            index,
            sign: RwLock::new(Rank::MetaBlock, 0),
            copy: RwLock::new(Rank::CacheShard, (version, 0)),
            places: [Some(value), None].map(|value| RwLock::new(Rank::MetaBlock, value)),
        })
    }

    /// Moves the value with the lock open, as a merge of leaves does.
    fn move_open(&self) {
        let _alone = self.index.write_open();
        let mut from = self.places[0].write();
        *self.places[1].write_nested() = *from;
        self.index.begin_move();
        *self.sign.write_nested() = 1;
        *from = None;
        *self.copy.write() = (self.index.after_move(), 1);
        self.index.end_move();
    }

    /// Moves it with the lock closed: nothing that was read may change before it is written
    /// elsewhere.
    fn move_closed(&self) {
        let _alone = self.index.write();
        let value = *self.places[0].read();
        thread::yield_now();
        *self.places[1].write() = value;
        *self.places[0].write() = None;
        *self.sign.write() = 1;
    }

    /// Increments the value in its place, with the place validated.
    fn raise(&self) {
        loop {
            let Some(version) = self.index.version() else {
                self.index.wait();
                continue;
            };
            let (of, copied) = *self.copy.read();
            let at = if of.structure() == version.structure() {
                copied
            } else {
                *self.sign.read()
            };
            let mut place = self.places[at].write();
            if self.index.is_still(version) {
                *place.as_mut().expect("it stands where the sign says") += 1;
                return;
            }
        }
    }
}

fn raised_while_it_moves(move_it: fn(&Roads)) {
    let roads = Roads::here(0);
    let raise = || {
        let roads = roads.clone();
        thread::spawn(move || roads.raise())
    };
    let threads = [raise(), raise()];
    move_it(&roads);
    threads
        .into_iter()
        .for_each(|t| t.join().expect("no thread panics"));
    assert_eq!(*roads.places[1].read(), Some(2));
}

/// No increment and no lookup is lost while a part moves with the lock open.
#[test]
fn a_part_that_moves_beside_others_is_found() {
    shuttle::check_random(|| raised_while_it_moves(Roads::move_open), ITERATIONS);
}

/// The same, with the lock closed.
#[test]
fn a_part_that_moves_alone_is_found() {
    shuttle::check_random(|| raised_while_it_moves(Roads::move_closed), ITERATIONS);
}

/// The counter is exact once its threads have ended.
#[test]
fn a_counter_adds_up() {
    shuttle::check_random(
        || {
            let counter = Arc::new(Counter::new(10));
            let threads: Vec<_> = [1, 2, -4]
                .into_iter()
                .map(|delta| {
                    let counter = counter.clone();
                    thread::spawn(move || counter.add(delta))
                })
                .collect();
            threads
                .into_iter()
                .for_each(|t| t.join().expect("no thread panics"));
            assert_eq!(counter.sum(), 9);
        },
        ITERATIONS / 10,
    );
}

/// Canary: an update in two steps must be caught, or the checker checks nothing.
#[test]
#[should_panic(expected = "an update was lost")]
fn a_torn_update_is_found() {
    shuttle::check_random(
        || {
            let value = Arc::new(AtomicU32::new(0));
            let add = |value: &AtomicU32| value.store(value.load(SeqCst) + 1, SeqCst);
            let other = {
                let value = value.clone();
                thread::spawn(move || add(&value))
            };
            add(&value);
            other.join().expect("the thread does not panic");
            assert_eq!(value.load(SeqCst), 2, "an update was lost");
        },
        ITERATIONS,
    );
}

/// A lock-free reader sees words that were published together, or `None`.
#[test]
fn published_words_belong_together() {
    shuttle::check_random(
        || {
            let pair = Arc::new(SeqLock::new([0, 0]));
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let pair = pair.clone();
                    thread::spawn(move || {
                        let mut last = 0;
                        for _ in 0..3 {
                            if let Some([first, second]) = pair.read() {
                                assert_eq!(first, second);
                                assert!(first >= last, "time runs backwards");
                                last = first;
                            }
                        }
                    })
                })
                .collect();
            (1..=3).for_each(|step| pair.publish([step, step]));
            for reader in readers {
                reader.join().expect("a reader saw no mixture");
            }
            assert_eq!(pair.read(), Some([3, 3]));
        },
        ITERATIONS,
    );
}

/// Words that change one by one: a reader sees each state or `None`, never two of them mixed.
#[test]
fn words_published_one_by_one_are_not_mixed() {
    shuttle::check_random(
        || {
            let pair = Arc::new(SeqLock::new([0, 0]));
            let reader = pair.clone();
            let reader = thread::spawn(move || {
                for _ in 0..4 {
                    if let Some([first, second]) = reader.read() {
                        assert!(first == second || first == second + 1, "{first} {second}");
                    }
                }
            });
            for step in 1..=3 {
                pair.publish([step, step - 1]);
                pair.publish([step, step]);
            }
            reader.join().expect("the reader saw no mixture");
            assert_eq!(pair.read(), Some([3, 3]));
        },
        ITERATIONS,
    );
}

/// A reader that no change overlaps saw the words of one change.
#[test]
fn a_sequence_tells_readers_of_every_change() {
    shuttle::check_random(
        || {
            let words = [0, 0].map(AtomicU32::new);
            let shared = Arc::new((SequenceCount::new(), words));
            let reader = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (sequence, words) = &*shared;
                    for _ in 0..4 {
                        let before = sequence.sample();
                        let [first, second] = words.each_ref().map(|word| word.load(SeqCst));
                        if !before.is_changing() && sequence.is_still(before) {
                            assert_eq!((first, second), (before.changes(), before.changes()));
                        }
                    }
                })
            };
            let (sequence, words) = &*shared;
            for change in 1..=3 {
                sequence.begin();
                words.iter().for_each(|word| word.store(change, SeqCst));
                sequence.end();
            }
            reader.join().expect("the reader saw no mixture");
        },
        ITERATIONS,
    );
}
