//! Ring thread: takes requests from the queues of a ring and commits the replies.
//!
//! Short requests are answered on this thread. A longer one moves to a worker together with its
//! entry and comes back through [`Returned`]. This thread commits the reply, since a ring belongs
//! to one thread.
//!
//! Invariants: in each queue at least [`ENTRIES`] entries hold no request that waits for other
//! requests ([`RequestClass::NeedsWriteback`], [`RequestClass::Frozen`]); each entry with such a
//! request is replaced by a new one. The others are served by threads that never wait for a
//! request, and each reply fetches the next request of the queue, so no request waits forever.
//!
//! Adding an entry only when all are taken does not suffice: the kernel looks for waiting requests
//! at commits only. A parked request returns unchanged through [`Returned`] and is admitted again.

use super::cpus::{Share, ThreadAffinity};
use super::entry::{Away, Entry, Scratch};
use super::ring::{Completion, Returned, Ring};
use crate::affinity::Affinity;
use crate::errno::Errno;
use crate::server::{RequestClass, Server};
use crate::transport::service::{Ended, Service, Transport};
use crate::worker_pool::{Job, WorkerPool};
use std::io;
use uext4_sync::Arc;
use uext4_sync::mpsc::Sender;

/// Initial entries of a queue. The kernel reuses the last one first (LIFO), so most are never
/// touched and cost only address space.
const ENTRIES: usize = 64;
/// Maximum number of requests per queue that wait for other requests. Parked requests are limited
/// only by the number of callers.
const IN_WRITEBACK_MAX: usize = 256;

/// A ring, its queues and their thread.
pub(crate) struct Queue {
    ring: Ring,
    place: ThreadAffinity,
    /// Serves requests that wait for a commit, on the core of their callers: waking another core
    /// costs more than the commit of a small transaction.
    waiters: Arc<WorkerPool>,
    pools: Vec<Pool>,
    /// Reports how the thread started.
    teller: Option<Sender<io::Result<()>>>,
    /// Entries that the kernel uses or will use again.
    n_alive: usize,
    /// Entries whose data a worker copies.
    n_copied: usize,
    /// Requests that arrived during the start.
    #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
    early: Vec<Box<Entry>>,
    scratch: Scratch,
}

struct Pool {
    queue: u16,
    n_entries: usize,
    /// Entries whose requests wait for other requests or are parked.
    n_away: usize,
    /// Entries whose requests wait for other requests.
    n_in_writeback: usize,
}

impl Queue {
    /// Makes one of `n_rings` ring threads, for a share of the queues.
    pub(super) fn new(
        ring: Ring,
        n_rings: usize,
        share: Share,
        teller: Sender<io::Result<()>>,
    ) -> io::Result<Self> {
        let affinity = Affinity::to(share.cpu);
        Ok(Self {
            ring,
            waiters: WorkerPool::for_waiting(n_rings, affinity.clone())?,
            place: ThreadAffinity::new(affinity)?,
            pools: share
                .queues
                .into_iter()
                .map(|queue| Pool {
                    queue,
                    n_entries: 0,
                    n_away: 0,
                    n_in_writeback: 0,
                })
                .collect(),
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
        // The kernel refuses at once; a registered entry completes with its first request.
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
        let (class, _pass) = entry.admit(&service.server);
        self.place.count_request(class);
        match class {
            RequestClass::Soon => entry.serve(&service.server, &mut self.scratch),
            // A worker would cost the caller two wake-ups.
            RequestClass::Awaited if self.n_copied == 0 && !self.ring.has_next() => {
                entry.serve(&service.server, &mut self.scratch);
            }
            RequestClass::NeedsWriteback if !self.may_need_writeback(entry.queue) => {
                entry.refuse(Errno::EAGAIN)
            }
            RequestClass::WantsWriteback if !self.may_need_writeback(entry.queue) => {
                entry.serve(&service.server, &mut self.scratch);
            }
            RequestClass::NeedsWriteback | RequestClass::WantsWriteback => {
                self.send_away(&mut entry, Away::NeedsWriteback)?;
                service
                    .writeback_pool
                    .leave(self.job(entry, class, service));
                return Ok(());
            }
            // All threads of `writeback_pool` may wait for requests that need this entry.
            RequestClass::Waits => {
                self.waiters.leave(self.job(entry, class, service));
                return Ok(());
            }
            // All threads of `writeback_pool` may wait for this request.
            RequestClass::Awaited | RequestClass::Bulk => {
                entry.is_copied = true;
                self.n_copied += 1;
                service.copiers.leave(self.job(entry, class, service));
                return Ok(());
            }
            RequestClass::Frozen => {
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
    fn may_need_writeback(&mut self, queue: u16) -> bool {
        self.pool(queue)
            .is_some_and(|pool| pool.n_in_writeback < IN_WRITEBACK_MAX)
    }

    /// Counts an entry without a reply for a while, and adds a replacement if needed.
    fn send_away(&mut self, entry: &mut Entry, why: Away) -> io::Result<()> {
        entry.away = Some(why);
        let Some(pool) = self.pool(entry.queue) else {
            return Ok(());
        };
        pool.n_away += 1;
        pool.n_in_writeback += usize::from(why == Away::NeedsWriteback);
        if pool.n_entries < pool.n_away + ENTRIES {
            self.add_entry(entry.queue)
        } else {
            Ok(())
        }
    }

    /// Serves the entry's request and returns the entry. If a freeze began meanwhile, a change is
    /// returned unchanged.
    fn job(&self, mut entry: Box<Entry>, class: RequestClass, service: &Service) -> Job {
        let (server, returned) = (service.server.clone(), self.ring.returned().clone());
        Box::new(move || {
            entry.fetch_data(&server, class);
            let (class, pass) = entry.admit(&server);
            match class {
                RequestClass::Frozen => entry.is_served = false,
                _ => entry.serve(&server, &mut Scratch::new()),
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
                pool.n_in_writeback -= usize::from(why == Away::NeedsWriteback);
            }
            if std::mem::replace(&mut entry.is_served, true) {
                self.ring.commit(entry)?
            } else {
                self.take(entry, service)?
            }
        }
        Ok(())
    }
}

/// Parks a change at the freeze barrier; it returns to its ring after the thaw.
fn park(mut entry: Box<Entry>, server: &Server, returned: Arc<Returned>) {
    entry.is_served = false;
    server.freeze_gate().park(move || returned.give(entry));
}

impl Transport for Queue {
    fn serve(&mut self, service: &Service) -> io::Result<Ended> {
        let begun = self.begin();
        let failed = begun.is_err();
        if let Some(teller) = self.teller.take() {
            // The mounting thread waits for the report.
            let _ = teller.send(begun);
        }
        if failed {
            // The report carries the error, and the kernel continues without rings.
            return Ok(Ended::Unused);
        }
        self.run(service).map(|()| Ended::Disconnected)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.waiters.finish();
    }
}
