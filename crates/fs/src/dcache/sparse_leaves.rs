//! Notes of directory leaves that lost most of their names.
//!
//! Notes stay in the thread's shard: taking those of other shards would block their directories for
//! the time.
//! Locking: [`Rank::Queue`], held to push or take.

use uext4_format::dirent::KnownLeafMut;
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Arc, Mutex, Rank, Sharded};

/// Changes of a non-empty leaf between two notes.
const LOOK_EVERY: u32 = 16;

/// A name that was removed from a leaf with little left.
pub(crate) struct Note<D> {
    pub(crate) dir: Arc<D>,
    pub(crate) name: Vec<u8>,
    /// The leaf is empty.
    pub(crate) is_blank: bool,
}

/// Notes of one shard of threads.
struct Shard<D> {
    waiting: AtomicUsize,
    notes: Mutex<Vec<Note<D>>>,
}

/// The notes of one file system, about directories `D`.
pub(crate) struct SparseLeaves<D>(Sharded<Shard<D>>);

impl<D> Default for SparseLeaves<D> {
    fn default() -> Self {
        Self(Sharded::new(|_| Shard {
            waiting: AtomicUsize::new(0),
            notes: Mutex::new(Rank::Queue, Vec::new()),
        }))
    }
}

impl<D> SparseLeaves<D> {
    /// Notes the leaf of `dir` that lost `name`, if it is empty, or sparse at every
    /// [`LOOK_EVERY`]th of its changes; `changes` counts those before.
    pub(crate) fn look_at(&self, leaf: &KnownLeafMut<'_>, changes: u32, dir: &Arc<D>, name: &[u8]) {
        let is_blank = leaf.is_blank();
        let has_little = || leaf.used_bytes() <= leaf.area_bytes() / 4;
        let is_due = is_blank || changes.is_multiple_of(LOOK_EVERY) && has_little();
        if !is_due {
            return;
        }
        let note = Note {
            dir: dir.clone(),
            name: name.to_vec(),
            is_blank,
        };
        let shard = self.0.local();
        shard.notes.lock().push(note);
        shard.waiting.fetch_add(1, Ordering::Release);
    }

    /// Takes the notes of the calling thread's shard.
    pub(crate) fn take(&self) -> Vec<Note<D>> {
        let shard = self.0.local();
        if shard.waiting.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut notes = shard.notes.lock();
        shard.waiting.store(0, Ordering::Relaxed);
        std::mem::take(&mut *notes)
    }
}
