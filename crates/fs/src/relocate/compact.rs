//! Compaction: moves data from the end of the file system to free space before it, so that the free
//! space is together.
//!
//! The border is the block before which as much is free as data are behind it. Whole extents behind
//! it move to the longest free runs before it; long extents first, so that they stay whole.

use super::free_runs::FreeRuns;
use super::layout::{self, whole_clusters};
use super::piece::Mover;
use super::{is_no_space, prepare};
use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::types::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::{ControlFlow, Range};
use uext4_format::{FileType, InodeNr};

/// Choices of a call of [`Filesystem::compact`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactOptions {
    /// Plans only, without delayed data, and changes nothing.
    pub dry_run: bool,
}

/// Progress of [`Filesystem::compact`], in bytes of moved data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactProgress {
    /// Bytes moved so far.
    pub moved_bytes: u64,
    /// Bytes planned to move, as in [`Compacted::planned_bytes`].
    pub total_bytes: u64,
}

/// What [`Filesystem::compact`] planned and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// Bytes that were to move.
    pub planned_bytes: u64,
    /// Bytes that moved; fewer than planned if they found no space or the work ended early.
    pub moved_bytes: u64,
    /// Files with data that moved.
    pub files: u64,
    /// Bytes of free space behind the last block in use, as the bitmaps have it.
    pub free_end_bytes: u64,
    /// Bytes of free space that were discarded afterwards.
    pub discarded_bytes: u64,
}

/// Data behind the border, in one run of blocks.
struct TailExtent {
    inode: InodeNr,
    /// In the file, in blocks.
    range: Range<u64>,
    start: u64,
}

