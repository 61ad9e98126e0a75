//! Places of bitmaps and inode tables whose descriptors are damaged or contradict each other.
//!
//! A table is searched for: at the place that the descriptor names, that of the backup, those that
//! follow from the groups beside, and that of mkfs. What looks like the table of the group is
//! taken. So inodes are lost only if their table is at none of these places.
//!
//! Bitmaps are made from what is in use, so any block will do that nothing else has.

use super::patch::Patch;
use crate::bits::Bits;
use crate::state::{Check, Step, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4_format::{BlockNr, Feature, GroupDescriptor, GroupNr};
use uext4_num::{u64_of, usize_of};
use uext4_sync::Arc;

/// Groups beside that are looked at.
const BESIDE_MAX: u32 = 4;

/// Memory for each group that is placed, in bytes.
const BYTES_EACH: u64 = 512;

/// Groups that a round places, with their backups.
type Unplaced = BTreeMap<GroupNr, Option<GroupDescriptor>>;

/// Where the metadata of a group is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) block_bitmap: BlockNr,
    pub(super) inode_bitmap: BlockNr,
    pub(super) inode_table: BlockNr,
}

/// A group whose metadata is to be placed.
struct Wanted {
    group: GroupNr,
    /// Places that descriptors name, before the others.
    n_named: usize,
    /// Whether its table was found, and its inodes were read.
    is_read: bool,
}

/// Blocks of metadata that have their place.
pub(super) struct Taken(pub(super) Bits);

impl Places {
    fn of(descriptor: &GroupDescriptor) -> Self {
        Self {
            block_bitmap: descriptor.block_bitmap,
            inode_bitmap: descriptor.inode_bitmap,
            inode_table: descriptor.inode_table,
        }
    }

    fn zones(&self, table_blocks: u64) -> [Range<u64>; 3] {
        [
            run(self.block_bitmap, 1),
            run(self.inode_bitmap, 1),
            run(self.inode_table, table_blocks),
        ]
    }
}

/// Blocks from `start` on.
pub(super) fn run(start: BlockNr, len: u64) -> Range<u64> {
    start.0..start.0.saturating_add(len)
}

impl Patch<'_, '_> {
    /// Gives places to the metadata of these groups; returns those for which there is no space.
    pub(super) fn place_groups(&mut self, unplaced: Unplaced) -> Step<BTreeSet<GroupNr>> {
        let mut impossible = BTreeSet::new();
        if unplaced.is_empty() {
            return Ok(impossible);
        }
        self.check.take(u64_of(unplaced.len()) * BYTES_EACH)?;
        let mut taken = self.placed(&unplaced)?;
        // Those at their usual places first: another group that names the same is wrong.
        let mut assumed = BTreeMap::new();
        for group in unplaced.keys() {
            if let Some(kept) = self.keep_usual(*group, &unplaced, &mut taken)? {
                assumed.insert(*group, kept);
            }
        }
        let all = unplaced.keys().copied();
        let others: Vec<GroupNr> = all.filter(|group| !assumed.contains_key(group)).collect();
        for group in &others {
            let tables = self.known_tables(*group, &unplaced)?;
            if let Some(table) = self.find_table(*group, &tables, &taken)? {
                self.put(&mut taken, self.table_at(table))?;
                let mut descriptor = self.bounded(*group)?;
                descriptor.inode_table = table;
                assumed.insert(*group, descriptor);
            }
        }
        let assumed = Arc::new(assumed);
        self.claim_ahead(&assumed)?;
        for group in others {
            let table = assumed.get(&group).map(|found| found.inode_table);
            if !self.place_group(group, &unplaced, table, &mut taken)? {
                impossible.insert(group);
            }
        }
        Ok(impossible)
    }

    /// Claims what the inodes that can be read have, so that nothing new is put there.
    /// Of the `assumed` descriptors only the tables are read.
    fn claim_ahead(&mut self, assumed: &Arc<BTreeMap<GroupNr, GroupDescriptor>>) -> Step {
        let mut ahead = Check::new(self.check.subject, self.check.limits);
        ahead.assumed = Arc::clone(assumed);
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
            ..
        } = ahead;
        self.check.memory_bytes = memory_bytes;
        self.check.claimed = claimed;
        self.space.surveyed = report.findings;
        self.spare_damaged()
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

