//! Shrinking of an indexed directory that loses names.
//!
//! A sparse leaf is merged with a neighbour below the same node ([`merge`](super::merge)). The last
//! block of the directory moves to the freed place, the only entry that leads to it is changed, and
//! the directory ends one block earlier. So it never has a hole, which e2fsck and other
//! implementations reject. The kernel never shrinks a directory, but reads a shrunk one. Nodes are
//! not merged: a node costs at most two blocks, itself and one leaf.
//!
//! An operation that removes a name does not hold the `index` lock exclusively, as a merge must. So
//! it notes the leaf ([`SparseLeaves`](crate::cache::dcache::SparseLeaves)), and queues the note at
//! its end. The thread that gets the lock without waiting processes the queue; the others go on, so
//! removals in one directory do not wait for each other. Each [`PATIENCE`]th note waits for the
//! lock, so that few notes are left when the last name has gone.
//!
//! Invariants: a step is one transaction and leaves a sound directory. Merged leaves are at most
//! half full, so that the next names do not split them again. Positions in hash order do not
//! change.

use super::index::{Probe, Target, probe};
use super::merge;
use super::view::{Dir, Form};
use crate::cache::dcache::HashedName;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::Result;
use uext4_format::FileType;
use uext4_sync::Arc;

/// Notes of which one waits for the lock.
const PATIENCE: usize = 8;
/// Most notes that one operation processes at a time.
const BATCH: usize = 64;

impl Fs {
    /// Merges sparse leaves that the calling thread noted. The caller holds no lock.
    pub(crate) fn shrink_directories(&self) -> Result<()> {
        for note in self.sparse_leaves.take() {
            let dir = &note.dir;
            if dir.facts().size <= self.block_bytes() {
                continue;
            }
            let waiting = dir.dir_blocks().sparse().push(note.name);
            let held = if waiting.is_multiple_of(PATIENCE) {
                Some(dir.index.write_open())
            } else {
                dir.index.try_write_open()
            };
            if let Some(_exclusive) = held {
                self.merge_queued(dir)?;
            }
        }
        Ok(())
    }

    fn merge_queued(&self, dir: &Arc<Inode>) -> Result<()> {
        for _ in 0..BATCH {
            let Some(name) = dir.dir_blocks().sparse().pop() else {
                break;
            };
            let name = self.hashed(&name);
            while self.shrink_directory(dir, &name)? {}
        }
        Ok(())
    }

    /// Frees a block, if a merge at the leaf of `name` can; returns whether it did.
    fn shrink_directory(&self, dir: &Arc<Inode>, name: &HashedName<'_>) -> Result<bool> {
        if self.writable().is_err() || !is_directory(dir) {
            return Ok(false);
        }
        let view = Dir::open(self, dir)?;
        if view.form != Form::Indexed {
            return Ok(false);
        }
        match probe(&view, Target::Name(name))? {
            Probe::Path(path) => merge::merge_leaf(view, &path),
            Probe::Broken(_) => Ok(false),
        }
    }
}

/// True for a directory that still has a name: its inode number may have been reused.
fn is_directory(dir: &Inode) -> bool {
    let facts = dir.facts();
    facts.file_type() == Some(FileType::Directory) && facts.links > 0
}
