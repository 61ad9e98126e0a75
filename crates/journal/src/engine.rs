//! The shared state behind [`crate::Journal`] and [`crate::Handle`].
//!
//! Locking: see `uext4_sync::Rank`, from `JournalCommit` to `Checkpoint`. The fast path of a
//! handle touches its thread's shard of the gate and of the object lists, and the objects.

use crate::config::{CommitObserver, Config, Threads, Tracking};
use crate::draft::Draft;
use crate::fast_area::FastArea;
use crate::gate::{Gate, Refused, Ticket};
use crate::home::Home;
use crate::images::Images;
use crate::live::Dirty;
use crate::log_space::OpenLog;
use crate::logged::Logged;
use crate::progress::Progress;
use crate::reasons::Reasons;
use crate::sink::Rendered;
use crate::stats::Times;
use crate::unwritten::Unwritten;
use crate::waiters::Ends;
use crate::{Error, Image, Live, Render};
use std::time::Duration;
use uext4_format::jbd2::RevokeWriter;
use uext4_format::{BlockNr, Tid};
use uext4_num::clamp_u64;
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering, Ordering::Relaxed};
use uext4_sync::{Arc, Clock, Condvar, Mutex, OnceLock, Rank, Sharded};

/// Credits of a transaction without a log, in blocks.
const LIMIT_WITHOUT_LOG: u32 = 16384;

/// Fewest objects per rendering thread.
pub(crate) const OBJECTS_PER_THREAD: usize = 1000;

pub(crate) struct Engine {
    pub(crate) gate: Gate,
    pub(crate) home: Home,
    pub(crate) observer: Arc<dyn CommitObserver>,
    pub(crate) threads: Threads,
    pub(crate) tracking: Tracking,
    commit_interval_ns: AtomicU64,
    transaction_max_blocks: u32,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) logged: Sharded<Mutex<Logged>>,
    pub(crate) rendered: Rendered,
    pub(crate) images: Images,
    pub(crate) unwritten: Unwritten,
    pub(crate) progress: Mutex<Progress>,
    /// Commits ended (with `progress`).
    pub(crate) ends: Ends,
    /// The callers came that the leader of a commit waits for (with `progress`).
    pub(crate) gathered: Condvar,
    /// The last waiter that renders is done (with `progress`).
    pub(crate) helped: Condvar,
    /// The background threads have work (with `progress`).
    pub(crate) work: Condvar,
    /// One commit at a time, full or fast.
    pub(crate) one_commit: Mutex<FastArea>,
    /// The log has an area for fast commits.
    pub(crate) records: AtomicBool,
    /// That area has fast commits of the running transaction.
    pub(crate) has_fast: AtomicBool,
    /// Set when the journal is opened, or once while it is quiet.
    pub(crate) log: OnceLock<OpenLog>,
    /// Held while home writes of images are in flight.
    pub(crate) batch: Mutex<()>,
    pub(crate) cores: usize,
    pub(crate) times: Times,
    /// Time of the first log entry of the running transaction; 0 before it.
    began_ns: AtomicU64,
}