    /// Lets the places of a group be if all of them are as usual, and nothing else has them.
    fn keep_usual(
        &mut self,
        group: GroupNr,
        unplaced: &Unplaced,
        taken: &mut Taken,
    ) -> Step<Option<GroupDescriptor>> {
        let own = self.bounded(group)?;
        let places = Places::of(&own);
        let is_usual = self.usual_places(group, unplaced).contains(&places);
        let zones = places.zones(self.check.geometry.inode_table_blocks().into());
        let is_free = |zone: &Range<u64>| self.may_be_at(group, taken, zone);
        if !is_usual || !zones.iter().all(is_free) {
            return Ok(None);
        }
        for zone in zones {
            self.put(taken, zone)?;
        }
        self.write_descriptor(group, &own)?;
        Ok(Some(own))
    }

    /// Whether blocks are where metadata of this group may be, and no other metadata is there.
    fn may_be_at(&self, group: GroupNr, taken: &Taken, zone: &Range<u64>) -> bool {
        let places = GroupDescriptor::places(group, &self.check.geometry);
        zone.start >= places.start && zone.end <= places.end && taken.0.has_none(zone)
    }

    /// Where the metadata of a group is by the groups beside, and by the order of mkfs.
    fn usual_places(&self, group: GroupNr, unplaced: &Unplaced) -> Vec<Places> {
        let geometry = &self.check.geometry;
        let table_blocks = u64::from(geometry.inode_table_blocks());
        let is_flexible = geometry.features.has(Feature::FLEX_BG);
        let members = if is_flexible {
            geometry.groups_per_flex()
        } else {
            1
        };
        let first = GroupNr(group.0 - group.0 % members);
        let at = u64::from(group.0 - first.0);
        let base = u64::from(geometry.base_metadata_blocks(first));
        let start = geometry.group_first_block(first).0 + base;
        let count = u64::from(members.min(geometry.group_count - first.0));
        // mke2fs leaves room for groups that are not there, or none.
        let mut usual: Vec<Places> = [count, u64::from(members)]
            .map(|count| Places {
                block_bitmap: BlockNr(start + at),
                inode_bitmap: BlockNr(start + count + at),
                inode_table: BlockNr(start + 2 * count + at * table_blocks),
            })
            .into();
        let beside = first.0.max(group.0.saturating_sub(BESIDE_MAX))
            ..(first.0.saturating_add(members))
                .min(group.0.saturating_add(BESIDE_MAX))
                .min(geometry.group_count);
        for other in beside.map(GroupNr).filter(|other| *other != group) {
            let descriptor = self.check.descriptors.get(usize_of(other.0));
            let Some(descriptor) = descriptor.and_then(Option::as_ref) else {
                continue;
            };
            if unplaced.contains_key(&other) {
                continue;
            }
            let shifted = |block: BlockNr, each: u64| {
                let block = i128::from(block.0)
                    + (i128::from(group.0) - i128::from(other.0)) * i128::from(each);
                BlockNr(u64::try_from(block).unwrap_or(0))
            };
            let places = Places {
                block_bitmap: shifted(descriptor.block_bitmap, 1),
                inode_bitmap: shifted(descriptor.inode_bitmap, 1),
                inode_table: shifted(descriptor.inode_table, table_blocks),
            };
            if !usual.contains(&places) {
                usual.push(places);
            }
        }
        usual
    }

    /// The places that are known for the metadata of a group, and how many of the first ones
    /// descriptors name.
    fn known_places(&mut self, group: GroupNr, unplaced: &Unplaced) -> Step<(Vec<Places>, usize)> {
        let mut known = vec![Places::of(&self.bounded(group)?)];
        let backup = unplaced.get(&group).and_then(Option::as_ref);
        known.extend(backup.map(Places::of));
        let n_named = known.len();
        known.extend(self.usual_places(group, unplaced));
        Ok((known, n_named))
    }

    fn known_tables(&mut self, group: GroupNr, unplaced: &Unplaced) -> Step<Vec<BlockNr>> {
        let (known, _) = self.known_places(group, unplaced)?;
        Ok(known.iter().map(|places| places.inode_table).collect())
    }

    fn table_at(&self, start: BlockNr) -> Range<u64> {
        run(start, self.check.geometry.inode_table_blocks().into())
    }

