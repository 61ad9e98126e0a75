//! Placement of tasks (simulated threads) on cores, and their clocks.
//!
//! A task on a core runs in virtual time. A ready task waits for a core in one queue of the
//! machine; a woken one takes its home core if that is idle, else its last core, else the first
//! idle one: a task that had to make way once returns to its cache. A task that has used up its
//! time slice goes to the end of the queue while others are in it. Invariants: no core is idle
//! while a task is ready; `due` holds every task on a core but the running one and those that
//! spin. An entry of a timer or a wait queue is valid while its wait is the present one of its
//! task ([`Wait`]).

use super::machine::Machine;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// Looks at a lock of a thread that spins, as of `parking_lot`: on average it sees a release half
/// a round later.
const SPIN_ROUNDS: u64 = 10;

/// One wait of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait {
    pub(super) task: usize,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    OnCore,
    Ready,
    /// It waits on its core.
    Spinning,
    Blocked,
    Done,
}

#[derive(Debug)]
struct Task {
    clock: u64,
    /// The core that it prefers.
    home: usize,
    core: usize,
    status: Status,
    /// Start of its time slice.
    since: u64,
    waits: u64,
    timed_out: bool,
}

/// The cores and tasks of one simulation.
pub(super) struct Cores {
    tasks: Vec<Task>,
    idle: BTreeSet<usize>,
    count: usize,
    ready: VecDeque<usize>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    timers: BinaryHeap<Reverse<(u64, Wait)>>,
    running: usize,
}

