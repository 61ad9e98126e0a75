//! Random histories of one engine against a state per cluster.

use crate::disk::{CHOICES, Choice, Disk, volume};
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use uext4_alloc::Volume;
use uext4_alloc::{Affinity, ClusterNr, ClusterUse, Engine, Error, Goal, Placement, Request, Run};
use uext4_format::{GroupNr, Tid};

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    Reserved,
    Used,
    Pending(u32),
}

#[derive(Clone, Debug)]
enum Op {
    Allocate {
        len: u32,
        min: u32,
        goal: u8,
        at: u64,
        flags: u8,
    },
    Exact {
        at: u64,
        len: u32,
    },
    Settle(usize),
    Release(usize),
    Free {
        at: u64,
        len: u32,
    },
    Commit,
    GiveBack,
    Evict(u32),
    Trim {
        group: u32,
        min: u32,
    },
    Remount,
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let allocate = (1u32..90, 1u32..90, 0u8..4, any::<u64>(), any::<u8>()).prop_map(
        |(len, min, goal, at, flags)| Op::Allocate {
            len,
            min: if flags & 4 == 0 { 1 } else { min.min(len) },
            goal,
            at,
            flags,
        },
    );
    prop_oneof![
        12 => allocate,
        2 => (any::<u64>(), 1u32..40).prop_map(|(at, len)| Op::Exact { at, len }),
        8 => any::<usize>().prop_map(Op::Settle),
        2 => any::<usize>().prop_map(Op::Release),
        6 => (any::<u64>(), 1u32..200).prop_map(|(at, len)| Op::Free { at, len }),
        1 => Just(Op::Commit),
        1 => Just(Op::GiveBack),
        2 => any::<u32>().prop_map(Op::Evict),
        1 => (any::<u32>(), 1u32..20).prop_map(|(group, min)| Op::Trim { group, min }),
        1 => Just(Op::Remount),
        1 => Just(Op::Crash),
    ]
}

struct World {
    disk: Disk,
    engine: Box<dyn Engine>,
    order: Choice,
    states: Vec<State>,
    /// The bits of the last commit, which survive a crash.
    committed: Vec<bool>,
    reserved: Vec<Run>,
    epoch: u32,
    given_back: u32,
}

impl World {
    fn new(volume: Volume, used: &[(u64, u64)], order: Choice) -> Self {
        let disk = Disk::new(volume.clone());
        let mut states = vec![State::Free; volume.clusters() as usize];
        for &(at, len) in used {
            let at = at % volume.clusters();
            for at in at..(at + len).min(volume.clusters()) {
                if states[at as usize] == State::Free {
                    states[at as usize] = State::Used;
                    disk.set(Run::new(ClusterNr(at), 1));
                }
            }
        }
        let engine = disk.engine(order, Affinity::PerThread);
        let committed = states.iter().map(|state| *state == State::Used).collect();
        Self {
            disk,
            committed,
            engine,
            order,
            states,
            reserved: Vec::new(),
            epoch: 7,
            given_back: 6,
        }
    }

    fn change(&mut self, run: Run, from: impl Fn(State) -> bool, to: State) {
        for at in run.start.0..run.end().0 {
            let state = &mut self.states[at as usize];
            assert!(from(*state), "cluster {at} is {state:?}, becomes {to:?}");
            *state = to;
        }
    }

    fn free(&self) -> u64 {
        self.states
            .iter()
            .filter(|state| **state == State::Free)
            .count() as u64
    }

    fn longest_run(&self) -> u32 {
        let volume = &self.disk.volume;
        let mut longest = 0;
        for nr in 0..volume.groups {
            let first = volume.first_cluster(GroupNr(nr)).0 as usize;
            let group = &self.states[first..first + volume.clusters_in(GroupNr(nr)) as usize];
            let mut len = 0;
            for state in group {
                len = if *state == State::Free { len + 1 } else { 0 };
                longest = longest.max(len);
            }
        }
        longest
    }

