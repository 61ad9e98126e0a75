//! Access state of a mount: writable, read-only, failed, shut down or closed.

use crate::state::incidents::Incidents;
use crate::types::error::{Error, Result};
use uext4_sync::atomic::{AtomicU8, Ordering};
use uext4_sync::{Arc, OnceLock};

/// Whether writes are allowed now.
pub(crate) struct MountState {
    word: AtomicU8,
    /// The error that ended writing; the first one stays.
    failure: OnceLock<Error>,
    incidents: Arc<Incidents>,
}

const READ_WRITE: u8 = 0;
const READ_ONLY: u8 = 1;
const FAILED: u8 = 2;
const CLOSED: u8 = 3;
const SHUT: u8 = 4;

impl MountState {
    pub(crate) fn new(writable: bool, incidents: Arc<Incidents>) -> Self {
        let word = AtomicU8::new(if writable { READ_WRITE } else { READ_ONLY });
        Self {
            word,
            failure: OnceLock::new(),
            incidents,
        }
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.word.load(Ordering::Relaxed) == READ_WRITE
    }

    /// Goes from read-only to read-write or back. A mount that failed or is closed stays so.
    pub(crate) fn set_writable(&self, writable: bool) {
        let (from, to) = if writable {
            (READ_ONLY, READ_WRITE)
        } else {
            (READ_WRITE, READ_ONLY)
        };
        let order = Ordering::SeqCst;
        let _failed_or_closed = self.word.compare_exchange(from, to, order, order);
    }

    /// Goes read-only for good after an error. A mount that is closed stays so.
    pub(crate) fn fail(&self, cause: &Error) {
        let order = Ordering::SeqCst;
        if self
            .word
            .compare_exchange(READ_WRITE, FAILED, order, order)
            .is_ok()
        {
            let _the_first_stays = self.failure.set(cause.clone());
            self.incidents.stopped(cause);
        }
    }

    /// Refuses all further operations; `lost` says why the device is not clean. A mount that is
    /// closed stays closed.
    pub(crate) fn shut_down(&self, lost: Option<&Error>) {
        let order = Ordering::SeqCst;
        let was_open = self
            .word
            .fetch_update(order, order, |word| (word != CLOSED).then_some(SHUT))
            .is_ok();
        if let Some(lost) = lost.filter(|_| was_open) {
            let _the_first_stays = self.failure.set(lost.clone());
            self.incidents.stopped(lost);
        }
    }

    /// Whether operations are answered.
    ///
    /// # Errors
    /// [`Error::Shutdown`] after a shutdown, [`Error::Unmounted`] after the unmount.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.word.load(Ordering::Relaxed) {
            SHUT => Err(Error::Shutdown),
            CLOSED => Err(Error::Unmounted),
            _ => Ok(()),
        }
    }

    /// The error that made the mount read-only, if any.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Marks the mount closed; true for the first caller.
    pub(crate) fn close(&self) -> bool {
        self.word.swap(CLOSED, Ordering::SeqCst) != CLOSED
    }
}
