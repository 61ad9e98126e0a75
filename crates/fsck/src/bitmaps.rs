//! Check of block bitmaps and their counts.

use crate::ahead::one;
use crate::report::Pass;
use crate::state::{Check, Step};
use std::ops::Range;
use uext4_format::{CorruptKind, DamageLocation, GroupDescriptor, GroupNr, bitmap, group_flag};
use uext4_num::usize_of;

/// Groups whose bitmaps are asked for at once, with as many again behind them.
const ASKED_GROUPS: u32 = 64;

impl Check<'_> {
    pub(crate) fn check_bitmaps(&mut self) -> Step {
        let groups = usize_of(self.geometry.group_count);
        for group in self.groups() {
            self.advance(Pass::Bitmaps, usize_of(group.0), groups);
            if group.0.is_multiple_of(ASKED_GROUPS) {
                let next = group.0.saturating_add(ASKED_GROUPS);
                // The first ones were not asked for before.
                let first = if group.0 == 0 { 0 } else { next };
                self.ask_for_bitmaps(first..next.saturating_add(ASKED_GROUPS));
            }
            if let Some(descriptor) = self.descriptors[usize_of(group.0)].clone() {
                self.check_bitmap(group, &descriptor)?;
            }
        }
        Ok(())
    }

    fn ask_for_bitmaps(&self, groups: Range<u32>) {
        let descriptors = groups.filter_map(|nr| self.descriptors.get(usize_of(nr)));
        let written = descriptors
            .flatten()
            .filter(|found| !found.has_flag(group_flag::BLOCK_UNINIT));
        self.ask_for(written.map(|found| one(found.block_bitmap)).collect());
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
            if self.claimed.has_none(&(first..first + u64::from(len))) {
                self.compare_free(group, descriptor, len);
                return Ok(());
            }
        }
        let (free, taken, leaked) = self.compare_bits(first, len, written.then_some(&bitmap));
        let place = DamageLocation::Group(group);
        if !is_padded(&bitmap, len) {
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

    /// Compares a bitmap with the clusters in use: how many are free by it, in use but free by it,
    /// and the other way round. Without a bitmap it says what is in use.
    fn compare_bits(&self, first: u64, len: u32, bitmap: Option<&Vec<u8>>) -> (u32, u32, u32) {
        let (mut free, mut taken, mut leaked) = (0, 0, 0);
        for at in 0..len.div_ceil(64) {
            let valid = u64::MAX >> 64u32.saturating_sub(len - at * 64);
            let used = self.claimed.word_from(first + u64::from(at) * 64);
            let marked = bitmap.and_then(|bitmap| bitmap::word(bitmap, usize_of(at)));
            let marked = marked.unwrap_or(used);
            free += (!marked & valid).count_ones();
            taken += (used & !marked & valid).count_ones();
            leaked += (marked & !used & valid).count_ones();
        }
        (free, taken, leaked)
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
        let len = geometry.clusters_in_group(group);
        let first = self.clusters(start..start + 1).start;
        let all = first..first + u64::from(len);
        if self.claimed.has_none(&all) {
            return;
        }
        let runs = self.claimed.runs_in(&all);
        let has_data = runs.into_iter().any(|run| self.has_data(run));
        if has_data {
            let problem = CorruptKind::DataWithoutBitmap;
            self.add_problem(place, "block bitmap", problem);
        }
    }

    /// Whether any of these clusters in use has no metadata.
    fn has_data(&self, clusters: Range<u64>) -> bool {
        let geometry = &self.geometry;
        let base = u64::from(geometry.first_data_block);
        let mut next = clusters.start;
        while next < clusters.end {
            let block = base + (next << geometry.cluster_bits);
            let zone = self.metadata_from(block);
            match zone.filter(|zone| self.clusters(zone.start..zone.end).start <= next) {
                Some(zone) => next = self.clusters(zone.clone()).end,
                None => return true,
            }
        }
        false
    }
}

/// Whether the bits behind those of the group are set.
fn is_padded(bitmap: &[u8], len: u32) -> bool {
    let Some((first, rest)) = bitmap
        .get(usize_of(len / 8)..)
        .and_then(<[u8]>::split_first)
    else {
        return true;
    };
    (u32::from(*first) >> (len % 8)).trailing_ones() >= 8 - len % 8
        && rest.iter().all(|byte| *byte == 0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_behind_the_group_is_set() {
        let padded = |len: u32| {
            let bit = |at: usize| u8::from(at >= usize_of(len)) << (at % 8);
            let byte = |at: usize| (0..8).map(|nr| bit(at * 8 + nr)).sum();
            (0..4).map(byte).collect::<Vec<u8>>()
        };
        for len in 0..=32 {
            assert!(is_padded(&padded(len), len), "{len}");
            if len < 32 {
                assert!(!is_padded(&padded(len + 1), len), "{len}");
                let mut last = padded(len);
                last[3] &= 0x7F;
                assert!(!is_padded(&last, len), "{len}");
            }
        }
        assert!(is_padded(&[], 9));
    }
}