/// Credits of one transaction in this log, in blocks: a quarter of the log, as in the kernel, but
/// at most `max_blocks`, which bounds the memory that one commit pins.
fn limit_of(log: &OpenLog, max_blocks: u32) -> u32 {
    (log.len_blocks() / 4).min(max_blocks)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Engine {
    pub(crate) fn new(config: Config, log: Option<OpenLog>) -> Engine {
        let first = log.as_ref().map_or(Tid(1), OpenLog::next);
        let records = log.as_ref().is_some_and(OpenLog::has_fast_area);
        let max_blocks = config.transaction_max_blocks;
        let limit = log
            .as_ref()
            .map_or(LIMIT_WITHOUT_LOG, |log| limit_of(log, max_blocks));
        let tracking = config.tracking();
        let progress = Progress::new(first, config.clock.monotonic(), config.max_batch);
        Engine {
            gate: Gate::new(first, limit),
            home: Home::new(config.home, config.block_size),
            observer: config.observer,
            threads: config.threads,
            tracking,
            commit_interval_ns: AtomicU64::new(nanoseconds(config.commit_interval)),
            transaction_max_blocks: max_blocks,
            clock: config.clock,
            logged: Sharded::new(|_| Mutex::new(Rank::JournalObjects, Logged::new())),
            rendered: Rendered::new(config.block_size),
            images: Images::new(),
            unwritten: Unwritten::new(config.failed_write),
            progress: Mutex::new(Rank::JournalState, progress),
            ends: Ends::new(),
            gathered: Condvar::new(),
            helped: Condvar::new(),
            work: Condvar::new(),
            one_commit: Mutex::new(Rank::JournalCommit, FastArea::default()),
            records: AtomicBool::new(records),
            has_fast: AtomicBool::new(false),
            log: log.map_or_else(OnceLock::new, OnceLock::from),
            batch: Mutex::new(Rank::CheckpointBatch, ()),
            cores: uext4_sync::cores(),
            times: Times::default(),
            began_ns: AtomicU64::new(0),
        }
    }

    /// Fails when no transaction can hold `credits`, or when the journal has stopped.
    pub(crate) fn fits(&self, credits: u32) -> Result<(), Error> {
        let limit = self.gate.limit();
        if credits > limit {
            return Err(Error::TooManyCredits {
                wanted: credits,
                limit,
            });
        }
        self.gate.check()
    }

    /// Enters the running transaction; waits for the next one when it is full.
    pub(crate) fn enter(&self, credits: u32) -> Result<Ticket, Error> {
        self.fits(credits)?;
        match self.gate.enter(credits) {
            Ok(ticket) => Ok(ticket),
            Err(refused) => {
                Times::add(&self.times.handle_waits, 1);
                Times::time(&self.times.handle_wait_ns, || {
                    self.enter_later(credits, refused)
                })
            }
        }
    }

    #[cold]
    fn enter_later(&self, credits: u32, mut refused: Refused) -> Result<Ticket, Error> {
        loop {
            match refused {
                Refused::Closed => self.gate.wait_open(),
                Refused::Full { tid, opened } => self.make_room(tid, opened)?,
            }
            self.fits(credits)?;
            match self.gate.enter(credits) {
                Ok(ticket) => return Ok(ticket),
                Err(again) => refused = again,
            }
        }
    }

    fn make_room(&self, tid: Tid, opened: u64) -> Result<(), Error> {
        match self.threads {
            Threads::Inline => self.wait_durable(tid),
            Threads::Background => {
                self.request_commit();
                self.gate.wait_opened_after(opened);
                Ok(())
            }
        }
    }

    pub(crate) fn leave(&self, ticket: &Ticket, used: u32, sync: bool) {
        self.gate.leave(ticket, used);
        if sync && self.threads == Threads::Background {
            self.request_commit();
        }
    }

    /// Puts an object on the running transaction's list; returns its charge in blocks (a bound).
    /// `record` is the object's [`crate::Render::record_key`], if fast commits record it.
    pub(crate) fn push_object(
        &self,
        object: Arc<dyn Dirty>,
        shared: Option<BlockNr>,
        record: Option<u64>,
    ) -> u32 {
        let charge = {
            let mut logged = self.logged.local().lock();
            if let Some(key) = record {
                logged.push_record(key);
            }
            logged.push(object, shared)
        };
        if self.began_ns.load(Relaxed) == 0 {
            self.began_ns.store(self.now_ns(), Relaxed);
        }
        charge
    }

    /// Notes an object that is on the list already as changed in this round.
    pub(crate) fn push_record(&self, key: u64) {
        self.logged.local().lock().push_record(key);
    }

    /// Adds the reasons of a handle that is about to leave.
    pub(crate) fn require_full(&self, reasons: Reasons) {
        if self.records() && !reasons.is_empty() {
            self.gate.require_full(reasons);
        }
    }

    /// Monotonic time in nanoseconds; never 0, which stands for "not yet".
    pub(crate) fn now_ns(&self) -> u64 {
        clamp_u64(self.clock.monotonic().as_nanos()).max(1)
    }

    /// Adds the run time of the transaction whose gate began to close at `closing_ns`.
    pub(crate) fn add_run_time(&self, closing_ns: u64) {
        match self.began_ns.swap(0, Relaxed) {
            0 => {}
            began => Times::add(&self.times.running_ns, closing_ns.saturating_sub(began)),
        }
    }

    /// Notes a revoke in the running transaction; returns its charge in log blocks (a bound).
    pub(crate) fn push_revoke(&self, block: BlockNr) -> u32 {
        let log = self.log.get();
        let per_block = log.map_or(usize::MAX, |log| RevokeWriter::capacity(&log.layout));
        self.logged.local().lock().push_revoke(block, per_block)
    }

    /// Renders `state` for the committing transaction if it is still dirty there. `tid` is the
    /// caller's transaction; the caller holds the object's lock.
    pub(crate) fn render_earlier<S: Render>(
        &self,
        live: &Live<S>,
        state: &mut S,
        dirty_in: Option<Tid>,
        tid: Tid,
    ) {
        if let Some(earlier) = dirty_in {
            debug_assert_eq!(
                earlier.next(),
                tid,
                "only the committing transaction renders late"
            );
            live.render_for(earlier, state, &self.rendered);
        }
    }

    pub(crate) fn read_block(&self, block: BlockNr) -> Result<Image, Error> {
        match self.images.get(block) {
            Some(image) => Ok(image),
            None => self.home.read(block),
        }
    }

    pub(crate) fn read_part(
        &self,
        block: BlockNr,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        match self.images.get(block) {
            Some(image) => {
                out.copy_from_slice(&image[offset..offset + out.len()]);
                Ok(())
            }
            None => self.home.read_part(block, offset, out),
        }
    }

    /// Fills the bytes of ascending blocks that have no patch with their present bytes.
    pub(crate) fn fill_gaps(&self, drafts: &mut [Draft]) -> Result<(), Error> {
        let mut away = Vec::new();
        for draft in drafts.iter_mut().filter(|draft| !draft.is_whole()) {
            match self.images.get(draft.block) {
                Some(image) => draft.fill(&image),
                None => away.push(draft),
            }
        }
        let blocks: Vec<BlockNr> = away.iter().map(|draft| draft.block).collect();
        self.home
            .read_many(&blocks, |at, bytes| away[at].fill(bytes))
    }

    /// Stops the journal. The only write after that notes the error in the journal superblock. The
    /// caller holds no lock of the journal but `one_commit`.
    pub(crate) fn abort(&self, cause: Error) {
        if self.gate.stop(cause.clone().aborted()) {
            if let (Some(log), Some(errno)) = (self.log.get(), cause.stored_errno()) {
                log.store_error(errno);
            }
            self.observer.aborted(&cause);
        }
        self.wake_all();
    }

    /// Wakes all waiters after the gate was stopped.
    pub(crate) fn wake_all(&self) {
        let _progress = self.progress.lock();
        self.ends.wake_all();
        self.gathered.notify_all();
        self.work.notify_all();
    }

    /// Attaches a log. Nothing was logged so far and the gate is held; the caller holds
    /// `one_commit`.
    pub(crate) fn attach(&self, log: OpenLog) {
        self.gate
            .set_limit(limit_of(&log, self.transaction_max_blocks));
        self.begin_with(log.next());
        self.records.store(log.has_fast_area(), Relaxed);
        let _the_first_stays = self.log.set(log);
    }

    /// Makes `next` the running transaction; all before it are durable. Nothing is logged in the
    /// one that runs, and the gate is held; the caller holds `one_commit`.
    pub(crate) fn begin_with(&self, next: Tid) {
        self.progress.lock().begin_with(next);
        self.gate.close();
        self.gate.open(next);
    }

    /// How long a dirty transaction may wait for its commit.
    pub(crate) fn commit_interval(&self) -> Duration {
        Duration::from_nanos(self.commit_interval_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn set_commit_interval(&self, interval: Duration) {
        self.commit_interval_ns
            .store(nanoseconds(interval), Ordering::Relaxed);
        let _progress = self.progress.lock();
        self.work.notify_all();
    }

    /// Whether the objects of the running transaction are rendered in parallel; a hint.
    pub(crate) fn is_large(&self) -> bool {
        let objects: usize = self.logged.iter().map(|shard| shard.lock().len()).sum();
        objects >= 2 * OBJECTS_PER_THREAD
    }

    /// True when the running transaction has something to commit; a hint.
    pub(crate) fn is_dirty(&self) -> bool {
        self.logged.iter().any(|shard| !shard.lock().is_empty())
    }
}