    fn reserve(&mut self, run: Run) {
        let volume = &self.disk.volume;
        assert_eq!(volume.split(run).count(), 1, "a run lies in one group");
        self.change(run, |state| state == State::Free, State::Reserved);
        let run_bits = run.start.0 as usize..run.end().0 as usize;
        let is_needed = self.committed[run_bits].iter().any(|bit| *bit);
        assert!(!is_needed, "{run:?} is in use after a crash");
        self.reserved.push(run);
    }

    fn allocate(&mut self, request: &Request) {
        match self.engine.allocate(request, &self.disk) {
            Ok(run) => {
                assert!(run.len >= request.min_len && run.len <= request.len);
                if let Goal::Only(goal) = request.goal {
                    assert_eq!(run.start, goal);
                }
                self.reserve(run);
            }
            Err(Error::NoSpace) => match request.goal {
                Goal::Only(goal) => {
                    let free = self.states.iter().skip(goal.0 as usize);
                    let free = free.take_while(|state| **state == State::Free).count() as u64;
                    let per_group = u64::from(self.disk.volume.clusters_per_group);
                    let room = per_group - goal.0 % per_group;
                    assert!(free.min(room) < u64::from(request.min_len));
                }
                _ => assert!(self.longest_run() < request.min_len, "space was there"),
            },
            Err(error) => panic!("{error}"),
        }
    }

    fn free_used(&mut self, at: u64, len: u32) {
        let clusters = self.states.len() as u64;
        let start = at % clusters;
        let used = self.states[start as usize..].iter().take(len as usize);
        let len = used.take_while(|state| **state == State::Used).count() as u32;
        if len > 0 {
            let run = Run::new(ClusterNr(start), len);
            self.engine.defer_free(Tid(self.epoch), run);
            self.disk.clear(run);
            self.change(run, |_| true, State::Pending(self.epoch));
        }
    }

    fn give_back(&mut self) {
        self.given_back = self.epoch - 1;
        let expected = self.states.iter_mut().fold(0, |n, state| match state {
            State::Pending(epoch) if *epoch <= self.given_back => {
                *state = State::Free;
                n + 1
            }
            _ => n,
        });
        assert_eq!(self.engine.give_back(Tid(self.given_back)), expected);
    }

    fn commit(&mut self) {
        let bits = self.states.iter().map(|state| *state == State::Used);
        self.committed = bits.collect();
        self.epoch += 1;
    }

    /// Rebuilds the engine from the last commit; all later changes are lost.
    fn crash(&mut self) {
        self.reserved.clear();
        self.disk.clear_all();
        for (at, used) in (0..).zip(&self.committed) {
            let state = &mut self.states[at as usize];
            *state = if *used { State::Used } else { State::Free };
            if *used {
                self.disk.set(Run::new(ClusterNr(at), 1));
            }
        }
        self.engine = self.disk.engine(self.order, Affinity::PerThread);
    }

