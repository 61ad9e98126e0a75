//! Assignment of FUSE queues to threads, and CPU affinity of the threads.
//!
//! The kernel has one queue per possible core and puts a request into the queue of the calling
//! core.

use crate::affinity::Affinity;
use crate::server::RequestClass;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The queues of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Core that the thread is pinned to.
    pub(super) cpu: Option<usize>,
    /// Queue numbers; the shares are disjoint.
    pub(super) queues: Vec<u16>,
}

/// Distributes all queues over `n_threads` threads; 0 means one per core that this process may use.
///
/// # Errors
/// The number of cores is unknown.
pub(super) fn shares(n_threads: usize) -> io::Result<Vec<Share>> {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let n_queues = count(possible.trim()).ok_or(io::ErrorKind::InvalidData)?;
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..usize::from(n_queues))
        .filter(|&cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu))
        .collect();
    Ok(deal(n_queues, &cpus, n_threads))
}

/// Number of elements in a list such as `0-3,8`.
fn count(list: &str) -> Option<u16> {
    list.split(',').try_fold(0, |sum: u16, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Pins the threads if each core has one. Queues of other cores are assigned round-robin.
fn deal(n_queues: u16, cpus: &[usize], n_threads: usize) -> Vec<Share> {
    let all = cpus.len().max(1);
    let n_shares = if n_threads == 0 {
        all
    } else {
        n_threads.min(all)
    };
    let stays = n_shares == cpus.len();
    let share = |index: usize| Share {
        cpu: cpus.get(index).copied().filter(|_| stays),
        queues: Vec::new(),
    };
    let mut shares: Vec<Share> = (0..n_shares).map(share).collect();
    for queue in 0..n_queues {
        let own = cpus.iter().position(|&cpu| cpu == usize::from(queue));
        let index = own.unwrap_or(queue.into()) % n_shares;
        shares[index].queues.push(queue);
    }
    shares.retain(|share| !share.queues.is_empty());
    shares
}

/// Consecutive short requests after which a thread returns to its core.
const SHORT_TO_STAY: u32 = 32;

/// CPU affinity of a thread. It is pinned to its core, where callers of short requests run. During
/// large transfers it may run on any core, because a caller on its own core processes the data.
pub(super) struct ThreadAffinity {
    affinity: Affinity,
    anywhere: CpuSet,
    /// Short requests since the last large transfer; [`SHORT_TO_STAY`] while the thread is pinned.
    n_short: u32,
}

impl ThreadAffinity {
    /// The place of a thread with `affinity` that may otherwise run where this one may.
    pub(super) fn new(affinity: Affinity) -> io::Result<Self> {
        Ok(Self {
            affinity,
            anywhere: sched_getaffinity(None)?,
            n_short: SHORT_TO_STAY,
        })
    }

    /// Pins the calling thread to its core.
    pub(super) fn stay(&self) {
        self.affinity.apply();
    }

    /// Accounts for a request that the calling thread is about to serve.
    pub(super) fn count_request(&mut self, class: RequestClass) {
        if class == RequestClass::Bulk {
            if self.n_short == SHORT_TO_STAY && self.affinity.is_pinned() {
                let _ = sched_setaffinity(None, &self.anywhere);
            }
            self.n_short = 0;
        } else if self.n_short < SHORT_TO_STAY {
            self.n_short += 1;
            if self.n_short == SHORT_TO_STAY {
                self.stay();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        for bad in ["", "a", "3-1", "0-70000"] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_thread_goes_where_there_is_room_while_much_data_come() {
        let pinned = || {
            let set = sched_getaffinity(None).expect("it may look");
            (set.count() == 1 && set.is_set(0)).then_some(())
        };
        if !sched_getaffinity(None).expect("it may look").is_set(0) {
            return;
        }
        let mut place = ThreadAffinity::new(Affinity::to(Some(0))).expect("it may look");
        let many = place.anywhere.count() > 1;
        place.stay();
        assert_eq!(pinned(), Some(()));
        place.count_request(RequestClass::Bulk);
        assert_eq!(pinned().is_none(), many);
        (1..SHORT_TO_STAY).for_each(|_| place.count_request(RequestClass::Soon));
        assert_eq!(pinned().is_none(), many);
        place.count_request(RequestClass::Soon);
        assert_eq!(pinned(), Some(()));
    }

    #[test]
    fn every_queue_has_one_thread() {
        for (cpus, n_threads) in [
            (vec![0, 1], 0),
            (vec![1, 3], 0),
            (vec![0, 1, 2, 3], 3),
            (vec![2], 9),
            (vec![], 0),
        ] {
            let shares = deal(6, &cpus, n_threads);
            let mut queues: Vec<u16> = shares
                .iter()
                .flat_map(|share| share.queues.clone())
                .collect();
            queues.sort_unstable();
            assert_eq!(queues, [0, 1, 2, 3, 4, 5], "{cpus:?} {n_threads}");
            let on_own_core = |share: &Share| match share.cpu {
                Some(cpu) => share.queues.contains(&(cpu as u16)),
                None => n_threads > 0 || cpus.is_empty(),
            };
            assert!(shares.iter().all(on_own_core), "{shares:?}");
        }
    }
}
