//! Elects one merging thread per directory; it drains the queue of the others.
//!
//! Each merge needs the structure exclusively, so threads would wait for each other, and for a
//! preempted holder. If the queue is long, a non-empty leaf is dropped: it is noted again when it
//! loses more names. A server that has done enough is relieved by the next thread that notes a
//! leaf, and otherwise continues until the queue is empty, so no note is stranded.
//!
//! Locking: [`Rank::Queue`], held to push or take.

use uext4_sync::{Mutex, Rank};

/// Queue lengths from which empty leaves and other leaves are not queued.
const BLANK_MAX: usize = 1024;
const SPARSE_MAX: usize = 64;
/// Leaves that a server processes before another thread may relieve it.
const SERVED_ENOUGH: usize = 256;

/// The queued names of one directory.
pub(crate) struct SparseNames(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    names: Vec<Vec<u8>>,
    /// The server, if there is one, and the number of leaves it has processed.
    server: Option<Server>,
    served: usize,
    /// Number of servers so far.
    servers: u64,
}

/// Token of the thread that drains the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Server(u64);

impl Default for SparseNames {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, Waiting::default()))
    }
}

/// The thread that processes a leaf.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Election {
    /// The present server, or none: the note was queued or dropped.
    Another,
    /// The caller, as the server: it drains the queue until [`SparseNames::next`] is empty.
    Server(Server),
    /// The caller, for this leaf only.
    Own(Vec<u8>),
}

impl SparseNames {
    /// Queues the leaf of `name`, and decides which thread processes it.
    pub(crate) fn push(&self, name: Vec<u8>, is_blank: bool) -> Election {
        let mut waiting = self.0.lock();
        let is_served = waiting.server.is_some() && waiting.served < SERVED_ENOUGH;
        match waiting.names.len() {
            BLANK_MAX.. if is_served && is_blank => return Election::Own(name),
            SPARSE_MAX.. if is_served && !is_blank => return Election::Another,
            _ => waiting.names.push(name),
        }
        if is_served {
            return Election::Another;
        }
        waiting.servers += 1;
        waiting.served = 0;
        let server = Server(waiting.servers);
        waiting.server = Some(server);
        Election::Server(server)
    }

    /// The server's next name; `None` ends its turn.
    pub(crate) fn next(&self, server: Server) -> Option<Vec<u8>> {
        let mut waiting = self.0.lock();
        if waiting.server != Some(server) {
            return None;
        }
        let name = waiting.names.pop();
        if name.is_none() {
            waiting.server = None;
        }
        waiting.served += 1;
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(nr: usize) -> Vec<u8> {
        nr.to_string().into_bytes()
    }

    fn server(election: Election) -> Server {
        match election {
            Election::Server(server) => server,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_looks_at_what_all_note_until_nothing_waits() {
        let names = SparseNames::default();
        let first = server(names.push(name(0), false));
        for nr in 1..BLANK_MAX {
            assert_eq!(names.push(name(nr), true), Election::Another);
            let dropped = nr + BLANK_MAX;
            if nr >= SPARSE_MAX {
                assert_eq!(names.push(name(dropped), false), Election::Another);
            }
        }
        let more = name(BLANK_MAX);
        assert_eq!(names.push(more.clone(), true), Election::Own(more));
        let mut served: Vec<_> = std::iter::from_fn(|| names.next(first)).collect();
        served.sort_by_key(|name| String::from_utf8_lossy(name).parse::<usize>().ok());
        assert_eq!(served, (0..BLANK_MAX).map(name).collect::<Vec<_>>());
        assert_ne!(server(names.push(name(1), false)), first);
    }

    #[test]
    fn who_did_enough_is_relieved() {
        let names = SparseNames::default();
        let first = server(names.push(name(0), true));
        for nr in 1..=SERVED_ENOUGH {
            assert_eq!(names.push(name(nr), true), Election::Another);
        }
        for _ in 0..SERVED_ENOUGH {
            assert!(names.next(first).is_some());
        }
        let second = server(names.push(name(SERVED_ENOUGH + 1), true));
        assert_eq!(names.next(first), None);
        assert!(names.next(second).is_some() && names.next(second).is_some());
        assert_eq!(names.next(second), None);
    }
}
