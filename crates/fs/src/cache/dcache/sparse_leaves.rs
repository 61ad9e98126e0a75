//! Notes of directory leaves that lost most of their names.
//!
//! An operation notes a leaf in its thread's shard. At its end it moves the note to the directory's
//! queue, which the thread that has the directory's structure processes.
//! Locking: [`Rank::Queue`], held to push or take.

use uext4_format::dirent::KnownLeafMut;
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Arc, Mutex, Rank, Sharded};

/// Changes of a non-empty leaf between two notes.
const LOOK_EVERY: u32 = 16;
/// Most names in a queue. A leaf that finds it full stays sparse until a neighbour is merged.
const WAITING_MAX: usize = 1024;

/// A name that was removed from a leaf with little left.
pub(crate) struct Note<D> {
    pub(crate) dir: Arc<D>,
    pub(crate) name: Vec<u8>,
}

/// Names of sparse leaves of one directory.
pub(crate) struct SparseQueue(Mutex<Vec<Vec<u8>>>);

impl Default for SparseQueue {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, Vec::new()))
    }
}

impl SparseQueue {
    /// Queues a name, unless the queue is full; returns the length.
    pub(crate) fn push(&self, name: Vec<u8>) -> usize {
        let mut names = self.0.lock();
        if names.len() < WAITING_MAX {
            names.push(name);
        }
        names.len()
    }

    pub(crate) fn pop(&self) -> Option<Vec<u8>> {
        self.0.lock().pop()
    }
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
    pub(crate) fn queue_if_sparse(
        &self,
        leaf: &KnownLeafMut<'_>,
        changes: u32,
        dir: &Arc<D>,
        name: &[u8],
    ) {
        let is_blank = leaf.is_blank();
        let is_due = is_blank
            || changes.is_multiple_of(LOOK_EVERY) && leaf.used_bytes() <= leaf.area_bytes() / 4;
        if !is_due {
            return;
        }
        let note = Note {
            dir: dir.clone(),
            name: name.to_vec(),
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
