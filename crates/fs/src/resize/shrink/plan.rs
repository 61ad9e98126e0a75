//! One step towards a smaller size: which blocks move where.
//!
//! New places are blocks that are free before the step. What the step frees before the new end (old
//! maps, metadata of groups that go) is free for the next one.

use super::journal;
use super::layout::{Holder, Layout, clusters_of_data};
use super::maps::{Map, translated};
use super::space::{self, FreeRuns};
use crate::resize::target;
use crate::{InTheWay, Result};
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, Feature, Geometry, GroupDescriptor, Superblock};
use uext4_num::usize_of;

/// Blocks that move: whole clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) old: Range<u64>,
    /// The first new block.
    pub(super) new: u64,
}

/// A file of which blocks move.
pub(super) struct FileMove {
    /// Index of the holder.
    pub(super) holder: usize,
    /// Data, by old place.
    pub(super) data: Vec<Moved>,
    /// Blocks of the new map.
    pub(super) nodes: Vec<BlockNr>,
}

/// A step.
pub(super) struct Step {
    /// The superblock afterwards, without its free counts.
    pub(super) wanted: Superblock,
    pub(super) geometry: Geometry,
    pub(super) files: Vec<FileMove>,
    /// Blocks to which the journal moves.
    pub(super) journal: Option<Vec<Range<u64>>>,
    /// Old and new place of blocks of extended attributes.
    pub(super) attributes: Vec<(u64, u64)>,
    /// Free clusters that are left.
    free: Vec<Range<u64>>,
}

impl Step {
    /// Plans a step to `blocks` blocks; or tells what is in the way.
    ///
    /// # Errors
    /// Damage of the superblock.
    pub(super) fn plan(
        layout: &Layout,
        blocks: u64,
    ) -> Result<std::result::Result<Self, InTheWay>> {
        let Some(wanted) = target::smaller(&layout.superblock, blocks)? else {
            return Ok(Err(InTheWay::Descriptors));
        };
        let geometry = wanted.geometry()?;
        Ok(Self::to(layout, wanted, geometry))
    }

    fn to(
        layout: &Layout,
        wanted: Superblock,
        geometry: Geometry,
    ) -> std::result::Result<Self, InTheWay> {
        check_what_stays(layout, &geometry)?;
        let end = geometry.blocks_count >> geometry.cluster_bits;
        let mut free = FreeRuns::new(&space::before(&layout.free, end));
        let mut step = Self {
            wanted,
            geometry,
            files: Vec::new(),
            journal: None,
            attributes: Vec::new(),
            free: Vec::new(),
        };
        // It has the longest runs.
        step.journal = step.plan_journal(layout, &mut free)?;
        for (at, holder) in layout.holders.iter().enumerate() {
            if holder.end > geometry.blocks_count {
                let file = step.plan_file(at, holder, &mut free)?;
                step.files.push(file);
            }
        }
        for block in layout.attributes.range(geometry.blocks_count..) {
            let to = take(&mut free, 1)?;
            step.attributes
                .push((*block.0, to.start << geometry.cluster_bits));
        }
        step.free = free.into_runs();
        Ok(step)
    }

    fn plan_journal(
        &self,
        layout: &Layout,
        free: &mut FreeRuns,
    ) -> std::result::Result<Option<Vec<Range<u64>>>, InTheWay> {
        let is_late = |holder: &&Holder| holder.end > self.geometry.blocks_count;
        let Some(holder) = layout.journal.as_ref().filter(is_late) else {
            return Ok(None);
        };
        let bits = self.geometry.cluster_bits;
        let in_the_way = || InTheWay::Journal {
            block: holder.end - 1,
        };
        let (mut left, mut runs) = (journal::len_blocks(&holder.map.extents) >> bits, Vec::new());
        while left > 0 && journal::fits(&holder.map.extents, &runs) {
            let run = free.take(left).ok_or_else(in_the_way)?;
            left -= run.end - run.start;
            runs.push(run.start << bits..run.end << bits);
        }
        match journal::fits(&holder.map.extents, &runs) {
            true => Ok(Some(runs)),
            false => Err(in_the_way()),
        }
    }

