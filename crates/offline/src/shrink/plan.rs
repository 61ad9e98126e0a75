//! One pass towards a smaller size: what moves where.
//!
//! A pass moves inodes, or blocks. Blocks leave what has to become free: all behind the new end,
//! and windows for inode tables before it. New places are blocks that are free before the pass.
//! A map is made anew, and its old blocks are free only then: if the new one has no place before
//! the end, it lies behind it until the next pass. The last pass cuts. What the cut frees before
//! the end (metadata of groups that go) is free for the next size.

use super::layout::{Holder, Layout, clusters_of_data};
use super::maps::translated;
use super::numbers;
use super::tables::{TableMove, TablePlan};
use crate::renumber::Renumbered;
use crate::space::{self, FreeRuns};
use crate::target;
use std::iter;
use std::ops::Range;
use uext4_format::extent::Extent;
use uext4_format::{BlockNr, Geometry, Superblock};
use uext4_volume::{InTheWay, Result};

/// A plan, or what is in the way.
pub(super) type Planned<T> = std::result::Result<T, InTheWay>;

/// Blocks that move: whole clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) old: Range<u64>,
    /// First block of the new run.
    pub(super) new: u64,
}

/// A file of which blocks move.
pub(super) struct FileMove {
    /// Index in the holders of the layout.
    pub(super) holder: usize,
    /// Data, by old place.
    pub(super) data: Vec<Moved>,
    /// Blocks of the new map.
    pub(super) nodes: Vec<BlockNr>,
}

pub(super) struct Step {
    /// The superblock when the size is reached, without its free counts.
    pub(super) wanted: Superblock,
    pub(super) geometry: Geometry,
    /// Inodes that get other numbers; nothing else moves then.
    pub(super) inodes: Renumbered,
    pub(super) files: Vec<FileMove>,
    pub(super) journal: Option<FileMove>,
    /// Old and new place of blocks of extended attributes.
    pub(super) attributes: Vec<(u64, u64)>,
    /// Of the table of the resize inode.
    pub(super) resize_table: Option<(u64, u64)>,
    pub(super) tables: Vec<TableMove>,
    /// Whether the cut may follow.
    pub(super) is_last: bool,
    /// Clusters that are free before the pass and stay so.
    pub(super) free: Vec<Range<u64>>,
}

impl Step {
    /// Plans a pass to `blocks` blocks; or tells what is in the way.
    ///
    /// # Errors
    /// Damage of the superblock.
    pub(super) fn plan(layout: &Layout, blocks: u64) -> Result<Planned<Self>> {
        let Some(wanted) = target::smaller(&layout.superblock, blocks)? else {
            return Ok(Err(InTheWay::Descriptors));
        };
        let step = Self {
            geometry: wanted.geometry()?,
            wanted,
            inodes: Renumbered::new(),
            files: Vec::new(),
            journal: None,
            attributes: Vec::new(),
            resize_table: None,
            tables: Vec::new(),
            is_last: true,
            free: Vec::new(),
        };
        Ok(step.fill(layout))
    }

    fn fill(mut self, layout: &Layout) -> Planned<Self> {
        let mut pins = layout.pins.iter();
        if let Some(pin) = pins.find(|pin| pin.blocks.end > self.geometry.blocks_count) {
            return Err(pin.owner.clone());
        }
        self.inodes = numbers::plan(layout, &self.geometry)?;
        if !self.inodes.is_empty() {
            self.is_last = false;
            self.free.clone_from(&layout.free);
            return Ok(self);
        }
        let tables = TablePlan::of(layout, &self.geometry)?;
        let mut space = Space::new(layout, &self.geometry, &tables.windows);
        self.tables = tables.moves;
        // Its runs shall be long, so it is the first.
        self.journal = space.plan_journal(layout)?;
        let late = layout.holders.iter().enumerate();
        let late = late.filter(|(_, holder)| space.is_late(holder));
        let late: Vec<_> = late.collect();
        for (at, holder) in &late {
            let data = space.plan_data(&holder.map.extents)?;
            let nodes = Vec::new();
            self.files.push(FileMove {
                holder: *at,
                data,
                nodes,
            });
        }
        for block in layout.attributes.keys() {
            self.attributes.extend(space.plan_block(*block)?);
        }
        if let Some(block) = layout.resize_table {
            self.resize_table = space.plan_block(block)?;
        }
        for (file, (_, holder)) in self.files.iter_mut().zip(&late) {
            space.plan_map(holder, file)?;
        }
        self.is_last = !space.has_borrowed;
        self.free = space.into_free();
        Ok(self)
    }
}

/// Space while a pass is planned.
struct Space {
    geometry: Geometry,
    /// Clusters that have to become free: sorted, without overlap.
    evacuated: Vec<Range<u64>>,
    has_windows: bool,
    /// Free ones before the end, for what moves.
    free: FreeRuns,
    /// Free ones behind it, for maps until the next pass.
    behind: FreeRuns,
    /// Whether a map got one of these.
    has_borrowed: bool,
}