    fn apply(&mut self, op: Op) {
        let clusters = self.states.len() as u64;
        let groups = self.disk.volume.groups;
        match op {
            Op::Allocate {
                len,
                min,
                goal,
                at,
                flags,
            } => {
                let at = ClusterNr(at % clusters);
                let goals = [Goal::Anywhere, Goal::Near(at), Goal::At(at), Goal::Only(at)];
                let kind = if flags & 1 == 0 {
                    ClusterUse::Data
                } else {
                    ClusterUse::Metadata
                };
                let stream = [Placement::Local, Placement::Stream][usize::from(flags >> 1 & 1)];
                let request = Request::new(len).min_len(min);
                let request = request
                    .goal(goals[usize::from(goal)])
                    .kind(kind)
                    .placement(stream);
                self.allocate(&request);
            }
            Op::Exact { at, len } => {
                let run = Run::new(ClusterNr(at % clusters), len);
                let (_, offset) = self.disk.volume.locate(run.start).unwrap();
                let per_group = self.disk.volume.clusters_per_group;
                let states = self
                    .states
                    .iter()
                    .skip(run.start.0 as usize)
                    .take(len as usize);
                let free = states.take_while(|state| **state == State::Free).count() as u32;
                let fits = free == len && offset + len <= per_group;
                assert_eq!(self.engine.take_exact(run, &self.disk).is_ok(), fits);
                if fits {
                    self.reserve(run);
                }
            }
            Op::Settle(at) if !self.reserved.is_empty() => {
                let run = self.reserved.swap_remove(at % self.reserved.len());
                self.disk.set(run);
                self.engine.mark_in_use(run);
                self.change(run, |state| state == State::Reserved, State::Used);
            }
            Op::Release(at) if !self.reserved.is_empty() => {
                let run = self.reserved.swap_remove(at % self.reserved.len());
                self.engine.release(run);
                self.change(run, |state| state == State::Reserved, State::Free);
            }
            Op::Settle(_) | Op::Release(_) => {}
            Op::Free { at, len } => self.free_used(at, len),
            Op::Commit => self.commit(),
            Op::GiveBack => self.give_back(),
            Op::Evict(group) => {
                self.engine.evict(GroupNr(group % groups));
            }
            Op::Trim { group, min } => {
                let group = GroupNr(group % groups);
                let runs = self.engine.take_free_runs(group, min, &self.disk).unwrap();
                for run in &runs {
                    assert!(run.len >= min);
                    self.change(*run, |state| state == State::Free, State::Reserved);
                }
                for run in runs {
                    self.engine.release(run);
                    self.change(run, |_| true, State::Free);
                }
            }
            Op::Remount => {
                self.commit();
                self.crash();
            }
            Op::Crash => self.crash(),
        }
        assert_eq!(self.engine.free_clusters(), self.free());
    }
}

fn history(order: Choice) -> impl Strategy<Value = (World, Vec<Op>)> {
    let used = proptest::collection::vec((any::<u64>(), 1u64..300), 0..24);
    let shape = (
        1u32..24,
        prop_oneof![Just(64u32), Just(128), Just(256)],
        1u32..=64,
    );
    (
        shape,
        prop_oneof![Just(1u32), Just(4), Just(16)],
        used,
        proptest::collection::vec(op(), 1..150),
    )
        .prop_map(move |((groups, per_group, last), flex, used, ops)| {
            (
                World::new(volume(groups, per_group, last, flex), &used, order),
                ops,
            )
        })
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.disk.volume)
    }
}

proptest! {
    #[test]
    fn linear_follows_the_model((mut world, ops) in history(Choice::Linear)) {
        ops.into_iter().for_each(|op| world.apply(op));
    }

    #[test]
    fn optimized_follows_the_model((mut world, ops) in history(Choice::Optimized)) {
        ops.into_iter().for_each(|op| world.apply(op));
    }

    #[test]
    fn trees_follow_the_model((mut world, ops) in trees()) {
        ops.into_iter().for_each(|op| world.apply(op));
    }
}

fn trees() -> impl Strategy<Value = (World, Vec<Op>)> {
    let memory = prop_oneof![Just(0u64), Just(1), 32u64..2000];
    (0u32..4, memory)
        .prop_flat_map(|(aggression, memory)| history(Choice::Trees { aggression, memory }))
}

/// Fills a volume to the last cluster, in pieces of any size, then allocates and frees near full.
#[test]
fn fills_to_the_last_cluster() {
    for order in CHOICES {
        let mut world = World::new(volume(20, 256, 100, 4), &[(0, 9), (700, 90)], order);
        while world.free() > 0 {
            let len = 1 + (world.free() as u32 * 7) % 61;
            world.allocate(&Request::new(len));
        }
        world.allocate(&Request::new(1));
        for turn in 0..500 {
            world.apply(Op::Release(turn * 31));
            let len = 1 + turn as u32 % 20;
            world.allocate(&Request::new(len).min_len(len.min(3)));
        }
    }
}

