//! The thread of a ring: requests come, answers go.
//!
//! What is answered in a moment is answered here. What takes longer goes to a helper together with
//! its entry, comes back through [`Returned`], and its answer goes to the kernel from here: a ring
//! belongs to one thread.
//!
//! Invariants: [`ENTRIES`] entries of a queue at least hold no request that waits for other
//! requests ([`Pace::Asks`], [`Pace::Halted`]): for each that goes away another entry is added.
//! Those entries are answered without the kernel's help, in pools that serve no asker, and with
//! each answer the kernel sends the next request that waits in its queue: so no request waits
//! forever. An entry that is added when all are taken would not do, since the kernel looks for
//! waiting requests at answers only. A parked request comes back through [`Returned`] as it came
//! and is admitted again.

use super::cpus::{Place, Share};
use super::entry::{Away, Entry, Scratch};
use super::ring::{Completion, Returned, Ring};
use crate::aside::Job;
use crate::errno::Errno;
use crate::server::{Pace, Server};
use crate::transport::{Ended, Service, Transport};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Entries of a queue at the beginning. The kernel takes the one that it used last, so most are
/// never touched and cost addresses only.
const ENTRIES: usize = 64;
/// Requests of a queue that may wait for others while they are served. Parked ones are as many as
/// there are callers.
const ASKING_MAX: usize = 256;

/// A ring, its queues and their thread.
pub(crate) struct Queue {
    ring: Ring,
    place: Place,
    pools: Vec<Pool>,
    /// Hears how the thread began.
    teller: Option<Sender<io::Result<()>>>,
    /// Entries that the kernel uses, or will again.
    n_alive: usize,
    /// Entries whose data helpers copy.
    n_copied: usize,
    /// Requests that came while others began.
    #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
    early: Vec<Box<Entry>>,
    scratch: Scratch,
}

/// The entries of a queue.
struct Pool {
    queue: u16,
    n_entries: usize,
    /// Those whose requests wait for others or are parked.
    n_away: usize,
    /// Those whose requests wait for others.
    n_asking: usize,
}

impl Queue {
    /// Makes a ring for a share of the queues.
    pub(super) fn new(
        ring: Ring,
        share: Share,
        teller: Sender<io::Result<()>>,
    ) -> io::Result<Self> {
        let pool = |queue| Pool {
            queue,
            n_entries: 0,
            n_away: 0,
            n_asking: 0,
        };
        Ok(Self {
            ring,
            place: Place::new(share.cpu)?,
            pools: share.queues.into_iter().map(pool).collect(),
            teller: Some(teller),
            n_alive: 0,
            n_copied: 0,
            #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
            early: Vec::new(),
            scratch: Vec::new(),
        })
    }

    fn begin(&mut self) -> io::Result<()> {
        self.place.stay();
        self.ring.begin()?;
        let queues: Vec<u16> = self.pools.iter().map(|pool| pool.queue).collect();
        for queue in queues.into_iter().flat_map(|queue| [queue; ENTRIES]) {
            self.add_entry(queue)?;
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

    fn add_entry(&mut self, queue: u16) -> io::Result<()> {
        if let Some(pool) = self.pool(queue) {
            pool.n_entries += 1;
        }
        self.n_alive += 1;
        self.ring.register(Box::new(Entry::new(queue)))
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
                    Completion::Bell => self.take_back(service)?,
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, mut entry: Box<Entry>, service: &Service) -> io::Result<()> {
        let (pace, _pass) = entry.admit(&service.server);
        self.place.note(pace);
        match pace {
            Pace::Soon => entry.serve(&service.server, pace, &mut self.scratch),
            // Handing it over and back would only cost its caller two wake-ups.
            Pace::Awaited if self.n_copied == 0 && !self.ring.has_next() => {
                entry.serve(&service.server, pace, &mut self.scratch);
            }
            Pace::Asks if !self.may_ask(entry.queue) => entry.refuse(Errno::EAGAIN),
            Pace::MayAsk if !self.may_ask(entry.queue) => {
                entry.serve(&service.server, Pace::Soon, &mut self.scratch);
            }
            Pace::Asks | Pace::MayAsk => {
                self.send_away(&mut entry, Away::Asks)?;
                service.askers.leave(self.job(entry, service));
                return Ok(());
            }
            // The askers may all wait for requests that need this entry.
            Pace::Waits => {
                service.waiters.leave(self.job(entry, service));
                return Ok(());
            }
            // The askers may all wait for this very request.
            Pace::Awaited | Pace::Bulk => {
                entry.is_copied = true;
                self.n_copied += 1;
                service.copiers.leave(self.job(entry, service));
                return Ok(());
            }
            Pace::Halted => {
                self.send_away(&mut entry, Away::Parked)?;
                park(entry, &service.server, self.ring.returned().clone());
                return Ok(());
            }
        }
        self.ring.commit(entry)
    }

    fn pool(&mut self, queue: u16) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.queue == queue)
    }

    /// Whether one more request of the queue may wait for others.
    fn may_ask(&mut self, queue: u16) -> bool {
        self.pool(queue)
            .is_some_and(|pool| pool.n_asking < ASKING_MAX)
    }

    /// Counts an entry that the kernel gets no answer through for a while, and adds another for it.
    fn send_away(&mut self, entry: &mut Entry, why: Away) -> io::Result<()> {
        entry.away = Some(why);
        let Some(pool) = self.pool(entry.queue) else {
            return Ok(());
        };
        pool.n_away += 1;
        pool.n_asking += usize::from(why == Away::Asks);
        match pool.n_entries < pool.n_away + ENTRIES {
            true => self.add_entry(entry.queue),
            false => Ok(()),
        }
    }

    /// Serves the entry's request and returns it. A change that may not go on any more is returned
    /// as it came.
    fn job(&self, mut entry: Box<Entry>, service: &Service) -> Job {
        let (server, returned) = (service.server.clone(), self.ring.returned().clone());
        Box::new(move || {
            let (pace, pass) = entry.admit(&server);
            match pace {
                Pace::Halted => entry.is_served = false,
                pace => entry.serve(&server, pace, &mut Scratch::new()),
            }
            drop(pass);
            returned.give(entry);
        })
    }

    fn take_back(&mut self, service: &Service) -> io::Result<()> {
        for mut entry in self.ring.returned().take() {
            if std::mem::take(&mut entry.is_copied) {
                self.n_copied -= 1;
            }
            if let Some(why) = entry.away.take()
                && let Some(pool) = self.pool(entry.queue)
            {
                pool.n_away -= 1;
                pool.n_asking -= usize::from(why == Away::Asks);
            }
            match std::mem::replace(&mut entry.is_served, true) {
                true => self.ring.commit(entry)?,
                false => self.take(entry, service)?,
            }
        }
        Ok(())
    }
}

/// Parks a change; it comes back to its ring.
fn park(mut entry: Box<Entry>, server: &Server, returned: Arc<Returned>) {
    entry.is_served = false;
    server.halt().park(move || returned.give(entry));
}

impl Transport for Queue {
    fn serve(&mut self, service: &Service) -> io::Result<Ended> {
        let begun = self.begin();
        let failed = begun.is_err();
        if let Some(teller) = self.teller.take() {
            // The thread that mounts waits for it.
            let _ = teller.send(begun);
        }
        if failed {
            // It has been told, and the kernel goes on without rings.
            return Ok(Ended::Unused);
        }
        self.run(service).map(|()| Ended::Disconnected)
    }
}
