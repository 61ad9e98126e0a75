//! Allocate, settle, release, free, commit, evict and load by several threads, against a state per
//! cluster: no cluster is allocated twice or before its commit, and counts are exact.

use crate::explore::{explore, number};
use crate::rig::join;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use uext4_alloc::{Affinity, Bitmap, BuddyEngine, ClusterNr, Config, Engine, Goal, LoadError};
use uext4_alloc::{Loader, Request, Run, ScanOrder, Summary, TreeEngine, Volume};
use uext4_format::{BlockNr, GroupNr, Tid};
use uext4_sync::atomic::AtomicU32;
use uext4_sync::{Rank, Rng, RwLock, thread};

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const PENDING: u8 = 2;
const GROUPS: u32 = 3;
const PER_GROUP: u32 = 16;

/// Bitmaps on disk. Reading one yields to other threads.
struct Disk(Vec<Mutex<Bitmap>>);

impl Disk {
    fn change(&self, volume: &Volume, run: Run, change: fn(&mut Bitmap, std::ops::Range<u32>)) {
        for (nr, offset, len) in volume.split(run) {
            let mut bitmap = self.0[nr.0 as usize].lock().expect("no check panicked");
            change(&mut bitmap, offset..offset + len);
        }
    }

    fn free_in(&self, nr: u32) -> u32 {
        let bitmap = self.0[nr as usize].lock().expect("no check panicked");
        bitmap.count_clear()
    }
}

impl Loader for Disk {
    fn load(&self, nr: GroupNr, used: &mut Bitmap) -> Result<(), LoadError> {
        thread::yield_now();
        used.copy_from(&self.0[nr.0 as usize].lock().expect("no check panicked"));
        // Sometimes long enough for other threads to free, commit and return clusters.
        let slow = number().is_multiple_of(4);
        (0..if slow { 300 } else { 1 }).for_each(|_| thread::yield_now());
        Ok(())
    }

    fn scan(&self, groups: &[GroupNr], each: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>)) {
        for nr in groups {
            let mut used = Bitmap::new(PER_GROUP);
            let loaded = self.load(*nr, &mut used);
            each(*nr, loaded.map(|()| &used));
        }
    }
}

struct World {
    disk: Disk,
    engine: Box<dyn Engine>,
    states: Vec<AtomicU8>,
    /// The running transaction; held shared like a handle, exclusively to commit.
    epoch: RwLock<u32>,
}

/// Constructor of an engine for these descriptors.
type Make = fn(Config, &dyn Fn(GroupNr) -> Summary) -> Box<dyn Engine>;

fn linear(config: Config, summary: &dyn Fn(GroupNr) -> Summary) -> Box<dyn Engine> {
    Box::new(BuddyEngine::new(config, ScanOrder::Linear, summary))
}

fn optimized(config: Config, summary: &dyn Fn(GroupNr) -> Summary) -> Box<dyn Engine> {
    Box::new(BuddyEngine::new(config, ScanOrder::Optimized, summary))
}

/// Trees with almost no memory limit, so that they are dropped and rebuilt.
fn trees(config: Config, summary: &dyn Fn(GroupNr) -> Summary) -> Box<dyn Engine> {
    let engine = TreeEngine::new(config, summary);
    let memory: &uext4_sync::atomic::AtomicU64 = &engine.tunables().freespace_memory_bytes;
    memory.store(1, SeqCst);
    let aggression: &AtomicU32 = &engine.tunables().cache_aggression;
    aggression.store(3, SeqCst);
    Box::new(engine)
}

impl World {
    /// Every third cluster is in use.
    fn new(make: Make) -> Self {
        let volume = Volume {
            groups: GROUPS,
            groups_max: GROUPS,
            clusters_per_group: PER_GROUP,
            clusters_in_last_group: PER_GROUP,
            first_block: BlockNr(0),
            cluster_bits: 0,
            groups_per_flex: 2,
        };
        let disk = Disk(
            (0..GROUPS)
                .map(|_| Mutex::new(Bitmap::new(PER_GROUP)))
                .collect(),
        );
        let states: Vec<u8> = (0..volume.clusters())
            .map(|at| u8::from(at.is_multiple_of(3)) * TAKEN)
            .collect();
        for at in (0..volume.clusters()).filter(|at| states[*at as usize] == TAKEN) {
            disk.change(&volume, Run::new(ClusterNr(at), 1), Bitmap::set_range);
        }
        let config = Config {
            volume,
            affinity: Affinity::None,
        };
        let engine = make(config, &|nr| Summary {
            free_clusters: disk.free_in(nr.0),
            uninit: false,
        });
        Self {
            disk,
            engine,
            states: states.into_iter().map(AtomicU8::new).collect(),
            epoch: RwLock::new(Rank::Mount, 10),
        }
    }

