//! Check of group descriptors: checksums, and overlaps of their metadata.

use crate::state::{Check, Step};
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, GroupDescriptor, GroupNr, group_flag,
};
use uext4_num::usize_of;
use uext4_sync::Arc;

impl Check<'_> {
    pub(crate) fn check_groups(&mut self) -> Step {
        let mut read: Option<(BlockNr, Vec<u8>)> = None;
        let mut zones = Vec::new();
        let mut descriptors = Vec::with_capacity(usize_of(self.geometry.group_count));
        for group in self.groups() {
            let (block, at) = self.geometry.descriptor_location(group);
            if read.as_ref().is_none_or(|(last, _)| *last != block) {
                read = Some((block, self.read(block)?));
            }
            let bytes = read.as_ref().map_or(&[][..], |(_, bytes)| bytes);
            let bytes = bytes.get(usize_of(at)..).unwrap_or_default().to_vec();
            let (geometry, checksums) = (&self.geometry, &self.checksums);
            let parsed = GroupDescriptor::parse(&bytes, group, geometry, checksums);
            let size = usize::from(geometry.desc_size).min(bytes.len());
            let raw = GroupDescriptor::parse_unverified(&bytes[..size]);
            self.check_uninit_flags(group, &raw);
            if let Some(assumed) = self.assumed.get(&group) {
                zones.extend(self.zones_of(group, None));
                zones.extend(assumed.iter().map(|found| (self.table_zone(found), group)));
                descriptors.push(assumed.clone());
                continue;
            }
            let parsed = parsed.map_err(|corrupt| self.add_corrupt(&corrupt)).ok();
            zones.extend(self.zones_of(group, parsed.as_ref()));
            descriptors.push(parsed);
        }
        self.descriptors = Arc::new(descriptors);
        self.keep_apart(zones)
    }

    /// Uninit bitmaps and inode tables require checksums of descriptors.
    fn check_uninit_flags(&mut self, group: GroupNr, raw: &GroupDescriptor) {
        let features = &self.geometry.features;
        let may = features.has(Feature::METADATA_CSUM) || features.has(Feature::UNINIT_BG);
        let is_uninit = raw.has_flag(group_flag::INODE_UNINIT)
            || raw.has_flag(group_flag::BLOCK_UNINIT)
            || raw.itable_unused != 0;
        if is_uninit && !may {
            let problem = CorruptKind::UnwrittenGroup;
            self.add_problem(DamageLocation::Group(group), "group descriptor", problem);
        }
    }

    /// The metadata of a group: that which every group has, and what its descriptor names.
    pub(crate) fn zones_of(
        &self,
        group: GroupNr,
        descriptor: Option<&GroupDescriptor>,
    ) -> Vec<(Range<u64>, GroupNr)> {
        let geometry = &self.geometry;
        let first = geometry.group_first_block(group).0;
        let mut zones = Vec::with_capacity(4);
        zones.push(first..first + u64::from(geometry.base_metadata_blocks(group)));
        if let Some(descriptor) = descriptor {
            zones.push(descriptor.block_bitmap.0..descriptor.block_bitmap.0 + 1);
            zones.push(descriptor.inode_bitmap.0..descriptor.inode_bitmap.0 + 1);
            zones.push(self.table_zone(descriptor));
        }
        zones.retain(|zone| zone.start < zone.end);
        zones.into_iter().map(|zone| (zone, group)).collect()
    }

    fn table_zone(&self, descriptor: &GroupDescriptor) -> Range<u64> {
        let table = descriptor.inode_table.0;
        table..table.saturating_add(self.geometry.inode_table_blocks().into())
    }

    fn keep_apart(&mut self, mut zones: Vec<(Range<u64>, GroupNr)>) -> Step {
        zones.sort_unstable_by_key(|(zone, _)| zone.start);
        let mut metadata: Vec<Range<u64>> = Vec::new();
        let mut overlapping = BTreeSet::new();
        // The group whose zone ends last.
        let mut owner = GroupNr(0);
        for (zone, group) in zones {
            let end = zone.end.min(self.geometry.blocks_count);
            let behind = metadata.last().map_or(0, |last| last.end);
            if behind > zone.start {
                // Either may be the one whose descriptor is wrong.
                overlapping.extend([owner, group]);
            }
            if end > behind {
                owner = group;
            }
            match metadata.last_mut() {
                Some(last) if last.end >= zone.start => last.end = last.end.max(end),
                _ => metadata.push(zone.start..end),
            }
            let clusters = self.clusters(zone.start..end);
            self.claim(clusters)?;
        }
        self.metadata = Arc::new(metadata);
        for group in overlapping {
            let problem = CorruptKind::GroupOverlap;
            self.add_problem(DamageLocation::Group(group), "group descriptor", problem);
        }
        Ok(())
    }

    /// The clusters that contain these blocks.
    pub(crate) fn clusters(&self, blocks: Range<u64>) -> Range<u64> {
        let geometry = &self.geometry;
        let first = u64::from(geometry.first_data_block);
        let cluster = |block: u64| block.saturating_sub(first) >> geometry.cluster_bits;
        if blocks.is_empty() {
            return 0..0;
        }
        let last = cluster(blocks.end - 1);
        cluster(blocks.start)..last + 1
    }

    /// True when no block of the range is metadata.
    pub(crate) fn is_clear(&self, blocks: &Range<u64>) -> bool {
        self.clear_until(blocks.start) >= blocks.end
    }

    /// The first block of metadata from `block` on.
    pub(crate) fn clear_until(&self, block: u64) -> u64 {
        let next = self.metadata_from(block);
        next.map_or(u64::MAX, |zone| zone.start.max(block))
    }

    /// The first zone of metadata that ends behind `block`.
    pub(crate) fn metadata_from(&self, block: u64) -> Option<&Range<u64>> {
        let after = self.metadata.partition_point(|zone| zone.end <= block);
        self.metadata.get(after)
    }
}
