//! Handles, as in jbd2: an operation's membership in a transaction.
//!
//! Locking: a handle is started before every live object ([`uext4_sync::Rank::Handle`]). A thread
//! has one open handle at a time: a second would wait for the first one's transaction to close.

use crate::engine::Engine;
use crate::gate::Ticket;
use crate::live::{LogGuard, Stamp};
use crate::reasons::{FullReason, Reasons};
use crate::{Error, Object, Render};
use std::cell::Cell;
use uext4_format::{BlockNr, Tid};
use uext4_sync::{Arc, Rank, Scope, handle_point, scope};

/// An open handle; dropping it ends it. All changes logged through one handle are durable together
/// or not at all. A handle stays on its thread.
pub struct Handle<'j> {
    engine: &'j Engine,
    ticket: Ticket,
    used: Cell<u32>,
    sync: Cell<bool>,
    /// Why the transaction cannot be durable by a fast commit.
    reasons: Cell<Reasons>,
    scope: Option<Scope>,
}

impl<'j> Handle<'j> {
    pub(crate) fn start(engine: &'j Engine, credits: u32) -> Result<Self, Error> {
        let ticket = engine.enter(credits)?;
        let (used, sync) = (Cell::new(0), Cell::new(false));
        Ok(Self {
            engine,
            ticket,
            used,
            sync,
            reasons: Cell::new(Reasons::UNKNOWN),
            scope: Some(scope(Rank::Handle)),
        })
    }

    /// The transaction that the handle belongs to.
    pub fn tid(&self) -> Tid {
        self.ticket.stamp.tid
    }

    /// Promises that replaying fast-commit records has the effect of this handle: the records of
    /// the inodes logged through it ([`Render::record_key`]), of their changed ranges, and of the
    /// names that the caller notes. Without this promise its transaction needs a full commit, as
    /// with any reason given to [`Self::require_full`].
    pub fn promise_records(&self) {
        let reasons = self.reasons.get();
        self.reasons.set(reasons.without(FullReason::Other));
    }

    /// Makes the transaction need a full commit.
    pub fn require_full(&self, reason: FullReason) {
        self.reasons.set(self.reasons.get().with(reason));
    }

    /// Whether a fast commit of the transaction is still possible, so that changes are to be noted.
    pub fn is_recorded(&self) -> bool {
        self.engine.records() && self.engine.gate.reasons().is_empty()
    }

    /// Transaction and round of changes through this handle.
    pub fn stamp(&self) -> Stamp {
        self.ticket.stamp
    }

    /// Credits not used yet, in blocks.
    pub fn credits_left(&self) -> u32 {
        self.ticket.credits.saturating_sub(self.used.get())
    }

    /// Charges blocks that an object renders beside its first one.
    pub fn charge(&self, blocks: u32) {
        self.used.set(self.used.get().saturating_add(blocks));
    }