    fn change(&self, run: Run, from: u8, to: u8) {
        for at in run.start.0..run.end().0 {
            let old = self.states[at as usize].swap(to, SeqCst);
            assert_eq!(old, from, "cluster {at} becomes {to}");
        }
    }

    fn work(&self, mut rng: Rng) {
        let mut mine: Vec<Run> = Vec::new();
        for _ in 0..4 {
            let at = ClusterNr(rng.below(self.states.len() as u64));
            let goal = [Goal::Anywhere, Goal::Near(at), Goal::At(at)][rng.below(3) as usize];
            let request = Request::new(1 + rng.below(2) as u32).goal(goal);
            if let Ok(run) = self.engine.allocate(&request, &self.disk) {
                self.change(run, FREE, TAKEN);
                self.keep_or_release(run, &mut mine, &mut rng);
            }
            if rng.chance(1, 2) && !mine.is_empty() {
                self.free(mine.swap_remove(rng.below(mine.len() as u64) as usize));
            }
        }
        mine.into_iter().for_each(|run| self.free(run));
    }

    fn keep_or_release(&self, run: Run, mine: &mut Vec<Run>, rng: &mut Rng) {
        if rng.chance(1, 4) {
            self.change(run, TAKEN, FREE);
            self.engine.release(run);
            return;
        }
        self.disk
            .change(self.engine.volume(), run, Bitmap::set_range);
        self.engine.mark_in_use(run);
        mine.push(run);
    }

    fn free(&self, run: Run) {
        let epoch = self.epoch.read();
        self.change(run, TAKEN, PENDING);
        self.engine.defer_free(Tid(*epoch), run);
        self.disk
            .change(self.engine.volume(), run, Bitmap::clear_range);
    }

    /// Ends the running transaction: its frees may be reused.
    fn commit(&self) {
        let committed = {
            let mut epoch = self.epoch.write();
            *epoch += 1;
            *epoch - 1
        };
        let runs = self.engine.start_return(Tid(committed));
        runs.iter().for_each(|run| self.change(*run, PENDING, FREE));
        self.engine.finish_return(&runs);
    }

    fn disturb(&self, mut rng: Rng) {
        for _ in 0..6 {
            let nr = GroupNr(rng.below(GROUPS.into()) as u32);
            match rng.below(3) {
                0 => self.commit(),
                1 => _ = self.engine.evict(nr),
                _ => self
                    .engine
                    .load(nr, &self.disk)
                    .expect("every bitmap is good"),
            }
        }
    }

    /// Final check: all clusters were freed and no thread is working.
    fn check(&self) {
        self.commit();
        let used = (0..self.states.len() as u64).filter(|at| at.is_multiple_of(3));
        let free = self.states.len() as u64 - used.count() as u64;
        assert_eq!(self.engine.pending().clusters(), 0);
        assert_eq!(self.engine.free_clusters(), free);
        for nr in 0..GROUPS {
            self.engine.load(GroupNr(nr), &self.disk).expect("loads");
            let found = self.engine.report(GroupNr(nr)).free_clusters;
            assert_eq!(found, self.disk.free_in(nr));
        }
        let one = Request::new(1);
        let handed_out = std::iter::from_fn(|| self.engine.allocate(&one, &self.disk).ok());
        assert_eq!(
            handed_out.count() as u64,
            free,
            "no space only when it is true"
        );
    }
}

/// Clusters are returned to a group while its bitmap is read.
fn come_back(make: Make) {
    let world = Arc::new(World::new(make));
    let runs = [1, 4].map(|at| Run::new(ClusterNr(at), 1));
    for run in runs {
        let taken = world.engine.take_exact(run, &world.disk);
        taken.expect("the cluster is free");
        world.change(run, FREE, TAKEN);
        world
            .disk
            .change(world.engine.volume(), run, Bitmap::set_range);
        world.engine.mark_in_use(run);
    }
    assert!(world.engine.evict(GroupNr(0)));
    let giving = runs.map(|run| {
        let world = world.clone();
        thread::spawn(move || {
            world.free(run);
            world.commit();
        })
    });
    let loaded = world.engine.load(GroupNr(0), &world.disk);
    loaded.expect("every bitmap is good");
    join(giving);
    world.check();
}

fn meet(make: Make) {
    let world = Arc::new(World::new(make));
    let mut rng = Rng::new(number());
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (world, rng) = (world.clone(), rng.fork());
            thread::spawn(move || match worker {
                0 => world.disturb(rng),
                _ => world.work(rng),
            })
        })
        .collect();
    join(workers);
    world.check();
}

#[test]
fn linear_groups() {
    explore(400, || meet(linear));
}

#[test]
fn optimized_groups() {
    explore(400, || meet(optimized));
}

#[test]
fn trees_that_come_and_go() {
    explore(400, || meet(trees));
}

#[test]
fn bitmaps_are_read_while_clusters_come_back() {
    explore(200, || come_back(linear));
    explore(200, || come_back(trees));
}
