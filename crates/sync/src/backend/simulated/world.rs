//! One simulation: its tasks, each an OS thread, and the right to run, which one of them has.
//!
//! Invariants: a thread without the right to run waits for its baton and does nothing else, so all
//! that threads do is in one order. A thread keeps the right while no other task is earlier. Before
//! an access without a transfer to a line that has not moved for [`QUIET_PS`] it may be late by up
//! to [`LOOKAHEAD_PS`]: no other core is likely to see the order, and most accesses are such.
//! Locking: the lock of the state is held for bookkeeping only.

use super::cores::Cores;
use super::line::{Access, AccessSite, Lines};
use super::machine::Machine;
use super::waiters::{Side, Waiters};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

const QUIET_PS: u64 = 100_000_000;
const LOOKAHEAD_PS: u64 = 20_000_000;
/// Lines of a value that move with its lock: those of larger values are rarely all used.
const DATA_LINES_MAX: usize = 4;

/// The shared state of one simulation.
pub(super) struct World {
    pub(super) machine: Machine,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) cores: Cores,
    pub(super) lines: Lines,
    pub(super) waiters: Waiters,
    /// Addresses of cells whose value is being made.
    pub(super) making: HashSet<usize>,
    /// Indexed by task.
    batons: Vec<Arc<Baton>>,
    /// Number of accesses by task.
    pub(super) accesses: Vec<u64>,
    pub(super) work_ps: u64,
    /// The same while another core is busy.
    pub(super) busy_work_ps: u64,
    pub(super) switches: u64,
}