impl Cores {
    pub(super) fn new(count: usize) -> Self {
        Self {
            tasks: Vec::new(),
            idle: (0..count).collect(),
            count,
            ready: VecDeque::new(),
            due: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            running: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether a core besides that of the running task has a task.
    pub(super) fn others_are_busy(&self) -> bool {
        self.idle.len() + 1 < self.count
    }

    /// Adds a task that may run from `at` on.
    pub(super) fn add(&mut self, at: u64) -> usize {
        let task = self.tasks.len();
        self.tasks.push(Task {
            clock: at,
            home: task % self.count,
            core: task % self.count,
            status: Status::Ready,
            since: at,
            waits: 0,
            timed_out: false,
        });
        self.assign_core(task, at);
        task
    }

    /// Clock of the running task.
    pub(super) fn now(&self) -> u64 {
        self.tasks[self.running].clock
    }

    /// Core of the running task.
    pub(super) fn core(&self) -> usize {
        self.tasks[self.running].core
    }

    /// Sets the clock of the running task.
    pub(super) fn set_now(&mut self, clock: u64) {
        self.tasks[self.running].clock = clock;
    }

    /// The earliest time at which something else happens.
    pub(super) fn limit(&self) -> u64 {
        let due = self.due.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        due.min(timer)
    }

    /// The running task stays on its core, and others may be earlier. At the end of its time slice
    /// it gives up the core if a task is ready.
    pub(super) fn requeue(&mut self, machine: &Machine) {
        if self.is_slice_over(machine) {
            self.move_to_end(machine)
        } else {
            self.due.push(Reverse((self.now(), self.running)))
        }
    }

    /// The running task goes on, after those that are ready and those that are earlier.
    pub(super) fn yield_core(&mut self, machine: &Machine) {
        if self.ready.is_empty() {
            self.due.push(Reverse((self.now(), self.running)))
        } else {
            self.move_to_end(machine)
        }
    }

    /// Whether the running task has used up its time slice and another is ready.
    pub(super) fn is_slice_over(&self, machine: &Machine) -> bool {
        let task = &self.tasks[self.running];
        let next = self.ready.front().map(|next| self.tasks[*next].clock);
        next.is_some_and(|ready| ready <= task.clock && task.clock - task.since > machine.slice_ps)
    }

    /// Whether no task but the running one is left.
    pub(super) fn is_last(&self) -> bool {
        self.tasks
            .iter()
            .filter(|task| task.status != Status::Done)
            .count()
            == 1
    }

    /// Whether the task has ended.
    pub(super) fn is_done(&self, task: usize) -> bool {
        self.tasks[task].status == Status::Done
    }

    /// The running task goes to the end of the queue of ready tasks.
    fn move_to_end(&mut self, machine: &Machine) {
        let (running, now) = (self.running, self.now());
        self.tasks[running].status = Status::Ready;
        self.ready.push_back(running);
        self.release(self.tasks[running].core, now, machine);
    }

    /// The wait that the running task begins with [`Self::block`] or [`Self::spin`].
    pub(super) fn next_wait(&self) -> Wait {
        let (task, number) = (self.running, self.tasks[self.running].waits + 1);
        Wait { task, number }
    }

    /// The running task waits on its core for at most the time of spinning, then it blocks.
    pub(super) fn spin(&mut self, machine: &Machine) {
        let wait = self.begin_wait(Status::Spinning);
        let end = self.now() + machine.spin_ps;
        self.timers.push(Reverse((end, wait)));
    }

    /// The running task blocks, at most until the deadline.
    pub(super) fn block(&mut self, deadline: Option<u64>, machine: &Machine) {
        let wait = self.begin_wait(Status::Blocked);
        if let Some(deadline) = deadline {
            self.timers.push(Reverse((deadline.max(self.now()), wait)));
        }
        let end = self.now() + machine.block_ps;
        self.tasks[self.running].clock = end;
        self.release(self.core(), end, machine);
    }

    fn begin_wait(&mut self, status: Status) -> Wait {
        let wait = self.next_wait();
        let task = &mut self.tasks[self.running];
        (task.status, task.waits, task.timed_out) = (status, wait.number, false);
        wait
    }

    /// Whether the wait of the running task, which is over, ended by its deadline.
    pub(super) fn timed_out(&self) -> bool {
        self.tasks[self.running].timed_out
    }

    /// The status of the task in this wait; `None` if the wait is over.
    pub(super) fn waits(&self, wait: Wait) -> Option<Status> {
        let task = &self.tasks[wait.task];
        let waits = matches!(task.status, Status::Spinning | Status::Blocked);
        (waits && task.waits == wait.number).then_some(task.status)
    }

    /// Ends a wait at `at`; a blocked task runs after the latency of a wake-up, one that spins when
    /// it looks again.
    pub(super) fn wake(&mut self, wait: Wait, at: u64, machine: &Machine) {
        let task = &mut self.tasks[wait.task];
        if task.status == Status::Spinning {
            let at = at + machine.spin_ps / (2 * SPIN_ROUNDS);
            (task.clock, task.status) = (task.clock.max(at), Status::OnCore);
            self.due.push(Reverse((task.clock, wait.task)));
        } else {
            let at = task.clock.max(at + machine.wake_latency_ps);
            self.assign_core(wait.task, at);
        }
    }

    /// The running task is done; releases its core.
    pub(super) fn finish(&mut self, machine: &Machine) {
        let now = self.now();
        self.tasks[self.running].status = Status::Done;
        self.release(self.core(), now, machine);
    }

    /// Chooses the task with the smallest clock to run; `None`: all wait for each other.
    pub(super) fn next(&mut self, machine: &Machine) -> Option<usize> {
        loop {
            let due = self.due.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            match self.timers.peek() {
                Some(Reverse((at, wait))) if *at <= due => {
                    let (at, wait) = (*at, *wait);
                    self.timers.pop();
                    self.expire(wait, at, machine);
                }
                _ => break,
            }
        }
        let Reverse((_, task)) = self.due.pop()?;
        self.running = task;
        Some(task)
    }

    fn expire(&mut self, wait: Wait, at: u64, machine: &Machine) {
        match self.waits(wait) {
            Some(Status::Spinning) => {
                let end = at + machine.block_ps;
                let task = &mut self.tasks[wait.task];
                (task.status, task.clock) = (Status::Blocked, end);
                let core = task.core;
                self.release(core, end, machine);
            }
            Some(_) => {
                self.tasks[wait.task].timed_out = true;
                self.wake(wait, at, machine);
            }
            None => {}
        }
    }

    /// Gives the task an idle core, or lets it wait for one.
    fn assign_core(&mut self, id: usize, at: u64) {
        let Task {
            home, core: last, ..
        } = self.tasks[id];
        let known = [home, last];
        let known = known.into_iter().find(|core| self.idle.contains(core));
        let idle = known.or_else(|| self.idle.first().copied());
        let task = &mut self.tasks[id];
        task.clock = at;
        match idle {
            Some(core) => {
                self.idle.remove(&core);
                (task.core, task.status, task.since) = (core, Status::OnCore, at);
                self.due.push(Reverse((at, id)));
            }
            None => {
                task.status = Status::Ready;
                self.ready.push_back(id);
            }
        }
    }

    /// A core is free from `at` on: the first ready task gets it.
    fn release(&mut self, core: usize, at: u64, machine: &Machine) {
        let Some(id) = self.ready.pop_front() else {
            self.idle.insert(core);
            return;
        };
        let task = &mut self.tasks[id];
        let start = task.clock.max(at) + machine.switch_ps;
        (task.core, task.status) = (core, Status::OnCore);
        (task.clock, task.since) = (start, start);
        self.due.push(Reverse((start, id)));
    }
}

impl std::fmt::Debug for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.tasks).finish()
    }
}