    fn plan_file(
        &self,
        at: usize,
        holder: &Holder,
        free: &mut FreeRuns,
    ) -> std::result::Result<FileMove, InTheWay> {
        let map = &holder.map;
        let mut data = Vec::new();
        for run in self.late_runs(&map.extents) {
            let mut old = run.start;
            while old < run.end {
                let new = take(free, run.end - old)?;
                let len = new.end - new.start;
                data.push(self.moved(old, old + len, new.start));
                old += len;
            }
        }
        data.sort_by_key(|moved| moved.old.start);
        let count = match data.is_empty() {
            true => map.extents.len(),
            false => translated(&map.extents, &data).len(),
        };
        let count = map.nodes_with(count, self.geometry.block_size());
        let has_quota = self.geometry.features.has(Feature::QUOTA);
        if has_quota && count != map.nodes.len() {
            return Err(InTheWay::Quota { inode: holder.nr });
        }
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let start = take(free, 1)?.start;
            nodes.push(BlockNr(start << self.geometry.cluster_bits));
        }
        Ok(FileMove {
            holder: at,
            data,
            nodes,
        })
    }

    fn moved(&self, old: u64, end: u64, new: u64) -> Moved {
        let bits = self.geometry.cluster_bits;
        Moved {
            old: old << bits..end << bits,
            new: new << bits,
        }
    }

    /// Runs of clusters of data behind the new end, in the order of the file.
    fn late_runs(&self, extents: &[Extent]) -> Vec<Range<u64>> {
        let end = self.end();
        let mut late: Vec<Range<u64>> = Vec::new();
        for run in clusters_of_data(&self.geometry, extents) {
            let run = run.start.max(end)..run.end;
            if run.is_empty() {
                continue;
            }
            match late.last_mut().filter(|last| last.end == run.start) {
                Some(last) => last.end = run.end,
                None => late.push(run),
            }
        }
        late
    }

    /// The cluster behind the new end.
    fn end(&self) -> u64 {
        self.geometry.blocks_count >> self.geometry.cluster_bits
    }

    /// The layout when the step is done.
    pub(super) fn apply(self, mut layout: Layout) -> Layout {
        let end = self.end();
        let mut free = self.free;
        free.extend(released(&layout.geometry, &layout.groups, &self.geometry));
        for file in self.files {
            let holder = &mut layout.holders[file.holder];
            for node in &holder.map.nodes {
                free.push(space::clusters(&self.geometry, node.0, 1));
            }
            let map = Map {
                extents: translated(&holder.map.extents, &file.data),
                nodes: file.nodes,
                ..holder.map
            };
            *holder = Holder::new(holder.nr, map);
        }
        if let Some((holder, runs)) = layout.journal.as_mut().zip(self.journal) {
            free.extend(clusters_of_data(&self.geometry, &holder.map.extents));
            let map = Map {
                extents: journal::extents_of(&runs, 0, ExtentState::Written),
                ..holder.map.clone()
            };
            *holder = Holder::new(holder.nr, map);
        }
        for (old, new) in self.attributes {
            let users = layout.attributes.remove(&old).unwrap_or_default();
            layout.attributes.insert(new, users);
        }
        layout.groups.truncate(usize_of(self.geometry.group_count));
        Layout {
            free: space::before(&space::merged(free), end),
            superblock: self.wanted,
            geometry: self.geometry,
            ..layout
        }
    }
}

/// The clusters that are metadata in the geometry `old`, and not in the smaller one.
pub(super) fn released(
    old: &Geometry,
    groups: &[GroupDescriptor],
    new: &Geometry,
) -> Vec<Range<u64>> {
    let (all, kept) = (
        space::of_metadata(old, groups),
        space::of_metadata(new, groups),
    );
    space::without(&all, &kept)
}

/// Takes up to `len` clusters for a new place.
fn take(free: &mut FreeRuns, len: u64) -> std::result::Result<Range<u64>, InTheWay> {
    free.take(len).ok_or(InTheWay::Space)
}

/// Refuses a size that something would have to move for that does not move.
fn check_what_stays(layout: &Layout, new: &Geometry) -> std::result::Result<(), InTheWay> {
    if !new.contains_inode(layout.last_inode) {
        return Err(InTheWay::Inode {
            inode: layout.last_inode,
        });
    }
    let end = new.blocks_count >> new.cluster_bits;
    let metadata = space::of_metadata(new, &layout.groups);
    if let Some(last) = metadata.last().filter(|last| last.end > end) {
        let block = (last.end << new.cluster_bits) - 1;
        return Err(InTheWay::Metadata { block });
    }
    let behind = |blocks: &Range<u64>| blocks.end > new.blocks_count;
    match layout.pins.iter().find(|pin| behind(&pin.blocks)) {
        Some(pin) => Err(pin.owner.clone()),
        None => Ok(()),
    }
}