    /// Gives the metadata of a group the best places; false if there is no space.
    fn place_group(
        &mut self,
        group: GroupNr,
        unplaced: &Unplaced,
        found: Option<BlockNr>,
        taken: &mut Taken,
    ) -> Step<bool> {
        let mut descriptor = self.bounded(group)?;
        let (known, n_named) = self.known_places(group, unplaced)?;
        let tables: Vec<BlockNr> = known.iter().map(|places| places.inode_table).collect();
        let is_read = found.is_some();
        let mut table = found;
        if table.is_none() {
            table = self.named_table(group, &tables[..n_named], taken)?;
        }
        if table.is_none() {
            table = self.new_table(group, &tables, taken)?;
        }
        let Some(table) = table else {
            return Ok(false);
        };
        self.put(taken, self.table_at(table))?;
        descriptor.inode_table = table;
        let blocks = known.iter().map(|places| places.block_bitmap).collect();
        let inodes = known.iter().map(|places| places.inode_bitmap).collect();
        let bitmap = Wanted {
            group,
            n_named,
            is_read,
        };
        let Some((block, is_new)) = self.place_bitmap(&bitmap, blocks, taken)? else {
            return Ok(false);
        };
        descriptor.block_bitmap = block;
        if is_new {
            self.fill_block_bitmap(group, &mut descriptor, taken)?;
        }
        let Some((block, is_new)) = self.place_bitmap(&bitmap, inodes, taken)? else {
            return Ok(false);
        };
        descriptor.inode_bitmap = block;
        if is_new {
            self.fill_inode_bitmap(group, &mut descriptor)?;
        }
        self.write_descriptor(group, &descriptor)?;
        Ok(true)
    }

    /// The first place that looks like the table of a group.
    fn find_table(
        &mut self,
        group: GroupNr,
        places: &[BlockNr],
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        for place in places {
            let is_possible = self.may_be_at(group, taken, &self.table_at(*place));
            if is_possible && self.is_table_of(group, *place)? {
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }

    /// The first place of a table that a descriptor names, unless something else is there.
    fn named_table(
        &mut self,
        group: GroupNr,
        named: &[BlockNr],
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let bitmap = Wanted {
            group,
            n_named: named.len(),
            is_read: false,
        };
        for place in named {
            let zone = self.table_at(*place);
            if self.may_be_at(group, taken, &zone)
                && self.is_own_or_free(&bitmap, taken, &zone)
                && self.may_be_table_of(group, *place)?
            {
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }

    /// The place of a bitmap, and whether it was none before.
    fn place_bitmap(
        &mut self,
        wanted: &Wanted,
        places: Vec<BlockNr>,
        taken: &mut Taken,
    ) -> Step<Option<(BlockNr, bool)>> {
        for (nth, place) in places.into_iter().enumerate() {
            let zone = run(place, 1);
            let is_named = nth < wanted.n_named;
            let is_free = self.may_be_at(wanted.group, taken, &zone)
                && (self.is_unclaimed(taken, &zone)
                    || is_named && self.is_own_or_free(wanted, taken, &zone));
            if is_free {
                self.put(taken, zone)?;
                return Ok(Some((place, !is_named)));
            }
        }
        let found = self.find_run(wanted.group, 1, taken)?;
        if let Some(place) = found {
            self.put(taken, run(place, 1))?;
        }
        Ok(found.map(|place| (place, true)))
    }

    /// Whether no file has these blocks. What a descriptor without damage names counts as claimed
    /// by itself, unless only its table was read.
    fn is_own_or_free(&self, wanted: &Wanted, taken: &Taken, zone: &Range<u64>) -> bool {
        let descriptor = self.check.descriptors.get(usize_of(wanted.group.0));
        let is_claimed_by_itself = !wanted.is_read && descriptor.is_some_and(Option::is_some);
        is_claimed_by_itself || self.is_unclaimed(taken, zone)
    }

    /// Whether no file has these blocks. Metadata may share a cluster with other metadata.
    pub(super) fn is_unclaimed(&self, taken: &Taken, zone: &Range<u64>) -> bool {
        let ratio = u64::from(self.check.geometry.blocks_per_cluster());
        self.check.clusters(zone.clone()).all(|cluster| {
            let one = cluster..cluster + 1;
            let is_free = self.check.claimed.has_none(&one) && !self.is_spared(&one);
            is_free || !taken.0.has_none(&run(self.first_block(cluster), ratio))
        })
    }
}
