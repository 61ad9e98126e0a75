//! Directories that are built anew because they become smaller by that, or get an index.
//!
//! One check finds what is in use. Then batches of directories are written, each with the bitmaps
//! of its new blocks; the blocks that are free by that stay taken. Block counts, free blocks and
//! quota follow at the end, as rounds of a repair. Where the disk was full, the freed blocks let
//! other directories follow.
//!
//! Invariant: a stop at any write leaves each directory as it was or as it becomes, and with a log
//! no block in use that the bitmap has free. A directory for which that cannot be, because the disk
//! is full, stays as it is.
//!
//! Not here: `lost+found`, whose empty blocks have a purpose; directories in inodes; directories
//! with `casefold`, whose hashes nothing here can make.

use super::accepted::Accepted;
use super::commit;
use super::entries::Entry;
use super::lost_found::NAME as LOST_FOUND;
use super::patch::Patch;
use super::rebuild::{BYTES_PER_BLOCK, Content, Read};
use super::{RepairAll, repair};
use crate::report::Limits;
use crate::state::{Check, Step, Stop};
use crate::subject::Subject;
use std::collections::BTreeSet;
use std::time::Duration;
use uext4_format::{InodeFlags, InodeNr};
use uext4_journal::recovery::room_images;
use uext4_num::{clamp_usize, u64_of};
use uext4_volume::Result;
use uext4_volume::superblock::read_primary;

/// Most changed blocks of a batch.
const BATCH_BLOCKS: usize = 4096;

/// Memory for a directory with many short names, in bytes of its blocks.
const MEMORY_SHARE: u64 = 10;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Optimised {
    /// Directories that were built anew.
    pub directories: u64,
    /// Blocks that these have no longer.
    pub blocks_freed: u64,
    /// Directories with `casefold` and more than a block, which stay as they are.
    pub casefolded: u64,
    /// Directories that stay as they are because they need more memory than there may be, or a
    /// larger log.
    pub too_large: u64,
    /// The reason why not all directories were read, or why not all is sound afterwards.
    pub incomplete: Option<&'static str>,
}

/// A pass over all directories.
#[derive(Default)]
pub(super) struct Pass {
    done: Optimised,
    /// The last directory that was read.
    last: u32,
    /// Those that there is no memory for, or no space in the log.
    skipped: BTreeSet<u32>,
    /// Whether some would become smaller if there was more space.
    waits: bool,
}

/// Whether a batch goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Directory,
    /// Its memory is needed.
    Batch,
}

/// Builds directories of a sound file system anew.
///
/// # Errors
/// An error of the device; what was written before is consistent in itself.
pub(crate) fn optimise(mut subject: Subject, limits: &Limits) -> Result<Optimised> {
    let limits = &limits.in_memory();
    let started = subject.clock.monotonic();
    let mut all = Optimised::default();
    loop {
        let Pass { done, waits, .. } = pass(&mut subject, limits, started)?;
        all = Optimised {
            directories: all.directories + done.directories,
            blocks_freed: all.blocks_freed + done.blocks_freed,
            ..done
        };
        if done.directories == 0 {
            return Ok(all);
        }
        // The time of this begins now: without it no program may mount what was written.
        let followed = repair(subject.clone(), &mut RepairAll, limits)?;
        if !followed.is_sound() {
            let why = followed.incomplete;
            all.incomplete = Some(why.unwrap_or("a problem that follows is left"));
            return Ok(all);
        }
        if !waits || done.blocks_freed == 0 || done.incomplete.is_some() {
            return Ok(all);
        }
        subject.superblock = read_primary(&*subject.device, None)?;
    }
}

