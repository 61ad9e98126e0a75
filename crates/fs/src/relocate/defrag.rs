//! Defragmentation of a file: fewer extents, as `e4defrag` aims at.
//!
//! From the front, consecutive extents move together into one free run, if fewer extents map them
//! then. A run that is as long as all of them is preferred, then the longest; it follows the one
//! before if it can. Extents of full length, and those before holes, stay.

use super::layout::{self, fewest, len_max, whole_clusters};
use super::piece::Mover;
use super::reserved::Reserved;
use super::{check, is_no_space, prepare, want};
use crate::ops::filesystem::Filesystem;
use crate::parts::map::{self, Mapped};
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::types::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::{ControlFlow, Range};
use uext4_format::{BlockNr, InodeFlags, LogicalBlock};
use uext4_num::{clamp_u32, u64_of};

/// Choices of a call of [`Filesystem::defragment`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragOptions {
    /// Counts only, without delayed data, and changes nothing.
    pub dry_run: bool,
}

/// Why a file was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftAlone {
    /// No smaller number of extents can map it.
    Ideal,
    /// It is immutable or append-only.
    Locked,
    /// No free space would give it fewer extents.
    NoBetterSpace,
}

/// What [`Filesystem::defragment`] found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragmented {
    /// Extents before; those with data in the inode have none.
    pub extents_before: u64,
    /// Extents after the call.
    pub extents_after: u64,
    /// The fewest extents that can map the file.
    pub extents_fewest: u64,
    /// Bytes of data that moved; 0 if it was left alone.
    pub moved_bytes: u64,
    /// Why nothing moved, if so.
    pub left_alone: Option<LeftAlone>,
}

impl Filesystem {
    /// Moves the data of a file so that fewer extents map it; users of the file go on meanwhile.
    /// `progress` gets the bytes moved so far, and may end the work, which leaves what moved.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other files than regular ones; errors of the device.
    pub fn defragment(
        &self,
        inode: &InodeRef,
        options: &DefragOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Defragmented> {
        if options.dry_run {
            self.run(|fs| check(fs, inode))?
        } else {
            self.change(|fs| prepare(fs, inode))?
        }
        let extents = self.run(|fs| layout::extents(fs, inode))?;
        let mut report = Defragmented {
            extents_before: u64_of(extents.len()),
            extents_after: u64_of(extents.len()),
            extents_fewest: fewest(&self.fs, &extents),
            moved_bytes: 0,
            left_alone: None,
        };
        let locked = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);
        if inode.read().disk.flags.intersects(locked) {
            report.left_alone = Some(LeftAlone::Locked);
        } else if report.extents_before <= report.extents_fewest {
            report.left_alone = Some(LeftAlone::Ideal);
        }
        if report.left_alone.is_some() || options.dry_run {
            return Ok(report);
        }
        let mut job = Job {
            filesystem: self,
            inode,
            mover: Mover::new(&self.fs),
            goal: None,
            useless_blocks: u64::MAX,
        };
        report.moved_bytes = job.all(&extents, progress)? << self.fs.base.geometry.block_bits;
        report.extents_after = u64_of(self.run(|fs| layout::extents(fs, inode))?.len());
        if report.moved_bytes == 0 {
            report.left_alone = Some(LeftAlone::NoBetterSpace);
        }
        Ok(report)
    }
}

/// The work on one file.
struct Job<'a> {
    filesystem: &'a Filesystem,
    inode: &'a InodeRef,
    mover: Mover,
    /// Block behind the last run, for the next one.
    goal: Option<BlockNr>,
    /// No free run is as long as this.
    useless_blocks: u64,
}

impl<'a> Job<'a> {
    /// Returns how many blocks moved.
    fn all(
        &mut self,
        extents: &[Mapped],
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let bits = self.filesystem.fs.base.geometry.block_bits;
        let (mut at, mut moved) = (0, 0);
        while at < extents.len() {
            let range = match self.gather(extents, at)? {
                Some((range, reserved)) => {
                    moved += self.move_to(range.clone(), reserved)?;
                    range
                }
                None => 0..extents[at].end(),
            };
            at += extents[at..]
                .iter()
                .take_while(|extent| extent.end() <= range.end)
                .count()
                .max(1);
            if progress(moved << bits).is_break() {
                break;
            }
        }
        Ok(moved)
    }