impl Space {
    fn new(layout: &Layout, new: &Geometry, windows: &[Range<u64>]) -> Self {
        let end = new.blocks_count >> new.cluster_bits;
        let before = space::before(&layout.free, end);
        let mut evacuated = windows.to_vec();
        evacuated.push(end..u64::MAX);
        Self {
            geometry: *new,
            evacuated: space::merged(evacuated),
            has_windows: !windows.is_empty(),
            free: FreeRuns::new(&space::without(&before, windows)),
            behind: FreeRuns::new(&space::without(&layout.free, &before)),
            has_borrowed: false,
        }
    }

    /// Whether a block of the file has to move.
    fn is_late(&self, holder: &Holder) -> bool {
        let is_behind = holder.end > self.geometry.blocks_count;
        is_behind || (self.has_windows && holder.map.blocks().any(|run| self.has_to_move(&run)))
    }

    fn has_to_move(&self, run: &Range<u64>) -> bool {
        let clusters = space::clusters(&self.geometry, run.start, run.end - run.start);
        space::common(clusters, &self.evacuated).next().is_some()
    }

    /// Takes up to `len` clusters for a new place.
    fn take(&mut self, len: u64) -> Planned<Range<u64>> {
        self.free.take(len).ok_or(InTheWay::Space)
    }

    /// The journal moves with its first block: see [`super::journal`].
    fn plan_journal(&mut self, layout: &Layout) -> Planned<Option<FileMove>> {
        let Some(holder) = layout.journal.as_ref().filter(|one| self.is_late(one)) else {
            return Ok(None);
        };
        let mut runs = clusters_of_data(&self.geometry, &holder.map.extents);
        let first = runs.first().map_or(0, |run| run.start);
        if let Some(run) = runs.first_mut() {
            run.start += 1;
        }
        let moving = iter::once(first..first + 1).chain(self.late_parts(runs));
        let mut file = FileMove {
            holder: 0,
            data: self.new_places(space::joined(moving.collect()))?,
            nodes: Vec::new(),
        };
        self.plan_map(holder, &mut file)?;
        Ok(Some(file))
    }

    fn plan_data(&mut self, extents: &[Extent]) -> Planned<Vec<Moved>> {
        let runs = clusters_of_data(&self.geometry, extents);
        let late = self.late_parts(runs);
        self.new_places(space::joined(late))
    }

    /// The parts of runs that have to move, in the order of the file.
    fn late_parts(&self, runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let runs = runs.into_iter();
        runs.flat_map(|run| space::common(run, &self.evacuated))
            .collect()
    }

    /// New places of runs of clusters in the order of the file; the answer is by old place.
    fn new_places(&mut self, runs: Vec<Range<u64>>) -> Planned<Vec<Moved>> {
        let bits = self.geometry.cluster_bits;
        let mut data = Vec::new();
        for run in runs {
            let mut old = run.start;
            while old < run.end {
                let new = self.take(run.end - old)?;
                let end = old + (new.end - new.start);
                data.push(Moved {
                    old: old << bits..end << bits,
                    new: new.start << bits,
                });
                old = end;
            }
        }
        data.sort_by_key(|moved| moved.old.start);
        Ok(data)
    }

    /// Old and new place of a block that has a cluster of its own, if it has to move.
    fn plan_block(&mut self, block: u64) -> Planned<Option<(u64, u64)>> {
        if !self.has_to_move(&(block..block + 1)) {
            return Ok(None);
        }
        let to = self.take(1)?;
        Ok(Some((block, self.first_block(&to).0)))
    }

    fn plan_map(&mut self, holder: &Holder, file: &mut FileMove) -> Planned<()> {
        for _ in 0..self.nodes_of(holder, file) {
            let node = match self.free.take(1) {
                Some(node) => node,
                None => {
                    self.has_borrowed = true;
                    self.behind.take(1).ok_or(InTheWay::Space)?
                }
            };
            file.nodes.push(self.first_block(&node));
        }
        Ok(())
    }

    /// Number of blocks of the map when the data have moved.
    fn nodes_of(&self, holder: &Holder, file: &FileMove) -> usize {
        let extents = &holder.map.extents;
        let count = if file.data.is_empty() {
            extents.len()
        } else {
            translated(extents, &file.data).len()
        };
        holder.map.nodes_with(count, self.geometry.block_size())
    }

    fn first_block(&self, clusters: &Range<u64>) -> BlockNr {
        BlockNr(clusters.start << self.geometry.cluster_bits)
    }

    /// What is left, sorted.
    fn into_free(self) -> Vec<Range<u64>> {
        let mut free = self.free.into_runs();
        free.extend(self.behind.into_runs());
        space::merged(free)
    }
}
