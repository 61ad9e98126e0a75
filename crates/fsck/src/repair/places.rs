//! Places of bitmaps and inode tables whose descriptors are damaged or contradict each other.
//!
//! A table is searched for at the places that are known (`known_places`). What looks like the
//! table of the group is taken, so that inodes are lost only if their table is at none of these.
//! Bitmaps are made from what is in use, so any block will do that nothing else has.

use super::known_places::{Own, Places};
use super::patch::Patch;
use crate::bits::Bits;
use crate::state::{Check, Step, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4_format::{BlockNr, GroupDescriptor, GroupNr};
use uext4_num::{u64_of, usize_of};
use uext4_sync::Arc;

/// Memory for each group that is placed, in bytes.
const BYTES_EACH: u64 = 512;

/// What descriptors say about a group that a round places.
pub(super) struct Named {
    pub(super) own: Own,
    pub(super) backup: Option<GroupDescriptor>,
}

/// Groups that a round places.
pub(super) type Unplaced = BTreeMap<GroupNr, Named>;

/// Blocks of metadata that have their place.
pub(super) struct Taken(pub(super) Bits);

/// Blocks from `start` on.
pub(super) fn run(start: BlockNr, len: u64) -> Range<u64> {
    start.0..start.0.saturating_add(len)
}

impl Patch<'_, '_> {
    /// Gives places to the metadata of these groups; returns those for which there is no space.
    pub(super) fn assign_groups(&mut self, unplaced: Unplaced) -> Step<BTreeSet<GroupNr>> {
        let mut impossible = BTreeSet::new();
        if unplaced.is_empty() {
            return Ok(impossible);
        }
        self.check.take(u64_of(unplaced.len()) * BYTES_EACH)?;
        let mut taken = self.placed(&unplaced)?;
        // Those that are where they belong first: another group that names the same is wrong.
        let mut kept = BTreeMap::new();
        for by_backup in [true, false] {
            for (group, named) in &unplaced {
                if !kept.contains_key(group) && self.belongs(*group, &unplaced, by_backup)? {
                    self.keep(*group, named.own, &mut taken, &mut kept)?;
                }
            }
        }
        let all = unplaced.keys().copied();
        let others: Vec<GroupNr> = all.filter(|group| !kept.contains_key(group)).collect();
        let mut tables = BTreeMap::new();
        for group in &others {
            if let Some(table) = self.find_table(*group, &unplaced, &taken)? {
                self.put(&mut taken, self.table_at(table))?;
                tables.insert(*group, table);
            }
        }
        if !others.is_empty() {
            self.claim_ahead(&unplaced, &kept, &tables)?;
        }
        for group in others {
            let table = tables.get(&group).copied();
            if !self.assign_group(group, &unplaced, table, &mut taken)? {
                impossible.insert(group);
            }
        }
        Ok(impossible)
    }

    /// Claims what the inodes that can be read have, so that nothing new is put there. Groups
    /// without a place count for nothing, and of those with a new one only the table is read.
    fn claim_ahead(
        &mut self,
        unplaced: &Unplaced,
        kept: &BTreeMap<GroupNr, GroupDescriptor>,
        tables: &BTreeMap<GroupNr, BlockNr>,
    ) -> Step {
        let mut assumed = BTreeMap::new();
        for (group, named) in unplaced {
            let mut found = kept.get(group).cloned();
            if let Some(table) = tables.get(group) {
                found = Some(self.with_table(*group, named.own, *table)?);
            }
            assumed.insert(*group, found);
        }
        let mut ahead = Check::new(self.check.subject, self.check.limits);
        ahead.assumed = Arc::new(assumed);
        ahead.started = self.check.started;
        ahead.memory_bytes = self.check.memory_bytes;
        let ended = ahead.claim_all();
        if let Err(stop) = ended {
            self.check.report.incomplete = ahead.report.incomplete;
            return match stop {
                Stop::Changed => Err(Stop::Incomplete),
                stop => Err(stop),
            };
        }
        let Check {
            claimed,
            report,
            memory_bytes,
            descriptors,
            metadata,
            ..
        } = ahead;
        self.check.memory_bytes = memory_bytes;
        self.check.claimed = claimed;
        self.check.descriptors = descriptors;
        self.check.metadata = metadata;
        self.space.has_gaps = report.n_more > 0;
        self.space.surveyed = report.findings;
        self.spare_damaged()?;
        // Of the groups without a place no bitmap is to be believed.
        let mut believed = Vec::clone(&self.check.descriptors);
        for group in unplaced.keys().filter(|group| !kept.contains_key(group)) {
            if let Some(descriptor) = believed.get_mut(usize_of(group.0)) {
                *descriptor = None;
            }
        }
        self.check.descriptors = Arc::new(believed);
        Ok(())
    }

    /// The descriptor of a group with a table that was found. One without damage says as well which
    /// of its inodes were never written.
    fn with_table(&mut self, group: GroupNr, own: Own, table: BlockNr) -> Step<GroupDescriptor> {
        let stored = self.descriptor(group)?;
        if own == Own::Sound && stored.inode_table == table {
            return Ok(stored);
        }
        let mut bounded = self.bounded(group)?;
        bounded.inode_table = table;
        Ok(bounded)
    }

    /// The blocks of metadata that is not to be placed.
    fn placed(&mut self, unplaced: &Unplaced) -> Step<Taken> {
        let blocks = self.check.geometry.blocks_count;
        self.check.take(Bits::empty_bytes(blocks))?;
        let mut taken = Taken(Bits::new(blocks));
        for group in self.check.groups() {
            let descriptor = self.check.descriptors.get(usize_of(group.0));
            let descriptor = descriptor.and_then(Option::as_ref);
            let descriptor = descriptor.filter(|_| !unplaced.contains_key(&group));
            for (zone, _) in self.check.zones_of(group, descriptor) {
                self.put(&mut taken, zone)?;
            }
        }
        Ok(taken)
    }

    pub(super) fn put(&mut self, taken: &mut Taken, zone: Range<u64>) -> Step {
        self.check.take(taken.0.more_bytes(&zone))?;
        taken.0.put_all(zone);
        Ok(())
    }

    /// Whether a group is where its backup has it; or as usual, if there is no backup.
    fn belongs(&mut self, group: GroupNr, unplaced: &Unplaced, by_backup: bool) -> Step<bool> {
        let places = Places::of(&self.bounded(group)?);
        let backup = unplaced.get(&group).and_then(|named| named.backup.as_ref());
        Ok(match backup {
            Some(backup) => by_backup && Places::of(backup) == places,
            None => !by_backup && self.usual_places(group, unplaced).contains(&places),
        })
    }

    /// Lets the places of a group be if no other group has them. A descriptor without damage is not
    /// changed.
    fn keep(
        &mut self,
        group: GroupNr,
        own: Own,
        taken: &mut Taken,
        kept: &mut BTreeMap<GroupNr, GroupDescriptor>,
    ) -> Step {
        let mut descriptor = self.descriptor(group)?;
        let zones = Places::of(&descriptor).zones(self.check.geometry.inode_table_blocks().into());
        if !zones.iter().all(|zone| self.may_be_at(group, taken, zone)) {
            return Ok(());
        }
        for zone in zones {
            self.put(taken, zone)?;
        }
        if own != Own::Sound {
            descriptor = self.bounded(group)?;
            self.write_descriptor(group, &descriptor)?;
        }
        kept.insert(group, descriptor);
        Ok(())
    }

    /// Whether blocks are where metadata of this group may be, and no other metadata is there.
    pub(super) fn may_be_at(&self, group: GroupNr, taken: &Taken, zone: &Range<u64>) -> bool {
        let places = GroupDescriptor::places(group, &self.check.geometry);
        zone.start >= places.start && zone.end <= places.end && taken.0.has_none(zone)
    }

    pub(super) fn table_at(&self, start: BlockNr) -> Range<u64> {
        run(start, self.check.geometry.inode_table_blocks().into())
    }
}
