//! The thread of a ring: requests come, answers go.
//!
//! What is answered in a moment is answered here. What takes longer goes to a helper together with
//! its entry, comes back through [`Returned`], and its answer goes to the kernel from here: a ring
//! belongs to one thread.
//!
//! Invariants: a queue has [`SPARE`] entries that no helper has, so that the kernel can send
//! requests however many wait; data that a seek waits for come as such requests.

use super::cpus::{Share, stay_on};
use super::entry::{Entry, Scratch};
use super::ring::{Completion, Returned, Ring};
use crate::server::{Pace, Server};
use crate::transport::{DevFuse, Service, Transport};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Entries of a queue at the beginning.
const ENTRIES: usize = 8;
/// Entries of a queue that helpers do not get.
const SPARE: usize = 2;

/// A ring, its queues and their thread.
pub(crate) struct Queue {
    ring: Ring,
    cpu: Option<usize>,
    pools: Vec<Pool>,
    /// Hears how the thread began.
    teller: Option<Sender<io::Result<()>>>,
    /// Entries that the kernel uses, or will again.
    n_alive: usize,
    /// Requests that came while others began.
    #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
    early: Vec<Box<Entry>>,
    scratch: Scratch,
}

/// The entries of a queue.
struct Pool {
    queue: u16,
    n_entries: usize,
    n_helped: usize,
}

impl Queue {
    /// Makes a ring for a share of the queues.
    pub(super) fn new(
        device: DevFuse,
        share: Share,
        teller: Sender<io::Result<()>>,
    ) -> io::Result<Self> {
        let pool = |queue| Pool {
            queue,
            n_entries: 0,
            n_helped: 0,
        };
        Ok(Self {
            ring: Ring::new(device)?,
            cpu: share.cpu,
            pools: share.queues.into_iter().map(pool).collect(),
            teller: Some(teller),
            n_alive: 0,
            #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
            early: Vec::new(),
            scratch: Vec::new(),
        })
    }

    fn begin(&mut self) -> io::Result<()> {
        if let Some(cpu) = self.cpu {
            stay_on(cpu);
        }
        self.ring.begin()?;
        for index in 0..self.pools.len() {
            for _ in 0..ENTRIES {
                self.add_entry(index)?;
            }
        }
        self.ring.submit()?;
        // The kernel refuses at once; what it takes completes with the first request.
        while let Some(completion) = self.ring.next()? {
            match completion {
                Completion::Lost(error) => return Err(error),
                Completion::Request(entry) => self.early.push(entry),
                Completion::Bell => {}
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, index: usize) -> io::Result<()> {
        let pool = &mut self.pools[index];
        pool.n_entries += 1;
        self.n_alive += 1;
        self.ring.register(Box::new(Entry::new(pool.queue)))
    }

    fn run(&mut self, service: &Service) -> io::Result<()> {
        for entry in std::mem::take(&mut self.early) {
            self.take(entry, service)?;
        }
        while self.n_alive > 0 {
            self.ring.wait()?;
            while let Some(completion) = self.ring.next()? {
                match completion {
                    Completion::Request(entry) => self.take(entry, service)?,
                    // The file system was unmounted.
                    Completion::Lost(_) => self.n_alive -= 1,
                    Completion::Bell => self.take_back()?,
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, mut entry: Box<Entry>, service: &Service) -> io::Result<()> {
        let (pace, _pass) = entry.admit(&service.server);
        if pace != Pace::Soon && self.lend(entry.queue, pace)? {
            match pace {
                Pace::Halted => park(entry, service.server.clone(), self.ring.returned().clone()),
                pace => self.leave_to_helper(entry, pace, service),
            }
            return Ok(());
        }
        entry.serve(&service.server, pace, &mut self.scratch);
        self.ring.commit(entry)
    }

    /// Counts an entry that a helper gets; false when it should not get it.
    fn lend(&mut self, queue: u16, pace: Pace) -> io::Result<bool> {
        let Some(index) = self.pools.iter().position(|pool| pool.queue == queue) else {
            return Ok(false);
        };
        let pool = &self.pools[index];
        let is_last = pool.n_helped + SPARE >= pool.n_entries;
        match pace {
            // Data can be moved here as well, and their entries are large.
            Pace::Bulk if is_last => return Ok(false),
            _ if is_last => self.add_entry(index)?,
            _ => {}
        }
        self.pools[index].n_helped += 1;
        Ok(true)
    }

    fn leave_to_helper(&self, mut entry: Box<Entry>, pace: Pace, service: &Service) {
        let (server, returned) = (service.server.clone(), self.ring.returned().clone());
        service.helpers.leave(move || {
            entry.serve(&server, pace, &mut Scratch::new());
            returned.give(entry);
        });
    }

    fn take_back(&mut self) -> io::Result<()> {
        for entry in self.ring.returned().take() {
            let pool = self.pools.iter_mut().find(|pool| pool.queue == entry.queue);
            if let Some(pool) = pool {
                pool.n_helped -= 1;
            }
            self.ring.commit(entry)?;
        }
        Ok(())
    }
}

/// Keeps a change until it may be served.
fn park(entry: Box<Entry>, server: Arc<Server>, returned: Arc<Returned>) {
    let again = server.clone();
    server.halt().park(move || {
        let mut entry = entry;
        let (pace, pass) = entry.admit(&again);
        if pace == Pace::Halted {
            drop(pass);
            return park(entry, again, returned);
        }
        entry.serve(&again, pace, &mut Scratch::new());
        drop(pass);
        returned.give(entry);
    });
}

impl Transport for Queue {
    fn serve(&mut self, service: &Service) -> io::Result<()> {
        let begun = self.begin();
        let failed = begun.is_err();
        if let Some(teller) = self.teller.take() {
            // Who mounts waits for it.
            let _ = teller.send(begun);
        }
        // It has been told, and the kernel goes on without rings.
        if failed { Ok(()) } else { self.run(service) }
    }
}
