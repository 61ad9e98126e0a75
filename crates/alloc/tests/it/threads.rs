//! Many threads; every property is checked by an atomic state per cluster.

use crate::disk::{Choice, Disk, volume};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use uext4_alloc::{Affinity, ClusterNr, Engine, Goal, Placement, Request, Run};
use uext4_format::{GroupNr, Tid};

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const PENDING: u8 = 2;

struct Shared {
    disk: Disk,
    engine: Box<dyn Engine>,
    states: Vec<AtomicU8>,
    /// Held shared like a handle, exclusively to commit.
    epoch: RwLock<u32>,
    stop: AtomicBool,
}

impl Shared {
    fn change(&self, run: Run, from: u8, to: u8) {
        for at in run.start.0..run.end().0 {
            let old = self.states[at as usize].swap(to, Ordering::SeqCst);
            assert_eq!(old, from, "cluster {at} becomes {to}");
        }
    }

    fn allocate(&self, request: &Request) -> Option<Run> {
        let run = self.engine.allocate(request, &self.disk).ok()?;
        self.change(run, FREE, TAKEN);
        Some(run)
    }

    fn work(&self, thread: u32, rounds: u32) {
        let mut rng = uext4_sync::Rng::new(u64::from(thread) + 99);
        let mut mine: Vec<Run> = Vec::new();
        for _ in 0..rounds {
            let len = 1 + rng.below(40) as u32;
            let goal = match rng.below(3) {
                0 => Goal::Anywhere,
                1 => Goal::Near(ClusterNr(rng.below(self.states.len() as u64))),
                _ => mine
                    .last()
                    .map_or(Goal::Anywhere, |run| Goal::At(run.end())),
            };
            let stream = [Placement::Local, Placement::Stream][rng.below(2) as usize];
            let request = Request::new(len).goal(goal).placement(stream);
            match self.allocate(&request) {
                Some(run) if rng.chance(1, 4) => {
                    self.change(run, TAKEN, FREE);
                    self.engine.release(run);
                }
                Some(run) => {
                    self.disk.set(run);
                    self.engine.mark_in_use(run);
                    mine.push(run);
                }
                None => self.free_some(&mut mine, &mut rng, 8),
            }
            if rng.chance(1, 3) {
                self.free_some(&mut mine, &mut rng, 1);
            }
        }
        self.free_some(&mut mine, &mut rng, usize::MAX);
    }

    fn free_some(&self, mine: &mut Vec<Run>, rng: &mut uext4_sync::Rng, most: usize) {
        for _ in 0..most.min(mine.len()) {
            let run = mine.swap_remove(rng.below(mine.len() as u64) as usize);
            self.change(run, TAKEN, PENDING);
            let handle = self.epoch.read().unwrap();
            self.engine.defer_free(Tid(*handle), run);
            self.disk.clear(run);
        }
    }

    /// Commits and evicts until told to stop.
    fn commit(&self) {
        let mut groups = 0;
        while !self.stop.load(Ordering::SeqCst) {
            let committed = {
                let mut epoch = self.epoch.write().unwrap();
                *epoch += 1;
                *epoch - 1
            };
            self.give_back(committed);
            for _ in 0..7 {
                groups += 1;
                self.engine.evict(GroupNr(groups % self.disk.volume.groups));
            }
            // The next commit has something to give back.
            while !self.stop.load(Ordering::SeqCst) && self.engine.pending().clusters() < 64 {
                thread::yield_now();
            }
        }
    }

    fn give_back(&self, epoch: u32) {
        let runs = self.engine.start_return(Tid(epoch));
        runs.iter().for_each(|run| self.change(*run, PENDING, FREE));
        self.engine.finish_return(&runs);
    }
}

fn stress(order: Choice, affinity: Affinity, fill: f64) {
    let volume = volume(24, 512, 300, 4);
    let disk = Disk::new(volume.clone());
    let states: Vec<_> = (0..volume.clusters())
        .map(|_| AtomicU8::new(FREE))
        .collect();
    let used = (volume.clusters() as f64 * fill) as u64;
    for at in (0..used).filter(|at| at % 5 != 0) {
        disk.set(Run::new(ClusterNr(at), 1));
        states[at as usize].store(TAKEN, Ordering::SeqCst);
    }
    let free = disk.free();
    let engine = disk.engine(order, affinity);
    let shared = Shared {
        disk,
        engine,
        states,
        epoch: RwLock::new(10),
        stop: false.into(),
    };
    thread::scope(|scope| {
        let committer = scope.spawn(|| shared.commit());
        let shared = &shared;
        let workers: Vec<_> = (0..6)
            .map(|thread| scope.spawn(move || shared.work(thread, 4000)))
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        shared.stop.store(true, Ordering::SeqCst);
        committer.join().unwrap();
        assert!(results.into_iter().all(|result| result.is_ok()));
    });
    shared.give_back(u32::MAX >> 2);
    assert_eq!(shared.engine.free_clusters(), free);
    assert_eq!(shared.disk.free(), free);
    assert_eq!(shared.engine.pending().clusters(), 0);
    for nr in 0..volume.groups {
        shared.engine.load(GroupNr(nr), &shared.disk).unwrap();
        let free = shared.disk.bitmaps[nr as usize]
            .lock()
            .unwrap()
            .count_clear();
        assert_eq!(shared.engine.report(GroupNr(nr)).free_clusters, free);
    }
}

#[test]
fn linear_under_many_threads() {
    stress(Choice::Linear, Affinity::PerThread, 0.3);
    stress(Choice::Linear, Affinity::None, 0.99);
}

#[test]
fn optimized_under_many_threads() {
    stress(Choice::Optimized, Affinity::PerThread, 0.3);
    stress(Choice::Optimized, Affinity::None, 0.99);
}

#[test]
fn trees_under_many_threads() {
    stress(
        Choice::Trees {
            aggression: 1,
            memory: 0,
        },
        Affinity::PerThread,
        0.3,
    );
    stress(
        Choice::Trees {
            aggression: 0,
            memory: 900,
        },
        Affinity::PerThread,
        0.9,
    );
    stress(
        Choice::Trees {
            aggression: 3,
            memory: 1,
        },
        Affinity::None,
        0.99,
    );
}

/// A stream keeps the group that it uses to itself, whichever way another stream comes.
#[test]
fn streams_stay_out_of_each_others_groups() {
    for choice in crate::disk::CHOICES {
        let disk = Disk::new(volume(32, 256, 256, 1));
        let engine = disk.engine(choice, Affinity::PerThread);
        // Searches prefer groups in memory to cold ones, regardless of the streams in them.
        (0..32).for_each(|nr| engine.load(GroupNr(nr), &disk).expect("loads"));
        let stream = |goal| {
            let request = Request::new(16).goal(goal).placement(Placement::Stream);
            let run = engine.allocate(&request, &disk).expect("there is space");
            disk.set(run);
            engine.mark_in_use(run);
            run
        };
        let group = |run: Run| run.start.0 / 256;
        let theirs = thread::scope(|scope| {
            let other = scope.spawn(|| group(stream(Goal::Anywhere)));
            other.join().expect("no panic")
        });
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut last = stream(Goal::Anywhere);
                for _ in 0..28 * 16 {
                    last = stream(Goal::At(last.end()));
                    assert_ne!(group(last), theirs, "{choice:?}");
                }
            });
        });
    }
}
