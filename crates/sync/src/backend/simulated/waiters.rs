//! Queues of tasks that wait at an address: of a lock, a condition variable, a cell or a thread.
//!
//! Locks are as those of `parking_lot`: a release wakes the first waiter, which tries again, so a
//! running thread may be faster. Waiters spin before they block; a release also lets the first one
//! go on that spins. A waiting writer keeps new readers out.

use super::cores::{Cores, Status, Wait};
use super::line::AddressMap;
use super::machine::Machine;
use std::collections::VecDeque;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    wait: Wait,
    side: Side,
    /// The lock to take after the wait on a condition variable.
    lock: usize,
}

/// The tasks that wait, by address.
#[derive(Default)]
pub(super) struct Waiters {
    queues: AddressMap<VecDeque<Waiter>>,
    /// Number of waiting writers by lock.
    writers: AddressMap<usize>,
}

impl Waiters {
    /// Adds the next wait of the running task.
    pub(super) fn add(&mut self, address: usize, wait: Wait, side: Side, lock: usize) {
        let waiter = Waiter { wait, side, lock };
        self.queues.entry(address).or_default().push_back(waiter);
    }

    /// Whether a writer waits for the lock.
    pub(super) fn has_writer(&self, address: usize) -> bool {
        self.writers.get(&address).is_some_and(|count| *count > 0)
    }

    /// Counts the writers that wait for the lock.
    pub(super) fn count_writer(&mut self, address: usize, is_waiting: bool) {
        let count = self.writers.entry(address).or_default();
        *count = if is_waiting { *count + 1 } else { *count - 1 };
    }

    /// Whether a task waits at the address.
    pub(super) fn is_waited_for(&mut self, address: usize, cores: &Cores) -> bool {
        self.first(address, cores).is_some()
    }

    /// Wakes the waiters that the release of a lock concerns.
    pub(super) fn release(&mut self, address: usize, cores: &mut Cores, machine: &Machine) {
        let Some(first) = self.first(address, cores) else {
            return;
        };
        let spins = |waiter: &Waiter| cores.waits(waiter.wait) == Some(Status::Spinning);
        let mut go_on: Vec<Waiter> = Vec::new();
        if let Some(queue) = self.queues.get_mut(&address) {
            let is_shared = first.side == Side::Shared;
            go_on.extend(queue.pop_front());
            while is_shared && queue.front().is_some_and(|next| next.side == Side::Shared) {
                go_on.extend(queue.pop_front());
            }
            if !go_on.iter().any(spins) {
                let spinner = queue.iter().position(spins);
                go_on.extend(spinner.and_then(|at| queue.remove(at)));
            }
        }
        go_on
            .into_iter()
            .for_each(|one| wake(one.wait, cores, machine));
    }

    /// Wakes the first waiter in the queue of `address`, if there is one.
    pub(super) fn notify_one(&mut self, address: usize, cores: &mut Cores, machine: &Machine) {
        if self.first(address, cores).is_some()
            && let Some(queue) = self.queues.get_mut(&address)
            && let Some(one) = queue.pop_front()
        {
            wake(one.wait, cores, machine);
        }
    }

    /// Wakes all waiters of a condition variable, the first one now and each other when the lock
    /// is released to it.
    pub(super) fn notify_all(&mut self, address: usize, cores: &mut Cores, machine: &Machine) {
        self.notify_one(address, cores, machine);
        for waiter in self.queues.remove(&address).unwrap_or_default() {
            self.queues
                .entry(waiter.lock)
                .or_default()
                .push_back(waiter);
        }
    }

    /// Wakes all waiters now.
    pub(super) fn wake_all(&mut self, address: usize, cores: &mut Cores, machine: &Machine) {
        for waiter in self.queues.remove(&address).unwrap_or_default() {
            wake(waiter.wait, cores, machine);
        }
    }

    /// The first waiter; forgets those before it whose wait is over.
    fn first(&mut self, address: usize, cores: &Cores) -> Option<Waiter> {
        let queue = self.queues.get_mut(&address)?;
        while let Some(waiter) = queue.front() {
            if cores.waits(waiter.wait).is_some() {
                return Some(*waiter);
            }
            queue.pop_front();
        }
        self.queues.remove(&address);
        None
    }
}

/// The running task wakes another one, and pays for it if that has blocked.
fn wake(wait: Wait, cores: &mut Cores, machine: &Machine) {
    match cores.waits(wait) {
        None => return,
        Some(Status::Spinning) => {}
        Some(_) => cores.set_now(cores.now() + machine.wake_ps),
    }
    cores.wake(wait, cores.now(), machine);
}
