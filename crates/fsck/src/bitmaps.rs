//! Check of block bitmaps and their counts.

use crate::state::{Check, Step};
use uext4_format::{CorruptKind, DamageLocation, GroupDescriptor, GroupNr, group_flag};
use uext4_num::usize_of;

impl Check<'_> {
    pub(crate) fn check_bitmaps(&mut self) -> Step {
        for group in self.groups() {
            if let Some(descriptor) = self.descriptors[usize_of(group.0)].clone() {
                self.check_bitmap(group, &descriptor)?;
            }
        }
        Ok(())
    }

    fn check_bitmap(&mut self, group: GroupNr, descriptor: &GroupDescriptor) -> Step {
        let geometry = self.geometry;
        let len = geometry.clusters_in_group(group);
        let start = geometry.group_first_block(group).0;
        let first = self.clusters(start..start + 1).start;
        let written = !descriptor.has_flag(group_flag::BLOCK_UNINIT);
        let bitmap = if written {
            self.read(descriptor.block_bitmap)?
        } else {
            Vec::new()
        };
        if written {
            let checksums = &self.checksums;
            let sound = descriptor.verify_block_bitmap(&bitmap, group, &geometry, checksums);
            if let Err(corrupt) = sound {
                self.add_corrupt(&corrupt);
            }
        }
        if !written {
            self.check_unwritten_bitmap(group);
            if !self.claimed.may_have(&(first..first + u64::from(len))) {
                self.compare_free(group, descriptor, len);
                return Ok(());
            }
        }
        let (mut free, mut taken, mut leaked) = (0, 0, 0);
        for bit in 0..len {
            let used = self.claimed.has(first + u64::from(bit));
            let byte = bitmap.get(usize_of(bit / 8));
            let marked = byte.map_or(used, |byte| byte & 1 << (bit % 8) != 0);
            free += u32::from(!marked);
            taken += u32::from(used && !marked);
            leaked += u32::from(marked && !used);
        }
        let place = DamageLocation::Group(group);
        let padding = usize_of(len)..bitmap.len() * 8;
        if padding
            .into_iter()
            .any(|bit| bitmap[bit / 8] & 1 << (bit % 8) == 0)
        {
            self.add_problem(place, "block bitmap", CorruptKind::BitsClear);
        }
        for (count, what) in [
            (taken, CorruptKind::MarkedFree),
            (leaked, CorruptKind::Leaked),
        ] {
            if count > 0 {
                self.add_detailed(place, "block bitmap", what, count.to_string());
            }
        }
        self.compare_free(group, descriptor, free);
        Ok(())
    }

    fn compare_free(&mut self, group: GroupNr, descriptor: &GroupDescriptor, free: u32) {
        if free != descriptor.free_clusters {
            let detail = format!("{}, not {free}", descriptor.free_clusters);
            let what = CorruptKind::FreeClustersWrong;
            self.add_detailed(
                DamageLocation::Group(group),
                "group descriptor",
                what,
                detail,
            );
        }
    }

    /// A group without a bitmap holds metadata only. The last group, which may be short, has a
    /// bitmap.
    fn check_unwritten_bitmap(&mut self, group: GroupNr) {
        let geometry = self.geometry;
        let place = DamageLocation::Group(group);
        if group.0 + 1 == geometry.group_count && group.0 > 0 {
            let problem = CorruptKind::LastGroupBitmap;
            self.add_problem(place, "block bitmap", problem);
        }
        let start = geometry.group_first_block(group).0;
        let ratio = 1 << geometry.cluster_bits;
        let len = geometry.clusters_in_group(group);
        let first = self.clusters(start..start + 1).start;
        if !self.claimed.may_have(&(first..first + u64::from(len))) {
            return;
        }
        let has_data = (0..u64::from(len)).any(|at| {
            let block = start + at * ratio;
            let cluster = self.clusters(block..block + 1).start;
            self.claimed.has(cluster) && self.is_clear(&(block..block + ratio))
        });
        if has_data {
            let problem = CorruptKind::DataWithoutBitmap;
            self.add_problem(place, "block bitmap", problem);
        }
    }
}
