//! Workers in lockstep, as simulated threads: each phase begins at one moment for all.

use crate::experiments::{self, Task};
use anyhow::{Result, anyhow};
use std::sync::Arc;
use std::time::Duration;
use uext4_sync::simulation::{self, AccessCounts};
use uext4_sync::{Condvar, Mutex, Rank, thread};

/// Cache lines that a report names.
const HOTTEST: usize = 10;
/// Time to wake the workers before a phase.
const HEAD_START: Duration = Duration::from_millis(5);
const HEAD_START_EACH: Duration = Duration::from_micros(50);

/// Work between two accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) ps: u64,
    /// Its time while another core is busy, as a multiple.
    pub(super) busy_scale: f64,
}

impl Work {
    /// In background threads, and in phases that are not measured.
    pub(super) const NONE: Self = Self {
        ps: 0,
        busy_scale: 1.0,
    };

    /// As long while other cores are busy.
    pub(super) fn of_ps(ps: u64) -> Self {
        Self { ps, ..Self::NONE }
    }

    /// Begins it, for all threads.
    pub(super) fn set(self) {
        let busy_ps = (self.ps as f64 * self.busy_scale) as u64;
        simulation::set_work_per_access(self.ps, busy_ps);
    }
}

/// Result of one worker in one phase.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) amount: u64,
    pub(super) began: Duration,
    pub(super) ended: Duration,
    /// Its accesses to shared memory.
    pub(super) accesses: u64,
    /// Times of single calls, where the experiment takes them.
    pub(super) latencies: Vec<Duration>,
}

#[derive(Default)]
struct State {
    /// Number of orders so far.
    orders: u64,
    phase: usize,
    start: Duration,
    is_over: bool,
    done: Vec<Done>,
    failure: Option<anyhow::Error>,
    /// Workers that are ready for orders.
    ready: usize,
    report: AccessCounts,
}

/// The orders for the workers, and their answers.
pub(super) struct Schedule {
    workers: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// The virtual time; zero outside of a simulation.
pub(super) fn now() -> Duration {
    simulation::now().unwrap_or_default()
}

impl Schedule {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers,
            state: Mutex::new(Rank::Queue, State::default()),
            changed: Condvar::new(),
        }
    }

    /// Waits until all workers are ready.
    pub(super) fn await_ready(&self) {
        let mut state = self.state.lock();
        while state.ready < self.workers {
            self.changed.wait(&mut state);
        }
    }

    /// Runs a phase with this work between two accesses.
    pub(super) fn phase(&self, phase: usize, work: Work) -> Result<(Vec<Done>, AccessCounts)> {
        let mut state = self.state.lock();
        let head = HEAD_START + HEAD_START_EACH * u32::try_from(self.workers)?;
        state.done.clear();
        (state.orders, state.phase) = (state.orders + 1, phase);
        state.start = now() + head;
        work.set();
        self.changed.notify_all();
        while state.done.len() < self.workers && state.failure.is_none() {
            self.changed.wait(&mut state);
        }
        Work::NONE.set();
        match state.failure.take() {
            Some(error) => Err(error),
            None => Ok((std::mem::take(&mut state.done), state.report.clone())),
        }
    }

    /// Ends the phases, so that the workers return.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Starts a worker; `make` runs in its thread.
    pub(super) fn start(
        self: &Arc<Self>,
        task: Task,
        make: impl FnOnce(Task) -> Result<Box<dyn experiments::Work>> + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let schedule = Arc::clone(self);
        thread::spawn(move || {
            let worker = task.worker;
            match make(task) {
                Ok(work) => schedule.work(worker, work),
                Err(error) => schedule.fail(error),
            }
        })
    }

    fn fail(&self, error: anyhow::Error) {
        let mut state = self.state.lock();
        state.failure = Some(error);
        state.ready += 1;
        self.changed.notify_all();
    }

    fn work(&self, worker: u32, mut work: Box<dyn experiments::Work>) {
        let mut seen = 0;
        {
            let mut state = self.state.lock();
            state.ready += 1;
            self.changed.notify_all();
        }
        while let Some((order, phase, start)) = self.next_order(seen) {
            seen = order;
            thread::sleep(start.saturating_sub(now()));
            if worker == 0 {
                simulation::reset_counts();
            }
            match measured(&mut *work, phase) {
                Ok(done) => self.add(done),
                Err(error) => return self.fail(error),
            }
        }
    }

    fn next_order(&self, seen: u64) -> Option<(u64, usize, Duration)> {
        let mut state = self.state.lock();
        while state.orders == seen && !state.is_over {
            self.changed.wait(&mut state);
        }
        (!state.is_over).then_some((state.orders, state.phase, state.start))
    }

    fn add(&self, done: Done) {
        let mut state = self.state.lock();
        state.done.push(done);
        if state.done.len() == self.workers {
            state.report = simulation::report(HOTTEST);
            self.changed.notify_all();
        }
    }
}

fn measured(work: &mut dyn experiments::Work, phase: usize) -> Result<Done> {
    let (before, began) = (simulation::accesses(), now());
    let amount = work.phase(phase)?;
    let (after, ended) = (simulation::accesses(), now());
    if ended <= began {
        return Err(anyhow!("a phase took no time"));
    }
    let accesses = after - before;
    Ok(Done {
        amount,
        began,
        ended,
        accesses,
        latencies: work.take_latencies(),
    })
}