/// The right to run, when it is given.
#[derive(Default)]
pub(super) struct Baton {
    is_here: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Baton {
    fn give(&self) {
        self.is_here.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Waits until the calling thread may run.
    pub(super) fn await_here(&self) {
        while !self.is_here.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }

    /// The calling thread is the one that waits for this.
    pub(super) fn adopt(&self) {
        let _first = self.thread.set(std::thread::current());
    }
}

impl World {
    pub(super) fn new(machine: Machine, cores: usize) -> Self {
        let state = State {
            cores: Cores::new(cores),
            lines: Lines::default(),
            waiters: Waiters::default(),
            making: HashSet::new(),
            batons: Vec::new(),
            accesses: Vec::new(),
            work_ps: 0,
            busy_work_ps: 0,
            switches: 0,
        };
        Self {
            machine,
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a task that may run from `at` on.
    pub(super) fn add(&self, at: u64) -> (usize, Arc<Baton>) {
        let mut state = self.state();
        let task = state.cores.add(at);
        let baton = Arc::new(Baton::default());
        state.batons.push(baton.clone());
        state.accesses.push(0);
        (task, baton)
    }

    /// Lets the earliest task run; returns when the caller may go on.
    pub(super) fn pass<'a>(&'a self, task: usize, state: MutexGuard<'a, State>) {
        if let Some(mine) = self.hand_over(task, state) {
            mine.await_here();
        }
    }

    /// Lets the earliest task run, while the caller ends; false: no task is left.
    pub(super) fn leave(&self, task: usize, mut state: MutexGuard<'_, State>) {
        let State { cores, waiters, .. } = &mut *state;
        let is_last = cores.is_last();
        waiters.wake_all(self.end_of(task), cores, &self.machine);
        cores.finish(&self.machine);
        if !is_last {
            self.hand_over(task, state);
        }
    }

    /// Waits until the other task has ended.
    pub(super) fn await_end(&self, task: usize, other: usize) {
        while !self.state().cores.is_done(other) {
            let end = self.end_of(other);
            self.block(task, self.state(), (end, end), None);
        }
    }

    /// Lets the first task run.
    pub(super) fn start(&self) {
        let mut state = self.state();
        if let Some(first) = state.cores.next(&self.machine) {
            state.batons[first].give();
        }
    }

    /// Waits until all other tasks have ended.
    pub(super) fn await_all(&self, task: usize) {
        let count = self.state().accesses.len();
        (0..count)
            .filter(|other| *other != task)
            .for_each(|other| self.await_end(task, other));
    }

    /// The running task sleeps for `ps`.
    pub(super) fn sleep(&self, task: usize, ps: u64) {
        let mut state = self.state();
        let deadline = state.cores.now().saturating_add(ps);
        state.cores.block(Some(deadline), &self.machine);
        self.pass(task, state);
    }

    /// The running task lets ready tasks have its core, and earlier ones run.
    pub(super) fn yield_now(&self, task: usize) {
        let mut state = self.state();
        let end = state.cores.now() + self.machine.switch_ps;
        state.cores.set_now(end);
        state.cores.yield_core(&self.machine);
        self.pass(task, state);
    }

    /// The address at which tasks wait for the end of another: no lock has it.
    fn end_of(&self, task: usize) -> usize {
        usize::MAX - task
    }

    /// Chooses the next task; `None` if it is the caller.
    fn hand_over(&self, task: usize, mut state: MutexGuard<'_, State>) -> Option<Arc<Baton>> {
        let Some(next) = state.cores.next(&self.machine) else {
            eprintln!("simulation: all threads wait: {:?}", state.cores);
            std::process::abort();
        };
        if next == task {
            return None;
        }
        state.switches += 1;
        let [mine, next] = [task, next].map(|task| state.batons[task].clone());
        drop(state);
        next.give();
        Some(mine)
    }

    /// The running task accesses an address.
    pub(super) fn access(&self, task: usize, address: usize, access: Access, place: AccessSite) {
        let mut state = self.state();
        let start = state.cores.now() + state.work_ps();
        state.cores.set_now(start);
        while state.must_wait(address, access, &self.machine) {
            state.cores.requeue(&self.machine);
            self.pass(task, state);
            state = self.state();
        }
        state.charge(task, address, access, place, &self.machine);
    }

    /// The running task uses a value that is protected by a lock which it holds.
    pub(super) fn access_value(
        &self,
        task: usize,
        (address, bytes): (usize, usize),
        access: Access,
        place: AccessSite,
    ) {
        let size = self.machine.line_bytes;
        let (first, end) = (address / size, (address + bytes).div_ceil(size));
        let mut state = self.state();
        for line in (first..end).take(DATA_LINES_MAX) {
            state.charge(task, line * size, access, place, &self.machine);
        }
    }

    /// The running task computes for `ps`.
    pub(super) fn work(&self, task: usize, ps: u64) {
        let mut state = self.state();
        let end = state.cores.now() + ps;
        state.cores.set_now(end);
        if end > state.cores.limit() || state.cores.is_slice_over(&self.machine) {
            state.cores.requeue(&self.machine);
            self.pass(task, state);
        }
    }

    /// The running task waits at the address for a lock, on its core at first.
    pub(super) fn await_lock(&self, task: usize, address: usize, side: Side) {
        let mut state = self.state();
        let (wait, begin) = (state.cores.next_wait(), state.cores.now());
        state.waiters.add(address, wait, side, address);
        state.cores.spin(&self.machine);
        self.pass(task, state);
        let State { cores, lines, .. } = &mut *self.state();
        lines.count_wait(address, cores.now() - begin, &self.machine);
    }

    /// The running task blocks at the address until it is woken, or until the deadline; true: it
    /// was the deadline. `lock` is the lock that it takes next.
    pub(super) fn block(
        &self,
        task: usize,
        mut state: MutexGuard<'_, State>,
        (address, lock): (usize, usize),
        deadline: Option<u64>,
    ) -> bool {
        let wait = state.cores.next_wait();
        state.waiters.add(address, wait, Side::Exclusive, lock);
        state.cores.block(deadline, &self.machine);
        drop(state);
        self.pass(task, self.state());
        self.state().cores.timed_out()
    }
}

impl State {
    /// Work between two accesses at present.
    fn work_ps(&self) -> u64 {
        if self.cores.others_are_busy() {
            self.busy_work_ps
        } else {
            self.work_ps
        }
    }

    /// Whether other tasks have to run before this access.
    fn must_wait(&self, address: usize, access: Access, machine: &Machine) -> bool {
        let (now, limit) = (self.cores.now(), self.cores.limit());
        if now <= limit {
            return self.cores.is_slice_over(machine);
        }
        let by = (self.cores.core(), now);
        now > limit + LOOKAHEAD_PS || !self.lines.is_quiet(address, by, access, machine, QUIET_PS)
    }

    fn charge(
        &mut self,
        task: usize,
        address: usize,
        access: Access,
        place: AccessSite,
        machine: &Machine,
    ) {
        let now = self.cores.now();
        let by = (self.cores.core(), now);
        let charge = self.lines.access(address, by, access, place, machine);
        self.cores.set_now(charge.end);
        self.accesses[task] += 1;
    }
}