    fn move_to(&mut self, range: Range<u64>, mut reserved: Reserved<'_>) -> Result<u64> {
        let (filesystem, inode) = (self.filesystem, self.inode);
        let mut moved = 0;
        let done = filesystem.move_all(&mut self.mover, inode, range, &mut reserved, &mut moved);
        self.goal = Some(reserved.start());
        match done {
            // A split needs a tree block: what moved before stays.
            Err(error) if !is_no_space(&error) => Err(error),
            _ => Ok(moved),
        }
    }

    /// Reserves a run for extents from position `at` on that makes fewer of them; returns the part
    /// of the file that fits.
    fn gather(
        &mut self,
        extents: &[Mapped],
        at: usize,
    ) -> Result<Option<(Range<u64>, Reserved<'a>)>> {
        let fs: &'a Fs = &self.filesystem.fs;
        let group = together(fs, &extents[at..]);
        let Some([first, second]) = group.first_chunk() else {
            return Ok(None);
        };
        let range = whole_clusters(fs, first.logical.0.into()..last_end(group));
        let least = whole_clusters(fs, range.start..second.end()).end - range.start;
        let wanted = range.end - range.start;
        if least > wanted || least >= self.useless_blocks {
            return Ok(None);
        }
        let Some(reserved) = self.reserve(fs, clamp_u32(wanted), clamp_u32(least))? else {
            self.useless_blocks = least;
            return Ok(None);
        };
        let end = range.start + wanted.min(reserved.len_blocks().into());
        let fits = group.iter().take_while(|extent| extent.end() <= end);
        let last = last_end(&group[..fits.count()]);
        let range = range.start..whole_clusters(fs, 0..last).end.min(end);
        Ok(makes_fewer(fs, extents, &range).then_some((range, reserved)))
    }

    /// A run of `wanted` blocks, else the longest of at least `least`.
    fn reserve(&self, fs: &'a Fs, wanted: u32, least: u32) -> Result<Option<Reserved<'a>>> {
        let exact = want(fs, self.inode, wanted, wanted, self.goal);
        if let Some(reserved) = Reserved::run_at_once(fs, &exact)? {
            return Ok(Some(reserved));
        }
        let want = want(fs, self.inode, wanted, least, self.goal);
        match Reserved::run(fs, &want) {
            Ok(reserved) => Ok(Some(reserved)),
            Err(Error::NoSpace) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether fewer extents map the file when the clusters of `range` are in one run. Extents that
/// reach over its ends are split.
fn makes_fewer(fs: &Fs, extents: &[Mapped], range: &Range<u64>) -> bool {
    let first = extents.partition_point(|extent| extent.end() <= range.start);
    let (mut before, mut outside, mut inside) = (0, 0, Vec::new());
    for extent in &extents[first..] {
        let blocks = u64::from(extent.logical.0)..extent.end();
        if blocks.start >= range.end {
            break;
        }
        before += 1;
        outside += u64::from(blocks.start < range.start) + u64::from(blocks.end > range.end);
        let kept = blocks.start.max(range.start)..blocks.end.min(range.end);
        inside.push(Mapped {
            logical: LogicalBlock(clamp_u32(kept.start)),
            len_blocks: clamp_u32(kept.end - kept.start),
            ..*extent
        });
    }
    outside + fewest(fs, &inside) < before
}

fn last_end(extents: &[Mapped]) -> u64 {
    extents.last().map_or(0, Mapped::end)
}

/// The extents at the front that follow each other in the file, as many as one run can hold. None
/// if the first is as long as an extent can be.
fn together<'a>(fs: &Fs, extents: &'a [Mapped]) -> &'a [Mapped] {
    let max = run_max(fs);
    let start = u64::from(extents[0].logical.0);
    if u64::from(extents[0].len_blocks) >= len_max(fs, extents[0].state) {
        return &[];
    }
    let follows = extents.windows(2).take_while(|pair| {
        pair[0].end() == u64::from(pair[1].logical.0) && pair[1].end() - start <= max
    });
    &extents[..1 + follows.count()]
}

/// The longest run that the allocator hands out and one extent maps.
fn run_max(fs: &Fs) -> u64 {
    let extent = len_max(fs, map::ExtentState::Written);
    extent.min(fs.base.geometry.blocks_per_group.into())
}