/// Every second cluster is taken: long requests are shortened, longer minima are refused.
#[test]
fn comb_gives_single_clusters() {
    for order in CHOICES {
        let used: Vec<_> = (0..128 * 20).step_by(2).map(|at| (at, 1)).collect();
        let mut world = World::new(volume(20, 128, 128, 4), &used, order);
        world.allocate(&Request::new(64).min_len(2));
        assert!(world.reserved.is_empty());
        for _ in 0..1280 {
            world.allocate(&Request::new(64));
        }
        assert_eq!((world.free(), world.reserved.len()), (0, 1280));
    }
}

/// Clusters of a transaction come back only with its commit, also after an eviction.
#[test]
fn pending_clusters_survive_eviction() {
    CHOICES.into_iter().for_each(pending_survives);
}

fn pending_survives(order: Choice) {
    let mut world = World::new(volume(2, 64, 64, 1), &[(0, 128)], order);
    world.apply(Op::Free { at: 3, len: 10 });
    let request = Request::new(1);
    world.allocate(&request);
    assert!(world.reserved.is_empty());
    world.apply(Op::Evict(0));
    world.allocate(&request);
    assert!(world.reserved.is_empty());
    world.apply(Op::Commit);
    world.apply(Op::GiveBack);
    world.allocate(&Request::new(10).min_len(10));
    assert_eq!(world.reserved, [Run::new(ClusterNr(3), 10)]);
}

#[test]
fn adjacent_goals_are_met() {
    for order in CHOICES {
        let mut world = World::new(volume(32, 256, 256, 16), &[], order);
        let first = Request::new(2).goal(Goal::Near(ClusterNr(1000)));
        world.allocate(&first);
        for step in 1..60 {
            let goal = world.reserved[step - 1].end();
            if world
                .disk
                .volume
                .locate(goal)
                .is_some_and(|(_, offset)| offset == 0)
            {
                break;
            }
            world.allocate(&Request::new(2).goal(Goal::At(goal)));
            assert_eq!(world.reserved[step].start, goal);
        }
    }
}

#[test]
fn damaged_groups_are_left_alone_and_named() {
    let mut disk = Disk::new(volume(2, 64, 64, 1));
    disk.unreadable = Some(GroupNr(0));
    for order in CHOICES {
        let engine = disk.engine(order, Affinity::None);
        let request = Request::new(64).min_len(64);
        assert_eq!(
            engine.allocate(&request, &disk),
            Ok(Run::new(ClusterNr(64), 64))
        );
        assert_eq!(
            engine.allocate(&request, &disk),
            Err(Error::Unreadable(GroupNr(0)))
        );
        assert_eq!(engine.free_clusters(), 0);
    }
}

/// The loader hears once that the clusters of a group are lost, also from the prefetch; what is
/// freed there later is not returned as usable, and a growth makes it usable again.
#[test]
fn clusters_of_damaged_groups_are_lost_once() {
    for choice in CHOICES {
        let mut disk = Disk::new(volume(4, 64, 64, 1));
        let run = Run::new(ClusterNr(3), 10);
        disk.set(run);
        let engine = disk.engine(choice, Affinity::None);
        engine.defer_free(Tid(1), run);
        disk.unreadable = Some(GroupNr(0));
        for _ in 0..2 {
            engine.learn(&disk, &|| true);
            assert!(engine.load(GroupNr(0), &disk).is_err(), "{choice:?}");
            assert_eq!(disk.lost.load(Ordering::Relaxed), 54, "{choice:?}");
        }
        assert_eq!(engine.free_clusters(), 3 * 64, "{choice:?}");
        assert_eq!(engine.give_back(Tid(1)), 0, "{choice:?}");
        disk.clear(run);
        let again = engine.grow(engine.volume().clone(), &[GroupNr(0)], &|nr| {
            disk.summary(nr)
        });
        assert_eq!(again, 64, "{choice:?}");
        assert_eq!(engine.free_clusters(), 4 * 64, "{choice:?}");
    }
}

