//! What a pass makes of a layout: for plans of the next one, before anything is written.
//!
//! Invariant: it is the layout that [`Layout::read`] finds when the pass is done, so that a plan
//! made before is a plan then.

use super::layout::{Holder, Layout};
use super::maps::translated;
use super::plan::{FileMove, Step};
use crate::space;
use std::ops::Range;
use uext4_format::{Geometry, GroupDescriptor};
use uext4_num::usize_of;
use uext4_volume::FileMap;

impl Step {
    /// The layout when the pass is done, the cut included.
    pub(super) fn apply(self, layout: Layout) -> Layout {
        if !self.inodes.is_empty() {
            return layout.renumbered(&self.inodes);
        }
        let mut next = layout;
        let (mut free, mut taken) = (self.free, Vec::new());
        for file in self.files {
            let holder = &mut next.holders[file.holder];
            free.extend(moved(&next.geometry, holder, file));
        }
        if let Some((holder, file)) = next.journal.as_mut().zip(self.journal) {
            free.extend(moved(&next.geometry, holder, file));
        }
        let cluster = |block: u64| space::clusters(&next.geometry, block, 1);
        for (old, new) in self.attributes {
            let users = next.attributes.remove(&old).unwrap_or_default();
            next.attributes.insert(new, users);
            free.push(cluster(old));
        }
        if let Some((old, new)) = self.resize_table {
            next.resize_table = Some(new);
            free.push(cluster(old));
        }
        let before = space::of_metadata(&next.geometry, &next.groups);
        for table in &self.tables {
            table.apply_to(&mut next.groups);
        }
        let after = space::of_metadata(&next.geometry, &next.groups);
        free.extend(space::without(&before, &after));
        taken.extend(space::without(&after, &before));
        next.free = space::without(&space::merged(free), &taken);
        if self.is_last {
            next.cut(self.wanted, &self.geometry)
        } else {
            next
        }
    }
}

/// Changes the map of a file; returns the clusters that it had.
fn moved(geometry: &Geometry, holder: &mut Holder, file: FileMove) -> Vec<Range<u64>> {
    let mut freed: Vec<Range<u64>> = Vec::new();
    for run in &file.data {
        freed.push(space::clusters(
            geometry,
            run.old.start,
            run.old.end - run.old.start,
        ));
    }
    for node in &holder.map.nodes {
        freed.push(space::clusters(geometry, node.0, 1));
    }
    let map = FileMap {
        extents: translated(&holder.map.extents, &file.data),
        nodes: file.nodes,
        ..holder.map
    };
    *holder = Holder::new(holder.nr, map);
    freed
}

impl Layout {
    fn cut(mut self, wanted: uext4_format::Superblock, geometry: &Geometry) -> Self {
        let end = geometry.blocks_count >> geometry.cluster_bits;
        let mut free = std::mem::take(&mut self.free);
        free.extend(released(&self.geometry, &self.groups, geometry));
        self.groups.truncate(usize_of(geometry.group_count));
        let numbers = 0..u64::from(geometry.inodes_count) + 1;
        Self {
            free: space::before(&space::merged(free), end),
            free_inodes: space::before(&self.free_inodes, numbers.end),
            superblock: wanted,
            geometry: *geometry,
            ..self
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
