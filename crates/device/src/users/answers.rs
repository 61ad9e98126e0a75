//! Queries every process with a time limit, and skips those that do not answer.
//!
//! Following `/proc/PID/fd/N` takes the `exec_update_lock` of the process. `execve(2)` holds it
//! while it closes files, which waits for the server of a file's mount: any user can make that wait
//! endless. So another thread queries, and when it blocks a further one continues after it.
//!
//! Invariant: the caller waits for at most [`LIMIT`]. A blocked thread ends with its answer or with
//! the program.

use std::time::{Duration, Instant};
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::mpsc::{RecvTimeoutError, Sender, channel};
use uext4_sync::{Arc, thread};

/// Time limit for all processes together.
const LIMIT: Duration = Duration::from_secs(2);
/// Time limit per process, after which the next one is queried.
const LIMIT_OF_ONE: Duration = Duration::from_millis(100);

/// Message of a querying thread.
enum Told<T> {
    /// The answer about one process.
    Answer(Option<T>),
    /// All processes were queried.
    All,
}

/// The processes, and the query for one of them.
struct Question<F> {
    pids: Vec<u32>,
    /// Index of the next one.
    next: AtomicUsize,
    ask: F,
}

/// The answers of `ask` about the processes for which it has one.
pub(super) fn answers<T, F>(pids: Vec<u32>, ask: F) -> impl Iterator<Item = T>
where
    T: Send + 'static,
    F: Fn(u32) -> Option<T> + Send + Sync + 'static,
{
    let next = AtomicUsize::new(0);
    let question = Arc::new(Question { pids, next, ask });
    let (teller, told) = channel();
    let mut goes_on = start(question.clone(), teller.clone());
    let deadline = Instant::now() + LIMIT;
    std::iter::from_fn(move || {
        while goes_on {
            let left = deadline.saturating_duration_since(Instant::now());
            match told.recv_timeout(left.min(LIMIT_OF_ONE)) {
                Ok(Told::Answer(Some(answer))) => return Some(answer),
                Ok(Told::Answer(None)) => {}
                Ok(Told::All) | Err(RecvTimeoutError::Disconnected) => goes_on = false,
                Err(RecvTimeoutError::Timeout) => {
                    goes_on = !left.is_zero() && start(question.clone(), teller.clone());
                }
            }
        }
        None
    })
}

/// Starts a querying thread; false if that fails.
fn start<T, F>(question: Arc<Question<F>>, teller: Sender<Told<T>>) -> bool
where
    T: Send + 'static,
    F: Fn(u32) -> Option<T> + Send + Sync + 'static,
{
    let thread = thread::Builder::new().name("uext4-users".to_owned());
    thread.spawn(move || ask_all(&question, &teller)).is_ok()
}

/// Asks about one process after the other, until the receiver is gone.
fn ask_all<T, F: Fn(u32) -> Option<T>>(question: &Question<F>, teller: &Sender<Told<T>>) {
    while let Some(pid) = question.take() {
        // The receiver may have found its answer.
        if teller.send(Told::Answer((question.ask)(pid))).is_err() {
            return;
        }
    }
    let _ = teller.send(Told::All);
}

impl<F> Question<F> {
    fn take(&self) -> Option<u32> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        self.pids.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_process_without_an_answer_is_left_out() {
        let open = Arc::new(Barrier::new(2));
        let gate = open.clone();
        let ask = move |pid| {
            if pid == 2 {
                gate.wait();
            }
            (pid != 3).then_some(pid)
        };
        let found: Vec<u32> = answers((0..6).collect(), ask).collect();
        assert_eq!(found, [0, 1, 4, 5]);
        open.wait();
    }

    #[test]
    fn the_wait_ends_when_nothing_answers() {
        // Without a limit this waits for ever.
        let ask = |_| -> Option<u32> {
            loop {
                thread::park();
            }
        };
        assert_eq!(answers((0..1000).collect(), ask).next(), None);
    }
}
