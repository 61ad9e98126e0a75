//! Drainable gate of the running transaction: counts open handles and hands out credits.
//!
//! Invariants: a handle increments its shard's counter, then reads the gate word again; the
//! committing thread closes the gate, then reads the counters. Both use `SeqCst`, so at least one
//! of them sees the other. The next transaction opens, with fresh credits, only after the last
//! handle of this one has left.
//!
//! Flags, transaction and round are one word, so that the second read compares all of them. For
//! example, a handle reads the word of transaction 5 and is preempted; a commit closes the gate,
//! drains it and opens transaction 6. With flags alone the gate would look unchanged, the handle
//! would stamp its changes with 5, and no commit would render them. With the round of before a fast
//! commit, an `fsync` would take them for durable ([`Stamp::covers`]).
//!
//! Locking: one mutex ([`Rank::JournalState`]) to park, never on the fast path.

use crate::Error;
use crate::live::{ROUND_SHIFT, Stamp};
use crate::reasons::Reasons;
use uext4_format::Tid;
use uext4_num::{clamp_i64, low_u32};
use uext4_sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use uext4_sync::{CachePadded, Condvar, Mutex, OnceLock, Rank, Sharded, shard_index};

/// No new handle may enter.
const CLOSED: u64 = 1 << 32;
/// The journal stopped for good.
const STOPPED: u64 = 1 << 33;
/// No new handle may enter until the journal is resumed; commits go on.
const HELD: u64 = 1 << 34;
/// One more round of the running transaction.
const ROUND: u64 = 1 << ROUND_SHIFT;
/// Polls before a waiter parks; a drain takes microseconds.
const SPINS: u32 = if cfg!(shuttle) { 1 } else { 200 };

#[derive(Default)]
struct Shard {
    active: AtomicU64,
    credits: AtomicI64,
    handles: AtomicU64,
}

/// Round of a transaction that continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Same,
    Next,
}

/// Why a handle could not enter.
pub(crate) enum Refused {
    /// The gate is closed, held or stopped.
    Closed,
    /// Transaction `tid` has no credits left; `opened` is the number of openings so far.
    Full { tid: Tid, opened: u64 },
}

/// A handle's entry in the gate, with its credits.
pub(crate) struct Ticket {
    pub(crate) stamp: Stamp,
    pub(crate) credits: u32,
    shard: Option<usize>,
}

impl Ticket {
    /// Marks that the holder left; the ticket then only names its transaction.
    pub(crate) fn set_outside(&mut self) {
        self.shard = None;
    }
    pub(crate) fn is_inside(&self) -> bool {
        self.shard.is_some()
    }
}

pub(crate) struct Gate {
    word: AtomicU64,
    /// Number of openings; an empty transaction that continues counts again.
    opened: AtomicU64,
    shards: Sharded<Shard>,
    /// Credits of this transaction that no shard has. Padded: every handle reads the other fields.
    remaining: CachePadded<AtomicI64>,
    limit: AtomicU32,
    /// Why the transaction needs a full commit. Handles change it at most once per reason.
    reasons: CachePadded<AtomicU32>,
    stopped: OnceLock<Error>,
    park: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    /// An open gate of transaction `tid`, which may log `limit` blocks.
    pub(crate) fn new(tid: Tid, limit: u32) -> Self {
        Self {
            word: AtomicU64::new(u64::from(tid.0)),
            opened: AtomicU64::new(0),
            shards: Sharded::new(|_| Shard::default()),
            remaining: AtomicI64::new(i64::from(limit)).into(),
            limit: AtomicU32::new(limit),
            reasons: AtomicU32::new(0).into(),
            stopped: OnceLock::new(),
            park: Mutex::new(Rank::JournalState, ()),
            wake: Condvar::new(),
        }
    }

    /// The running transaction; while the gate is closed, the one that is being closed.
    pub(crate) fn running(&self) -> Tid {
        Tid(low_u32(self.word.load(SeqCst)))
    }

    /// The running transaction and its round.
    pub(crate) fn now(&self) -> Stamp {
        Stamp::of_word(self.word.load(SeqCst))
    }

    /// Why the running transaction needs a full commit. Final once the gate is closed and empty.
    pub(crate) fn reasons(&self) -> Reasons {
        Reasons::of_bits(self.reasons.load(SeqCst))
    }

    /// Adds reasons. The caller is inside, or has closed the gate.
    pub(crate) fn require_full(&self, reasons: Reasons) {
        if !self.reasons().contains(reasons) {
            self.reasons.fetch_or(reasons.bits(), SeqCst);
        }
    }

