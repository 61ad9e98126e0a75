//! The places that the metadata of a group gets: what is known, where nothing else has it.
//!
//! Invariants: what a file has, or a damaged map names, is never taken. A place that only one
//! source names is not taken if a bitmap that can be believed has it in use: that may be of an
//! inode which is lost. A table with inodes of the group is never made empty.

use super::known_places::{Own, Places};
use super::patch::Patch;
use super::places::{Taken, Unplaced, run};
use super::table_evidence::Reading;
use crate::state::Step;
use std::ops::Range;
use uext4_format::{BlockNr, GroupNr};

/// Known places of one structure of a group.
struct Known {
    /// The best first; the same once for each source.
    all: Vec<BlockNr>,
    /// Those that descriptors name.
    named: Vec<BlockNr>,
}

impl Known {
    fn new(known: &[Places], named: &[Places], of: impl Fn(&Places) -> BlockNr) -> Self {
        Self {
            all: known.iter().map(&of).collect(),
            named: named.iter().map(&of).collect(),
        }
    }

    /// Each place once, and whether several sources name it.
    fn each(&self) -> Vec<(BlockNr, bool)> {
        let mut each: Vec<(BlockNr, bool)> = Vec::new();
        for place in &self.all {
            match each.iter_mut().find(|(known, _)| known == place) {
                Some((_, is_confirmed)) => *is_confirmed = true,
                None => each.push((*place, false)),
            }
        }
        each
    }
}

impl Patch<'_, '_> {
    /// Gives the metadata of a group the best places, with the table that was found; false if there
    /// is no space.
    pub(super) fn assign_group(
        &mut self,
        group: GroupNr,
        unplaced: &Unplaced,
        found: Option<BlockNr>,
        taken: &mut Taken,
    ) -> Step<bool> {
        let mut descriptor = self.bounded(group)?;
        let own = Places::of(&descriptor);
        let known = self.known_places(group, unplaced)?;
        let mut named = vec![own];
        let stated = unplaced.get(&group);
        let backup = stated.and_then(|stated| stated.backup.as_ref());
        named.extend(backup.map(Places::of));
        let of = |which: fn(&Places) -> BlockNr| Known::new(&known, &named, which);
        let table = match found {
            Some(table) => Some(table),
            None => self.choose_table(group, &of(|at| at.inode_table), taken)?,
        };
        let Some(table) = table else {
            return Ok(false);
        };
        self.put(taken, self.table_at(table))?;
        descriptor.inode_table = table;
        let blocks = self.assign_bitmap(group, &of(|at| at.block_bitmap), taken)?;
        let Some((block_bitmap, is_new_block_bitmap)) = blocks else {
            return Ok(false);
        };
        descriptor.block_bitmap = block_bitmap;
        let inodes = self.assign_bitmap(group, &of(|at| at.inode_bitmap), taken)?;
        let Some((inode_bitmap, is_new_inode_bitmap)) = inodes else {
            return Ok(false);
        };
        descriptor.inode_bitmap = inode_bitmap;
        if is_new_block_bitmap {
            self.fill_block_bitmap(group, &mut descriptor, taken)?;
        }
        if is_new_inode_bitmap {
            self.fill_inode_bitmap(group, &mut descriptor)?;
        }
        let is_same = Places::of(&descriptor) == own;
        if !is_same || stated.is_none_or(|stated| stated.own != Own::Sound) {
            self.write_descriptor(group, &descriptor)?;
        }
        Ok(true)
    }

    /// The place of a table that was not found: a known one where nothing else is than inodes of
    /// the group; else one where none of them is, or free space, which is made empty.
    fn choose_table(
        &mut self,
        group: GroupNr,
        known: &Known,
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let mut to_clear = None;
        for (place, is_confirmed) in known.each() {
            let zone = self.table_at(place);
            let is_possible = self.may_be_at(group, taken, &zone)
                && self.is_unclaimed(taken, &zone)
                && self.may_fill(taken, &zone, is_confirmed)?;
            if !is_possible {
                continue;
            }
            let evidence = self.table_evidence(group, place, Reading::All)?;
            if evidence.bad == 0 || evidence.is_sound() {
                return Ok(Some(place));
            }
            if evidence.good == 0 && to_clear.is_none() {
                to_clear = Some(place);
            }
        }
        self.new_table(group, to_clear, taken)
    }

    /// The place of a bitmap, and whether it has to be written.
    fn assign_bitmap(
        &mut self,
        group: GroupNr,
        known: &Known,
        taken: &mut Taken,
    ) -> Step<Option<(BlockNr, bool)>> {
        for (place, is_confirmed) in known.each() {
            let zone = run(place, 1);
            let is_named = known.named.contains(&place);
            let is_possible = self.may_be_at(group, taken, &zone)
                && self.is_unclaimed(taken, &zone)
                && (is_named && is_confirmed || self.may_fill(taken, &zone, is_confirmed)?);
            if is_possible {
                self.put(taken, zone)?;
                return Ok(Some((place, !is_named)));
            }
        }
        let found = self.find_run(group, 1, taken)?;
        if let Some(place) = found {
            self.put(taken, run(place, 1))?;
        }
        Ok(found.map(|place| (place, true)))
    }

    /// Whether no file has these blocks. Metadata may share a cluster with other metadata.
    pub(super) fn is_unclaimed(&self, taken: &Taken, zone: &Range<u64>) -> bool {
        self.check.clusters(zone.clone()).all(|cluster| {
            let one = cluster..cluster + 1;
            let is_free = self.check.claimed.has_none(&one) && !self.is_spared(&one);
            is_free || self.has_metadata(taken, cluster)
        })
    }

    fn has_metadata(&self, taken: &Taken, cluster: u64) -> bool {
        let ratio = u64::from(self.check.geometry.blocks_per_cluster());
        !taken.0.has_none(&run(self.first_block(cluster), ratio))
    }

    /// Whether these blocks, which nothing claims, may be overwritten: no bitmap says that
    /// something has them. That is said of the right place of metadata as well, so it does not
    /// count if several sources name it. Where not all damage is known, a bitmap has to say that
    /// they are free.
    fn may_fill(&mut self, taken: &Taken, zone: &Range<u64>, is_confirmed: bool) -> Step<bool> {
        for cluster in self.check.clusters(zone.clone()) {
            if self.has_metadata(taken, cluster) {
                continue;
            }
            let mark = self.mark_of(self.first_block(cluster))?;
            let is_free = match mark {
                Some(is_marked) if !is_marked => true,
                Some(_) => is_confirmed && !self.space.has_gaps,
                None => !self.space.has_gaps,
            };
            if !is_free {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