    /// Takes the object's lock exclusively and logs the object to this transaction.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write<'a, O: Object>(&'a self, object: &'a Arc<O>) -> LogGuard<'a, O::State> {
        let mut state = object.live().lock().write();
        self.log(object, &mut state);
        LogGuard::new(state)
    }

    /// As [`Self::write`], but logs nothing if `check` rejects the state. For objects that may have
    /// been moved or freed before the lock was taken.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write_checked<'a, O: Object, E>(
        &'a self,
        object: &'a Arc<O>,
        check: impl FnOnce(&O::State) -> Result<(), E>,
    ) -> Result<LogGuard<'a, O::State>, E> {
        let mut state = object.live().lock().write();
        check(&state)?;
        self.log(object, &mut state);
        Ok(LogGuard::new(state))
    }

    /// Logs the object to this transaction and releases its lock; one load if it is logged already.
    /// For states with atomics that many threads change concurrently. Their later changes belong to
    /// this transaction or a later one, never to an earlier one.
    pub fn touch<O: Object>(&self, object: &Arc<O>) {
        if object.live().dirty_tid() != Some(self.tid()) {
            drop(self.write(object));
        }
    }

    /// As [`Self::write`], while objects of the same rank with smaller keys (inode, block or group
    /// numbers) are held.
    pub fn write_ordered<'a, O: Object>(
        &'a self,
        object: &'a Arc<O>,
        key: u64,
    ) -> LogGuard<'a, O::State> {
        let mut state = object.live().lock().write_ordered(key);
        self.log(object, &mut state);
        LogGuard::new(state)
    }

    /// As [`Self::write`], while any objects of the same rank are held. An outer lock, held
    /// exclusively, keeps every other thread from taking several of them.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write_nested<'a, O: Object>(&'a self, object: &'a Arc<O>) -> LogGuard<'a, O::State> {
        let mut state = object.live().lock().write_nested();
        self.log(object, &mut state);
        LogGuard::new(state)
    }

    /// As [`Self::write`], without waiting; `None` if the lock is taken.
    pub fn try_write<'a, O: Object>(
        &'a self,
        object: &'a Arc<O>,
    ) -> Option<LogGuard<'a, O::State>> {
        let mut state = object.live().lock().try_write()?;
        self.log(object, &mut state);
        Some(LogGuard::new(state))
    }

    fn log<O: Object>(&self, object: &Arc<O>, state: &mut O::State) {
        let (now, before) = (self.ticket.stamp, object.live().stamp());
        if before == Some(now) {
            return;
        }
        let record = state.record_key().filter(|_| self.engine.records());
        let dirty_in = before.map(|stamp| stamp.tid);
        if dirty_in != Some(now.tid) {
            self.engine
                .render_earlier(object.live(), state, dirty_in, now.tid);
            object.live().set_stamp(Some(now));
            let shared = state.shared_block();
            let charge = self.engine.push_object(object.clone(), shared, record);
            self.used.set(self.used.get() + charge);
            return;
        }
        // A new round of the same transaction: only fast commits tell rounds apart.
        object.live().set_stamp(Some(now));
        if let Some(key) = record {
            self.engine.push_record(key);
        }
    }

    /// Forgets the object after its metadata block `nr` was freed: revokes `nr` and does not render
    /// the object for this transaction. Takes the object's lock (nested, see
    /// [`Self::write_nested`]). If an object that renders to `nr` is logged again in this
    /// transaction, that cancels the revoke.
    pub fn forget<O: Object>(&self, object: &Arc<O>, nr: BlockNr) {
        let live = object.live();
        let mut state = live.lock().write_nested();
        let dirty_in = live.dirty_tid();
        if dirty_in != Some(self.tid()) {
            // Its last committed content still belongs to the transaction before.
            self.engine
                .render_earlier(live, &mut state, dirty_in, self.tid());
        }
        live.set_stamp(None);
        self.revoke(nr);
    }

    /// Revokes the freed metadata block `nr`, which has no live object: once this transaction is
    /// durable, older images of `nr` are neither replayed nor written home.
    pub fn revoke(&self, nr: BlockNr) {
        let charge = self.engine.push_revoke(nr);
        self.used.set(self.used.get() + charge);
    }

    /// Requests a commit when the handle ends, without waiting for it.
    pub fn mark_sync(&self) {
        self.sync.set(true);
    }

    /// Ends this handle and starts the next, maybe in the next transaction: the changes so far may
    /// become durable alone. The caller holds no live object. After any error but
    /// [`Error::TooManyCredits`] the journal has stopped.
    pub fn restart(&mut self, credits: u32) -> Result<(), Error> {
        self.engine.fits(credits)?;
        self.engine
            .leave(&self.ticket, self.used.replace(0), self.end_sync());
        self.ticket.set_outside();
        self.scope = None;
        handle_point();
        self.ticket = self.engine.enter(credits)?;
        self.scope = Some(scope(Rank::Handle));
        Ok(())
    }
}

impl Handle<'_> {
    /// Hands the reasons for a full commit over, before the handle leaves; returns whether it asked
    /// for a commit.
    fn end_sync(&self) -> bool {
        self.engine
            .require_full(self.reasons.replace(Reasons::UNKNOWN));
        self.sync.replace(false)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if self.ticket.is_inside() {
            let sync = self.end_sync();
            self.engine.leave(&self.ticket, self.used.get(), sync);
        }
    }
}