    /// Credits of a whole transaction, in blocks.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    /// Credits of the transactions that open from now on, in blocks.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Relaxed);
    }

    /// Handles that ended since the journal was opened.
    pub(crate) fn handles(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.handles.load(SeqCst))
            .sum()
    }

    /// Enters with `credits`, without waiting.
    pub(crate) fn enter(&self, credits: u32) -> Result<Ticket, Refused> {
        let index = shard_index();
        let shard = self.shards.slot(index);
        let word = self.word.load(SeqCst);
        if word & (CLOSED | STOPPED | HELD) != 0 {
            return Err(Refused::Closed);
        }
        shard.active.fetch_add(1, SeqCst);
        if self.word.load(SeqCst) != word {
            self.step_out(shard);
            return Err(Refused::Closed);
        }
        let stamp = Stamp::of_word(word);
        if !self.take_credits(shard, i64::from(credits)) {
            let opened = self.opened.load(SeqCst); // cannot change while we are inside
            self.step_out(shard);
            let tid = stamp.tid;
            return Err(Refused::Full { tid, opened });
        }
        Ok(Ticket {
            stamp,
            credits,
            shard: Some(index),
        })
    }

    /// Leaves after logging `used` blocks.
    pub(crate) fn leave(&self, ticket: &Ticket, used: u32) {
        let Some(shard) = ticket.shard.map(|index| self.shards.slot(index)) else {
            return;
        };
        let unused = i64::from(ticket.credits) - i64::from(used);
        if unused >= 0 {
            shard.credits.fetch_add(unused, SeqCst);
        } else {
            self.remaining.fetch_add(unused, SeqCst);
        }
        shard.handles.fetch_add(1, SeqCst);
        self.step_out(shard);
    }

    fn step_out(&self, shard: &Shard) {
        shard.active.fetch_sub(1, SeqCst);
        if self.word.load(SeqCst) & CLOSED != 0 {
            let _parked = self.park.lock();
            self.wake.notify_all();
        }
    }

    fn take_credits(&self, shard: &Shard, want: i64) -> bool {
        // One update, not a loop: all cores may take credits at the same time. While it is undone,
        // another handle may find the transaction full a little early.
        if take(&shard.credits, want) {
            return true;
        }
        // The chunk is small, so that idle shards hold only a quarter of the transaction's
        // credits.
        let chunk = i64::from(self.limit()) / (4 * clamp_i64(self.shards.count()));
        if take(&self.remaining, want + chunk) {
            shard.credits.fetch_add(chunk, SeqCst);
            return true;
        }
        take(&self.remaining, want)
    }

    /// Closes the gate and waits until the last handle has left. One caller at a time.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSED, SeqCst);
        for _ in 0..SPINS {
            if self.is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut parked = self.park.lock();
        while !self.is_empty() {
            self.wake.wait(&mut parked);
        }
    }

    /// A shard that was seen empty admits no handle any more: an entering one sees the closed gate.
    fn is_empty(&self) -> bool {
        self.shards
            .iter()
            .all(|shard| shard.active.load(SeqCst) == 0)
    }

    /// Opens the (closed, empty) gate for `tid` with full credits.
    pub(crate) fn open(&self, tid: Tid) {
        for shard in self.shards.iter() {
            shard.credits.store(0, SeqCst);
        }
        self.remaining.store(i64::from(self.limit()), SeqCst);
        self.reasons.store(0, SeqCst);
        let _parked = self.park.lock();
        self.opened.fetch_add(1, SeqCst);
        let _always = self.word.fetch_update(SeqCst, SeqCst, |word| {
            Some(word & (STOPPED | HELD) | u64::from(tid.0))
        });
        self.wake.notify_all();
    }

    /// Opens the (closed, empty) gate again for the same transaction.
    pub(crate) fn open_round(&self, round: Round) {
        let _parked = self.park.lock();
        let more = match round {
            Round::Same => 0,
            Round::Next => ROUND,
        };
        let _always = self.word.fetch_update(SeqCst, SeqCst, |word| {
            Some((word & !CLOSED).wrapping_add(more))
        });
        self.wake.notify_all();
    }

    /// Keeps new handles out until [`Self::release`]; open handles continue.
    pub(crate) fn pause(&self) {
        self.word.fetch_or(HELD, SeqCst);
    }

    /// Lets handles in again.
    pub(crate) fn release(&self) {
        let _parked = self.park.lock();
        self.word.fetch_and(!HELD, SeqCst);
        self.wake.notify_all();
    }

    /// Waits while the gate is closed or held.
    pub(crate) fn wait_open(&self) {
        self.wait_while(|word| word & (CLOSED | HELD) != 0);
    }

    /// Waits until the number of openings, each with fresh credits, exceeds `opened`.
    pub(crate) fn wait_opened_after(&self, opened: u64) {
        self.wait_while(|word| word & CLOSED != 0 || self.opened.load(SeqCst) == opened);
    }

    fn wait_while(&self, blocked: impl Fn(u64) -> bool) {
        let blocked = |word: u64| word & STOPPED == 0 && blocked(word);
        for _ in 0..SPINS {
            if !blocked(self.word.load(SeqCst)) {
                return;
            }
            std::hint::spin_loop();
        }
        let mut parked = self.park.lock();
        while blocked(self.word.load(SeqCst)) {
            self.wake.wait(&mut parked);
        }
    }

    /// Stops the journal. True for the first caller; later causes are dropped.
    pub(crate) fn stop(&self, cause: Error) -> bool {
        let first = self.stopped.set(cause).is_ok();
        self.word.fetch_or(STOPPED, SeqCst);
        let _parked = self.park.lock();
        self.wake.notify_all();
        first
    }

    /// The error that stopped the journal, if any.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.stopped
            .get()
            .map_or(Ok(()), |cause| Err(cause.clone()))
    }
}

/// Takes `n` if there are so many.
fn take(from: &AtomicI64, n: i64) -> bool {
    let is_enough = from.fetch_sub(n, SeqCst) >= n;
    if !is_enough {
        from.fetch_add(n, SeqCst);
    }
    is_enough
}