/// Writes all batches that there is space for.
pub(super) fn pass(subject: &mut Subject, limits: &Limits, started: Duration) -> Result<Pass> {
    let mut pass = Pass::default();
    let mut check = Check::new(subject, limits);
    let clock = check.clock;
    let spent = || clock.monotonic().saturating_sub(started);
    check.started = started;
    let before = spent();
    match check.run() {
        Err(Stop::Failed(error)) => return Err(error),
        Err(_) => pass.done.incomplete = check.report.incomplete,
        Ok(()) if !check.report.is_clean() => {
            pass.done.incomplete = Some("the file system is not sound");
        }
        Ok(()) => {}
    }
    // So much is left for what follows.
    let reserve = spent().saturating_sub(before).saturating_mul(2);
    let mut volume = None;
    while pass.done.incomplete.is_none() {
        if spent().saturating_add(reserve) > limits.time {
            pass.done.incomplete = Some("it takes longer than it may");
            break;
        }
        let (last, done, memory) = (pass.last, pass.done, check.memory_bytes);
        let mut patch = Patch::new(&mut check);
        let built = patch.optimise_next(&mut pass);
        let changes = patch.into_changes();
        match built {
            Err(Stop::Failed(error)) => return Err(error),
            Err(_) => {
                // The batch is not written; it goes on without the directory that ended it.
                check.memory_bytes = memory;
                let why = check.report.incomplete.take();
                pass.done = done;
                if spent() > limits.time || !pass.skipped.insert(pass.last) {
                    pass.done.incomplete = why;
                }
                pass.last = last;
            }
            Ok(()) if changes.blocks.is_empty() => break,
            Ok(()) => {
                let volume = match &mut volume {
                    Some(volume) => volume,
                    None => volume.insert(commit::volume(subject, changes.log.clone())?),
                };
                commit::put(volume, changes)?;
                check.memory_bytes = memory;
            }
        }
    }
    pass.done.too_large += u64_of(pass.skipped.len());
    let written = volume.map(|volume| volume.superblock().clone());
    drop(check);
    if let Some(written) = written {
        subject.superblock = written;
    }
    Ok(pass)
}

impl Patch<'_, '_> {
    /// Builds the next directories anew; without a change if none is left.
    fn optimise_next(&mut self, pass: &mut Pass) -> Step {
        let room = self.batch_room()?;
        // With the blocks of the last directory they fit the log.
        let most = (room / 2).clamp(1, BATCH_BLOCKS);
        let directories = &self.check.links.directories;
        let rest = directories.partition_point(|found| found.nr <= pass.last);
        let numbers: Vec<u32> = directories[rest..].iter().map(|found| found.nr).collect();
        self.check.take(u64_of(numbers.len()) * 4)?;
        let kept = self.find_name(InodeNr::ROOT, LOST_FOUND)?;
        for nr in numbers {
            if self.batch_blocks() >= most {
                break;
            }
            let before = std::mem::replace(&mut pass.last, nr);
            let is_left = kept == Some(InodeNr(nr)) || pass.skipped.contains(&nr);
            if !is_left && self.optimise_directory(InodeNr(nr), pass)? == Next::Batch {
                pass.last = before;
                break;
            }
            if self.batch_blocks() >= room {
                // A stop between parts of the batch would leave blocks in use that the bitmap has
                // free.
                return Err(Stop::Incomplete);
            }
        }
        if !self.blocks.is_empty() {
            for group in std::mem::take(&mut self.space.groups) {
                self.repair_block_bitmap(group)?;
            }
        }
        Ok(())
    }

    /// Blocks of the batch, at most: a bitmap and a descriptor for each group follow.
    fn batch_blocks(&self) -> usize {
        self.blocks.len() + 2 * self.space.groups.len()
    }

    /// Blocks that the log holds at once, with the superblock.
    fn batch_room(&self) -> Step<usize> {
        let Some(log) = &self.check.log else {
            return Ok(usize::MAX);
        };
        let room = room_images(log, self.check.geometry.block_size());
        Ok(clamp_usize(
            room.map_err(|error| Stop::Failed(error.into()))?,
        ))
    }

    fn optimise_directory(&mut self, nr: InodeNr, pass: &mut Pass) -> Step<Next> {
        let Some(mut dir) = self.damaged_directory(nr, Accepted::default())? else {
            return Ok(Next::Directory);
        };
        let extents = self.blocks_of_directory(&dir)?;
        let n_old = extents
            .iter()
            .map(|extent| u64::from(extent.len))
            .sum::<u64>();
        if n_old < 2 {
            return Ok(Next::Directory);
        }
        if dir.inode.flags.contains(InodeFlags::CASEFOLD) {
            pass.done.casefolded += 1;
            return Ok(Next::Directory);
        }
        let needed = MEMORY_SHARE * n_old * self.check.block_bytes();
        if self.check.memory_bytes.saturating_add(needed) > self.check.limits.memory_bytes {
            if !self.blocks.is_empty() {
                return Ok(Next::Batch);
            }
            pass.done.too_large += 1;
            return Ok(Next::Directory);
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
            pass.done.directories += 1;
            pass.done.blocks_freed += n_old.saturating_sub(n_new);
        } else {
            pass.waits |= is_better;
        }
        self.check.give_back(taken + bytes);
        Ok(Next::Directory)
    }
}
