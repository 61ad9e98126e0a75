//! Deferred shrinking: leaves that lost most of their names, noted until the operation ends.
//!
//! Shrinking needs the directory's `index` lock exclusively, which an operation that removes a name
//! does not hold. So the operation notes the name ([`crate::dcache::SparseLeaves`]), and shrinks at
//! its end. One thread per directory processes all of its notes ([`Election`]).

use super::shrink::{self, Shrunk};
use crate::dcache::{Election, Note};
use crate::inode::Inode;
use crate::{Fs, Result, credits};
use uext4_format::FileType;
use uext4_sync::Arc;

/// Most steps at once: a directory that loses more names is noted again.
const STEPS_MAX: u32 = 4;
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

    fn shrink_in_turn(&self, note: Note<Inode>) -> Result<()> {
        let dir = &note.dir;
        let names = dir.dir_blocks().sparse();
        match names.push(note.name, note.is_blank) {
            Election::Another => Ok(()),
            Election::Own(name) => self.shrink_directory(dir, &name),
            Election::Server(server) => {
                let mut answer = Ok(());
                while let Some(name) = names.next(server) {
                    answer = answer.and(self.shrink_directory(dir, &name));
                }
                answer
            }
        }
    }

    fn shrink_directory(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<()> {
        let name = &self.hashed(name);
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
