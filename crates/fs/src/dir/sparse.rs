//! Deferred shrinking: leaves that lost most of their names, noted until the operation ends.
//!
//! Shrinking needs the directory's `index` lock exclusively, which an operation that removes a name
//! does not hold. So the operation notes the name, and shrinks at its end. Notes stay in the
//! thread's shard: taking those of other shards would block their directories for the time.
//!
//! One thread per directory processes all of its notes ([`turns`](super::turns)).
//!
//! Locking: [`Rank::Queue`], held to push or take.

use super::shrink::{self, Shrunk};
use super::turns::Turn;
use crate::{Fs, Inode, Result, credits};
use std::sync::Arc;
use uext4_format::FileType;
use uext4_format::dirent::KnownLeafMut;
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Mutex, Rank, Sharded};

/// Most steps at once: a directory that loses more names is noted again.
const STEPS_MAX: u32 = 4;
/// Changes of a non-empty leaf between two notes.
const LOOK_EVERY: u32 = 16;

/// A name that was removed from a leaf with little left.
struct Note {
    dir: Arc<Inode>,
    name: Vec<u8>,
    /// The leaf is empty.
    is_blank: bool,
}

/// Notes of one shard of threads.
struct Shard {
    waiting: AtomicUsize,
    notes: Mutex<Vec<Note>>,
}

/// The notes of one file system.
pub(crate) struct SparseLeaves(Sharded<Shard>);

impl Default for SparseLeaves {
    fn default() -> Self {
        Self(Sharded::new(|_| Shard {
            waiting: AtomicUsize::new(0),
            notes: Mutex::new(Rank::Queue, Vec::new()),
        }))
    }
}

impl SparseLeaves {
    /// Notes the leaf of `dir` that lost `name`, if it is empty, or sparse at every
    /// [`LOOK_EVERY`]th of its changes; `changes` counts those before.
    pub(super) fn look_at(
        &self,
        leaf: &KnownLeafMut<'_>,
        changes: u32,
        dir: &Arc<Inode>,
        name: &[u8],
    ) {
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

    fn take(&self) -> Vec<Note> {
        let shard = self.0.local();
        if shard.waiting.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut notes = shard.notes.lock();
        shard.waiting.store(0, Ordering::Relaxed);
        std::mem::take(&mut *notes)
    }
}

impl Fs {
    /// Shrinks the noted directories of this shard. The caller holds no lock.
    pub(crate) fn shrink_directories(&self) -> Result<()> {
        for note in self.sparse_leaves.take() {
            if note.dir.facts().size > self.block_size() as u64 {
                self.shrink_in_turn(note)?;
            }
        }
        Ok(())
    }

    fn shrink_in_turn(&self, note: Note) -> Result<()> {
        let dir = &note.dir;
        let names = dir.dir_blocks().sparse();
        match names.push(note.name, note.is_blank) {
            Turn::Another => Ok(()),
            Turn::Own(name) => self.shrink_directory(dir, &name),
            Turn::Server(server) => {
                let mut answer = Ok(());
                while let Some(name) = names.next(server) {
                    answer = answer.and(self.shrink_directory(dir, &name));
                }
                answer
            }
        }
    }

    fn shrink_directory(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<()> {
        let _exclusive = dir.index.write_open();
        for _ in 0..STEPS_MAX {
            if self.writable().is_err() || !is_directory(dir) {
                return Ok(());
            }
            let handle = self.start(credits::DIR_SHRINK)?;
            if shrink::shrink(self, &handle, dir, name)? == Shrunk::NoMore {
                break;
            }
        }
        Ok(())
    }
}

/// True for a directory that still has a name: its inode number may have been reused.
fn is_directory(dir: &Inode) -> bool {
    let facts = dir.facts();
    facts.file_type() == Some(FileType::Directory) && facts.links > 0
}
