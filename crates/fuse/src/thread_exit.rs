//! Reports of transport threads about their end, to the thread that waits for the mount.
//!
//! Invariants: each thread reports once, so the waiting thread learns of the first end while others
//! still serve. An unused thread only decrements the count.

use crate::transport::Ended;
use std::io;
use std::time::{Duration, Instant};
use uext4_sync::{Arc, Condvar, Mutex, Rank};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection to the kernel is gone.
    Disconnected,
    /// The thread failed; requests assigned to it hang.
    Failed,
}

/// Reports of all threads of a mount.
#[derive(Clone)]
pub(crate) struct Ends(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    first: Option<End>,
    n_serving: usize,
}

/// Reports the end of one thread.
pub(crate) struct Teller(Ends);

impl Default for Ends {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(Rank::Queue, State::default()),
            changed: Condvar::new(),
        }))
    }
}

impl Ends {
    /// Reporter for one more thread.
    pub(crate) fn teller(&self) -> Teller {
        self.0.state.lock().n_serving += 1;
        Teller(self.clone())
    }

    /// Waits for the first end. If any thread was used, one comes with the end of the connection.
    pub(crate) fn first(&self) -> End {
        let mut state = self.0.state.lock();
        loop {
            match state.first {
                Some(end) => return end,
                None if state.n_serving == 0 => return End::Disconnected,
                None => self.0.changed.wait(&mut state),
            }
        }
    }

    /// Whether all threads end within `limit`.
    pub(crate) fn come(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut state = self.0.state.lock();
        while state.n_serving > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.0.changed.wait_for(&mut state, left);
        }
        true
    }
}

impl Teller {
    /// Reports the end of the thread.
    pub(crate) fn report(self, ended: &io::Result<Ended>) {
        let end = match ended {
            Ok(Ended::Unused) => None,
            Ok(Ended::Disconnected) => Some(End::Disconnected),
            Err(_) => Some(End::Failed),
        };
        let Ends(shared) = &self.0;
        let mut state = shared.state.lock();
        state.n_serving -= 1;
        state.first = state.first.or(end);
        drop(state);
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_of_a_used_thread_counts() {
        let ends = Ends::default();
        let tellers: Vec<_> = (0..3).map(|_| ends.teller()).collect();
        let mut tellers = tellers.into_iter();
        let mut tell = |ended| tellers.next().expect("there are three").report(&ended);
        tell(Ok(Ended::Unused));
        assert!(!ends.come(Duration::ZERO));
        tell(Err(io::ErrorKind::Other.into()));
        tell(Ok(Ended::Disconnected));
        assert_eq!(ends.first(), End::Failed);
        assert!(ends.come(Duration::ZERO));
    }

    #[test]
    fn without_threads_there_is_no_connection() {
        assert_eq!(Ends::default().first(), End::Disconnected);
    }
}