/// The descriptor of group 0 counts one free cluster more, or one less, than its bitmap has.
#[test]
fn groups_with_a_wrong_count_are_left_alone() {
    for (choice, has_more) in CHOICES.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        let disk = Disk::new(volume(2, 64, 64, 1));
        let run = Run::new(ClusterNr(7), 1);
        if !has_more {
            disk.set(run);
        }
        let engine = disk.engine(choice, Affinity::None);
        if has_more {
            disk.set(run);
        } else {
            disk.clear(run);
        }
        let request = Request::new(30).min_len(30);
        for at in [64, 94] {
            let found = engine.allocate(&request, &disk);
            assert_eq!(found, Ok(Run::new(ClusterNr(at), 30)), "{choice:?}");
        }
        let found = engine.allocate(&request, &disk);
        assert_eq!(found, Err(Error::Unreadable(GroupNr(0))), "{choice:?}");
        let exact = engine.take_exact(Run::new(ClusterNr(40), 1), &disk);
        assert_eq!(exact, Err(Error::Unreadable(GroupNr(0))), "{choice:?}");
    }
}

/// Groups past the end of a request are not touched even when nothing else is free.
#[test]
fn the_end_of_a_request_is_a_border() {
    for order in CHOICES {
        let disk = Disk::new(volume(8, 64, 64, 4));
        let engine = disk.engine(order, Affinity::PerThread);
        for (step, expected) in (0..16).map(|step| (step, step < 5)) {
            let goal = Goal::Near(ClusterNr(step * 30));
            let mut request = Request::new(64).min_len(64).goal(goal);
            request.end = Some(ClusterNr(5 * 64 + 9));
            let run = engine.allocate(&request, &disk);
            assert_eq!(run.is_ok(), expected);
            assert!(run.is_err() || run.is_ok_and(|run| run.end().0 <= 5 * 64));
        }
    }
}

/// A loader that runs other work after it has read the bitmap.
struct Interrupted<'a> {
    disk: &'a Disk,
    meanwhile: std::cell::RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl uext4_alloc::Loader for Interrupted<'_> {
    fn load(
        &self,
        nr: GroupNr,
        used: &mut uext4_alloc::Bitmap,
    ) -> Result<(), uext4_alloc::LoadError> {
        self.disk.load(nr, used)?;
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        Ok(())
    }

    fn scan(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, Result<&uext4_alloc::Bitmap, uext4_alloc::LoadError>),
    ) {
        for nr in groups {
            let mut used = uext4_alloc::Bitmap::new(self.disk.volume.clusters_in(*nr));
            let loaded = self.load(*nr, &mut used);
            each(*nr, loaded.map(|()| &used));
        }
    }
}

/// A bitmap read before a free, a commit and its return is stale when it is installed.
#[test]
fn stale_bitmaps_are_read_again() {
    for (steps, order) in (1..=3).flat_map(|steps| CHOICES.map(|order| (steps, order))) {
        let disk = Disk::new(volume(1, 64, 64, 1));
        disk.set(Run::new(ClusterNr(0), 63));
        let run = Run::new(ClusterNr(5), 7);
        let engine = disk.engine(order, Affinity::None);
        let meanwhile = || {
            engine.defer_free(Tid(1), run);
            if steps > 1 {
                disk.clear(run);
            }
            if steps > 2 {
                assert_eq!(engine.give_back(Tid(1)), 7);
            }
        };
        let loader = Interrupted {
            disk: &disk,
            meanwhile: std::cell::RefCell::new(Some(Box::new(meanwhile))),
        };
        engine.load(GroupNr(0), &loader).unwrap();
        drop(loader);
        let free = if steps > 2 { 8 } else { 1 };
        assert_eq!(engine.report(GroupNr(0)).free_clusters, free);
        let longest = engine.take_free_runs(GroupNr(0), 1, &disk).unwrap();
        assert_eq!(longest.iter().map(|run| run.len).sum::<u32>(), free);
    }
}
