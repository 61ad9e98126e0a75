//! Directories that are built anew because they become smaller by that, or get an index.
//!
//! Batches of directories are written as rounds of a repair are. Block counts, bitmaps and quota
//! follow in rounds of their own, before the next batch, which then has the freed blocks.
//!
//! Invariant: a stop at any write leaves each directory as it was or as it becomes. One for which
//! that cannot be, because the disk is full, stays as it is.
//!
//! Not here: `lost+found`, whose empty blocks have a purpose; directories in inodes; directories
//! with `casefold`, whose hashes nothing here can make.

use super::accepted::Accepted;
use super::commit;
use super::entries::Entry;
use super::lost_found::NAME as LOST_FOUND;
use super::patch::Patch;
use super::rebuild::{BYTES_PER_BLOCK, Content, Read};
use super::rounds::Rounds;
use super::{ROUNDS_MAX, RepairAll};
use crate::report::Limits;
use crate::state::{Check, Step, Stop};
use crate::subject::Subject;
use crate::whole_check::check;
use uext4_format::{InodeFlags, InodeNr};
use uext4_journal::recovery::room_images;
use uext4_num::{clamp_usize, u64_of};
use uext4_volume::Result;

/// Most changed blocks of a batch.
const BATCH_BLOCKS: usize = 4096;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Optimised {
    /// Directories that were built anew.
    pub directories: u64,
    /// Blocks that these have no longer.
    pub blocks_freed: u64,
    /// Directories with `casefold` and more than a block, which stay as they are.
    pub casefolded: u64,
    /// The reason why not all directories were read.
    pub incomplete: Option<&'static str>,
}

/// Builds directories of a sound file system anew.
///
/// # Errors
/// An error of the device; what was written before is consistent in itself.
pub(crate) fn optimise(mut subject: Subject, limits: &Limits) -> Result<Optimised> {
    let mut done = Optimised::default();
    let sound = check(&subject, limits)?;
    if !sound.is_clean() {
        done.incomplete = Some("the file system is not sound");
        return Ok(done);
    }
    let mut last = 0;
    while batch(&mut subject, limits, &mut last, &mut done)? {}
    Ok(done)
}

/// Repairs what follows from the batch before, and writes the next one; false if there is none.
fn batch(
    subject: &mut Subject,
    limits: &Limits,
    last: &mut u32,
    done: &mut Optimised,
) -> Result<bool> {
    let mut decisions = RepairAll;
    let mut rounds = Rounds::new(&mut decisions);
    for _ in 0..ROUNDS_MAX {
        let mut check = Check::new(subject, limits);
        check.gate = Some(&mut rounds);
        let mut ended = check.run();
        let free = check.free_counts();
        let mut changes = None;
        if ended.is_ok() {
            let mut patch = Patch::new(&mut check);
            match patch.optimise_next(last, done) {
                Ok(true) => changes = Some(patch.into_changes()),
                Ok(false) => {}
                Err(stop) => ended = Err(stop),
            }
        }
        let incomplete = check.report.incomplete;
        drop(check);
        match ended {
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Changed) => {
                if let Some(changes) = rounds.changes.take() {
                    commit::commit(subject, changes)?;
                }
                continue;
            }
            Err(Stop::Incomplete) => done.incomplete = incomplete,
            Ok(()) => {}
        }
        if let Some(changes) = changes {
            commit::commit(subject, changes)?;
            return Ok(true);
        }
        rounds.report.incomplete = done.incomplete;
        commit::finish(subject, &rounds.report, free)?;
        return Ok(false);
    }
    done.incomplete = Some("it does not end");
    Ok(false)
}

impl Patch<'_, '_> {
    /// Builds the next directories anew, behind the inode `last`; false if nothing changes.
    fn optimise_next(&mut self, last: &mut u32, done: &mut Optimised) -> Step<bool> {
        let most = self.batch_blocks()?;
        let directories = &self.check.links.directories;
        let rest = directories.partition_point(|found| found.nr <= *last);
        let numbers: Vec<u32> = directories[rest..].iter().map(|found| found.nr).collect();
        self.check.take(u64_of(numbers.len()) * 4)?;
        let kept = self.find_name(InodeNr::ROOT, LOST_FOUND)?;
        for nr in numbers {
            if self.blocks.len() >= most {
                break;
            }
            *last = nr;
            if kept != Some(InodeNr(nr)) {
                self.optimise_directory(InodeNr(nr), done)?;
            }
        }
        Ok(!self.blocks.is_empty())
    }

    /// Blocks that a batch may have at once: with those of the last directory they fit the log.
    fn batch_blocks(&self) -> Step<usize> {
        let room = match &self.check.log {
            Some(log) => {
                let room = room_images(log, self.check.geometry.block_size());
                clamp_usize(room.map_err(|error| Stop::Failed(error.into()))? / 2)
            }
            None => BATCH_BLOCKS,
        };
        Ok(room.clamp(1, BATCH_BLOCKS))
    }

    fn optimise_directory(&mut self, nr: InodeNr, done: &mut Optimised) -> Step {
        let Some(mut dir) = self.damaged_directory(nr, Accepted::default())? else {
            return Ok(());
        };
        let extents = self.blocks_of_directory(&dir)?;
        let n_old = extents
            .iter()
            .map(|extent| u64::from(extent.len))
            .sum::<u64>();
        if n_old < 2 {
            return Ok(());
        }
        if dir.inode.flags.contains(InodeFlags::CASEFOLD) {
            done.casefolded += 1;
            return Ok(());
        }
        let Read { entries, up, bytes } = self.read_entries(&mut dir, &extents)?;
        let entries: Vec<Entry> = entries.into_iter().map(|(entry, _)| entry).collect();
        let content = Content {
            nr,
            parent: up.unwrap_or_else(|| self.parent_of(nr)),
            entries: &entries,
            blocks_min: 1,
        };
        let taken = 2 * bytes + 2 * n_old * (BYTES_PER_BLOCK + self.check.block_bytes());
        self.check.take(taken)?;
        let made = self.made(&dir.inode, &content);
        let n_new = u64_of(made.bytes.len()) / self.check.block_bytes();
        let is_index_new = made.is_indexed && !dir.inode.flags.contains(InodeFlags::INDEX);
        let is_better = n_new < n_old || (is_index_new && n_new <= n_old + 1 + n_old / 8);
        let may_stop = self.is_atomic(&extents, n_new)?;
        if is_better && may_stop && self.write_made(dir.inode.clone(), nr, &made, &extents)? {
            done.directories += 1;
            done.blocks_freed += n_old.saturating_sub(n_new);
        }
        self.check.give_back(taken + bytes);
        Ok(())
    }
}
