//! Leaves that lost most of their names, to be looked at when the operation has ended.
//!
//! Shrinking needs the directory's `index` lock exclusively, which an operation that removes a name
//! does not hold. So it notes the name, and the end of the operation does what was noted. Notes
//! stay with the shard of the thread: one that took those of others would keep them out of their
//! directories meanwhile.
//!
//! Of one directory one thread does what all noted: the others would wait for each other, and with
//! more threads than processors for one that has none. They leave their notes to it, unless there
//! are too many; those they do themselves.
//!
//! Locking: [`Rank::Queue`], held to push or take.

use super::shrink::{self, Shrunk};
use crate::{Fs, Inode, Result, credits};
use std::sync::Arc;
use uext4_format::FileType;
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Mutex, Rank, Sharded};

/// Steps in one go: a directory that loses names comes again.
const STEPS_MAX: u32 = 4;
/// Names of a directory that wait for one thread.
const WAITING_MAX: usize = 64;
/// Names that one operation does for others; the next one to note a name goes on.
const SERVED_MAX: usize = 256;

/// A name that was removed from a leaf with little left.
type Note = (Arc<Inode>, Vec<u8>);

/// Those of one shard of threads.
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
    pub(super) fn push(&self, dir: &Arc<Inode>, name: &[u8]) {
        let shard = self.0.local();
        shard.notes.lock().push((dir.clone(), name.to_vec()));
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

/// The names of one directory that wait to be looked at.
pub(super) struct SparseNames(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    names: Vec<Vec<u8>>,
    /// A thread does them.
    is_served: bool,
}

impl Default for SparseNames {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, Waiting::default()))
    }
}

/// Who looks at a name.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// The thread that looks at the others.
    Another,
    /// The caller, and at all that come meanwhile: until [`SparseNames::next`] has none.
    Server,
    /// The caller, at this one.
    Own,
}

impl SparseNames {
    /// Who looks at `name`, and at what the caller looks first.
    fn push(&self, name: Vec<u8>) -> (Turn, Option<Vec<u8>>) {
        let mut waiting = self.0.lock();
        if waiting.is_served && waiting.names.len() >= WAITING_MAX {
            return (Turn::Own, Some(name));
        }
        waiting.names.push(name);
        match std::mem::replace(&mut waiting.is_served, true) {
            true => (Turn::Another, None),
            false => (Turn::Server, waiting.names.pop()),
        }
    }

    /// The next name for who serves them; with `None` that has ended.
    fn next(&self, may_go_on: bool) -> Option<Vec<u8>> {
        let mut waiting = self.0.lock();
        let name = may_go_on.then(|| waiting.names.pop()).flatten();
        waiting.is_served = name.is_some();
        name
    }
}

impl Fs {
    /// Shrinks the directories that lost names. No lock may be held.
    pub(crate) fn shrink_directories(&self) -> Result<()> {
        for (dir, name) in self.sparse_leaves.take() {
            if dir.facts().size > self.block_size() as u64 {
                self.shrink_in_turn(&dir, name)?;
            }
        }
        Ok(())
    }

    fn shrink_in_turn(&self, dir: &Arc<Inode>, name: Vec<u8>) -> Result<()> {
        let names = dir.dir_blocks().sparse();
        let (turn, mut name) = names.push(name);
        let mut answer = Ok(());
        let mut served = 0;
        while let Some(next) = name {
            answer = answer.and(self.shrink_directory(dir, &next));
            served += 1;
            name = match turn {
                Turn::Server => names.next(served < SERVED_MAX),
                Turn::Own | Turn::Another => None,
            };
        }
        answer
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

/// True for a directory that still has a name: the number may have a new bearer by now.
fn is_directory(dir: &Inode) -> bool {
    let facts = dir.facts();
    facts.file_type() == Some(FileType::Directory) && facts.links > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(nr: usize) -> Vec<u8> {
        nr.to_string().into_bytes()
    }

    #[test]
    fn one_looks_at_what_all_note_until_it_has_done_enough() {
        let names = SparseNames::default();
        assert_eq!(names.push(name(0)), (Turn::Server, Some(name(0))));
        for nr in 1..=WAITING_MAX {
            assert_eq!(names.push(name(nr)), (Turn::Another, None));
        }
        let more = name(WAITING_MAX + 1);
        assert_eq!(names.push(more.clone()), (Turn::Own, Some(more)));
        let mut served: Vec<_> = std::iter::from_fn(|| names.next(true)).collect();
        served.sort_by_key(|name| String::from_utf8_lossy(name).parse::<usize>().ok());
        assert_eq!(served, (1..=WAITING_MAX).map(name).collect::<Vec<_>>());
        assert_eq!(names.push(name(1)), (Turn::Server, Some(name(1))));
    }

    #[test]
    fn what_was_left_is_done_by_the_next_to_come() {
        let names = SparseNames::default();
        assert_eq!(names.push(name(0)).0, Turn::Server);
        assert_eq!(names.push(name(1)).0, Turn::Another);
        assert_eq!(names.next(false), None);
        let (turn, first) = names.push(name(2));
        assert_eq!((turn, first), (Turn::Server, Some(name(2))));
        assert_eq!(names.next(true), Some(name(1)));
        assert_eq!(names.next(true), None);
    }
}
