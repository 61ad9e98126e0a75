//! Copies of the mount that a later one can continue, each with what changed since.
//!
//! Invariants: a copy is remembered once its client says that it is complete. At most
//! [`COPIES_MAX`] are, the one that was not used for the longest
//! time is forgotten first; so memory is bounded by that many bitmaps of
//! at most 16 MiB.
//! Locking: [`Rank::Queue`] for the list.

use super::snapshot_wire::{CopyIdentity, Since};
use super::wire::{Answered, Refusal};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use uext4::device::Changes;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Arc, Clock, Mutex, Rank, RealClock};

/// Maximum number of copies.
const COPIES_MAX: usize = 4;

/// See the module.
pub(super) struct Remembered(Mutex<VecDeque<Arc<Copy>>>);

/// A copy.
pub(super) struct Copy {
    id: String,
    pub(super) identity: CopyIdentity,
    pub(super) changes: Arc<Changes>,
    started_seconds: i64,
    /// Another copy refers to it.
    is_base: AtomicBool,
}

impl Copy {
    /// Notes that another copy refers to it, so that it is not replaced.
    pub(super) fn set_base(&self) {
        self.is_base.store(true, Ordering::SeqCst);
    }
}

/// An identifier that no copy had before.
pub(super) fn new_id() -> String {
    // The keys of the standard library's hashes are random.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

impl Default for Remembered {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, VecDeque::new()))
    }
}

impl Remembered {
    /// The copy that is continued. It is then the last one to be forgotten.
    ///
    /// # Errors
    /// There is none; it is to be replaced, and another one refers to it.
    pub(super) fn find(&self, since: &Since) -> Result<Arc<Copy>, Refusal> {
        let id = &since.id;
        let mut copies = self.0.lock();
        let place = copies
            .iter()
            .position(|copy| copy.id == *id && copy.changes.is_complete())
            .ok_or_else(|| unknown(id))?;
        if since.is_replaced && copies[place].is_base.load(Ordering::SeqCst) {
            return Err(Refusal::invalid(format!(
                "the copy of the backup {id} is not updated: it is the base of a qcow2 image, \
                 which would be damaged"
            )));
        }
        let found = copies.remove(place).ok_or_else(|| unknown(id))?;
        copies.push_back(found.clone());
        Ok(found)
    }

    pub(super) fn add(&self, id: &str, identity: CopyIdentity, changes: Arc<Changes>) {
        let mut copies = self.0.lock();
        copies.push_back(Arc::new(Copy {
            id: id.to_owned(),
            identity,
            changes,
            started_seconds: RealClock::new().wall().seconds,
            is_base: AtomicBool::new(false),
        }));
        while copies.len() > COPIES_MAX {
            copies.pop_front();
        }
    }

    /// Forgets one of them, or all.
    pub(super) fn forget(&self, id: Option<&str>) -> Answered {
        let mut copies = self.0.lock();
        let before = copies.len();
        copies.retain(|copy| id.is_some_and(|id| id != copy.id));
        match (id, before - copies.len()) {
            (Some(id), 0) => Err(unknown(id)),
            (_, count) => Ok(count.into()),
        }
    }

    /// For the statistics.
    pub(super) fn state(&self) -> Value {
        let copies = self.0.lock();
        let rows = copies.iter().map(|copy| {
            let changed = copy.changes.changed();
            json!({
                "id": copy.id,
                "started": copy.started_seconds,
                "changed_bytes": changed.saturating_mul(copy.changes.granule_bytes()),
                "memory_bytes": copy.changes.bitmap_bytes(),
            })
        });
        rows.collect()
    }
}

fn unknown(id: &str) -> Refusal {
    Refusal {
        errno: libc::ENOENT,
        text: format!(
            "the server does not know the backup {id}: it keeps the changes since the last \
             {COPIES_MAX} until the mount ends"
        ),
    }
}