impl TailExtent {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl Filesystem {
    /// Moves data of regular files towards the start until free space is together at the end, as
    /// far as files go, and discards free space. Users of the files go on meanwhile. `progress` may
    /// end the work, which leaves what moved.
    ///
    /// # Errors
    /// Those of the device; [`Error::Corrupt`] for damage.
    pub fn compact(
        &self,
        options: &CompactOptions,
        progress: &mut dyn FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<Compacted> {
        if !options.dry_run {
            self.change(|fs| fs.writable())?;
            self.sync()?;
        }
        let (border, mut tail) = self.run(plan)?;
        let total: u64 = tail.iter().map(TailExtent::len).sum();
        let bits = self.fs.base.geometry.block_bits;
        let mut report = Compacted {
            planned_bytes: total << bits,
            ..Compacted::default()
        };
        if !options.dry_run {
            tail.sort_by_key(|tail| std::cmp::Reverse(tail.len()));
            self.bring_forward(&tail, border, &mut report, progress)?;
            self.sync()?;
            report.discarded_bytes = self.trim(0..u64::MAX, 0)?;
        }
        report.free_end_bytes = self.run(|fs| fs.space.free_at_end(&fs.base))? << bits;
        Ok(report)
    }

    fn bring_forward(
        &self,
        tail: &[TailExtent],
        border: u64,
        report: &mut Compacted,
        progress: &mut dyn FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut mover = Mover::new(&self.fs);
        let mut runs = self.run(|fs| FreeRuns::before(fs, border))?;
        let mut files = std::collections::BTreeSet::new();
        for tail in tail {
            let moved = self.bring_one(&mut mover, tail, &mut runs)?;
            report.moved_bytes += moved << self.fs.base.geometry.block_bits;
            if moved > 0 {
                files.insert(tail.inode);
            }
            let told = CompactProgress {
                moved_bytes: report.moved_bytes,
                total_bytes: report.planned_bytes,
            };
            if progress(told).is_break() {
                break;
            }
        }
        report.files = uext4_num::u64_of(files.len());
        Ok(())
    }

    /// Moves one extent before the border, in pieces if it must be; returns how many blocks moved.
    fn bring_one(&self, mover: &mut Mover, tail: &TailExtent, runs: &mut FreeRuns) -> Result<u64> {
        let Some(inode) = self.run(|fs| movable(fs, tail.inode))? else {
            return Ok(0);
        };
        self.change(|fs| prepare(fs, &inode))?;
        let (mut at, mut moved) = (tail.range.start, 0);
        while at < tail.range.end {
            let Some(next) = self.run(|fs| layout::next_mapped(fs, &inode, at..tail.range.end))?
            else {
                break;
            };
            let mut reserved = match runs.reserve(&self.fs, next.end - next.start) {
                Err(error) if is_no_space(&error) => break,
                other => other?,
            };
            let end = next.end.min(next.start + u64::from(reserved.len_blocks()));
            match self.move_all(mover, &inode, next.start..end, &mut reserved, &mut moved) {
                Err(error) if is_no_space(&error) => break,
                done => done?,
            }
            at = end;
        }
        Ok(moved)
    }
}

/// The file, if it is one whose data move and it is still there.
fn movable(fs: &Fs, nr: InodeNr) -> Result<Option<InodeRef>> {
    match fs.inode(nr) {
        Ok(inode) if inode.kind() == FileType::Regular => Ok(Some(inode)),
        Ok(_) | Err(Error::Stale) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The border, and the data behind it.
fn plan(fs: &Fs) -> Result<(u64, Vec<TailExtent>)> {
    let mut all = extents_of_all(fs)?;
    all.sort_by_key(|extent| std::cmp::Reverse(extent.start));
    let free = fs.space.free_runs(&fs.base)?;
    let border = border(&all, &free, fs.base.geometry.blocks_count);
    let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
    let border = border.next_multiple_of(ratio);
    let mut tail = Vec::new();
    for extent in all
        .iter()
        .take_while(|tail| tail.start + tail.len() > border)
    {
        let skip = border.saturating_sub(extent.start);
        let range = whole_clusters(fs, extent.range.start + skip..extent.range.end);
        tail.push(TailExtent {
            inode: extent.inode,
            start: extent.start + skip,
            range,
        });
    }
    Ok((border, tail))
}

/// The lowest block before which as much is free as data are behind it; `end`, that of the file
/// system, if nothing can move. `tail` descends, `free` ascends.
fn border(tail: &[TailExtent], free: &[Range<u64>], end: u64) -> u64 {
    let total: u64 = free.iter().map(|run| run.end - run.start).sum();
    let mut behind = free.iter().rev().peekable();
    let (mut free_before, mut data) = (total, 0);
    for extent in tail {
        while let Some(run) = behind.next_if(|run| run.start >= extent.start) {
            free_before -= run.end - run.start;
        }
        let Some(room) = free_before.checked_sub(data) else {
            return end_of_first(free, data);
        };
        if room < extent.len() {
            let is_full = data == 0 && room == 0;
            let part = extent.start + extent.len() - room;
            return if is_full { end } else { part };
        }
        data += extent.len();
    }
    match data {
        0 => end,
        data => end_of_first(free, data),
    }
}

/// Where the first `blocks` free blocks end.
fn end_of_first(free: &[Range<u64>], blocks: u64) -> u64 {
    let (mut left, mut at) = (blocks, 0);
    for run in free {
        let taken = left.min(run.end - run.start);
        (left, at) = (left - taken, run.start + taken);
        if left == 0 {
            break;
        }
    }
    at
}

/// The extents of all regular files with a name or a user.
fn extents_of_all(fs: &Fs) -> Result<Vec<TailExtent>> {
    let mut all = Vec::new();
    for nr in fs.space.inodes_in_use(&fs.base) {
        let Some(inode) = visible(fs, nr?)? else {
            continue;
        };
        for extent in layout::extents(fs, &inode)? {
            all.push(TailExtent {
                inode: inode.nr(),
                range: extent.logical.0.into()..extent.end(),
                start: extent.start.0,
            });
        }
    }
    Ok(all)
}

/// As [`movable`], except inodes that no name may refer to.
fn visible(fs: &Fs, nr: InodeNr) -> Result<Option<InodeRef>> {
    if fs.hidden.contains(nr) || fs.load_inode(nr)?.holds_value() {
        return Ok(None);
    }
    movable(fs, nr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn tail(start: u64, len: u64) -> TailExtent {
        TailExtent {
            inode: InodeNr(12),
            range: 0..len,
            start,
        }
    }

    #[test]
    fn the_border_has_as_much_free_before_as_data_behind() {
        let data = [tail(90, 10), tail(60, 10), tail(20, 10)];
        assert_eq!(border(&data, &[], 100), 100, "nothing is free");
        assert_eq!(
            border(&data, from_ref(&(100..104)), 104),
            104,
            "free behind the data"
        );
        assert_eq!(
            border(&data, from_ref(&(0..4)), 100),
            96,
            "a part of the last extent"
        );
        assert_eq!(border(&data, &[0..10, 80..90], 100), 70);
        assert_eq!(border(&data, &[0..12, 40..50], 100), 48);
        assert_eq!(border(&data, &[0..20, 40..50, 70..90], 100), 30);
        assert_eq!(border(&data[..1], &[0..5, 10..20], 100), 15, "a gap");
        assert_eq!(border(&[], from_ref(&(0..10)), 100), 100);
    }
}
