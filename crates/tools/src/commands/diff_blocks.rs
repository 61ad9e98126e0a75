//! `uext4 diff --blocks`: which blocks differ between two devices.
//!
//! Both devices are read once, in order, without what is a hole in both.
//! Invariants: memory is a bit per block of those parts of 32,768 blocks that differ somewhere.

use std::collections::BTreeMap;
use std::ops::Range;
use uext4::device::BlockDevice;
use uext4::format::Geometry;
use uext4_num::{clamp_usize, u64_of};

/// Bytes compared at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Blocks of a part of the bitmap.
const PART_BLOCKS: u64 = 1 << 15;

/// The blocks that differ, as a bitmap in parts.
#[derive(Default)]
pub(super) struct Runs {
    parts: BTreeMap<u64, Vec<u8>>,
    count: u64,
}

/// Names the first difference of two geometries.
pub(super) fn same_geometry(a: &Geometry, b: &Geometry) -> std::result::Result<(), String> {
    let facts = [
        (
            "block size",
            u64::from(a.block_size()),
            u64::from(b.block_size()),
        ),
        ("number of blocks", a.blocks_count, b.blocks_count),
        (
            "blocks per group",
            a.blocks_per_group.into(),
            b.blocks_per_group.into(),
        ),
        (
            "inodes per group",
            a.inodes_per_group.into(),
            b.inodes_per_group.into(),
        ),
        ("inode size", a.inode_size.into(), b.inode_size.into()),
        ("cluster size", a.cluster_size(), b.cluster_size()),
    ];
    match facts.iter().find(|(_, a, b)| a != b) {
        Some((what, a, b)) => Err(format!("{what} ({a} and {b})")),
        None => Ok(()),
    }
}

impl Runs {
    /// Compares two devices up to the end of their file systems.
    pub(super) fn compare(
        a: &dyn BlockDevice,
        b: &dyn BlockDevice,
        geometry: &Geometry,
    ) -> std::result::Result<Self, uext4::device::Error> {
        let end = geometry.size_bytes();
        let block_bytes = u64::from(geometry.block_size());
        let mut runs = Self::default();
        let mut from_a = vec![0; clamp_usize(PIECE_BYTES)];
        let mut from_b = vec![0; clamp_usize(PIECE_BYTES)];
        let mut offset = 0;
        while offset < end {
            let data = next_data(a, offset, end).min(next_data(b, offset, end));
            offset = data / block_bytes * block_bytes;
            let want = clamp_usize(PIECE_BYTES.min(end - offset));
            let piece_a = from_a.split_at_mut(want).0;
            let piece_b = from_b.split_at_mut(want).0;
            a.read_at(offset, piece_a)?;
            b.read_at(offset, piece_b)?;
            if piece_a != piece_b {
                runs.mark_blocks(piece_a, piece_b, offset / block_bytes, geometry);
            }
            offset += u64_of(want);
        }
        Ok(runs)
    }

    fn mark_blocks(&mut self, a: &[u8], b: &[u8], first: u64, geometry: &Geometry) {
        let block_bytes = uext4_num::usize_of(geometry.block_size());
        let pairs = a.chunks(block_bytes).zip(b.chunks(block_bytes));
        for (block, (a, b)) in (first..).zip(pairs) {
            if a != b {
                self.put(block);
            }
        }
    }

    /// Marks a block that is not marked yet.
    fn put(&mut self, block: u64) {
        let part = self.parts.entry(block / PART_BLOCKS);
        let bits = part.or_insert_with(|| vec![0; clamp_usize(PART_BLOCKS / 8)]);
        let bit = block % PART_BLOCKS;
        if let Some(byte) = bits.get_mut(clamp_usize(bit / 8)) {
            *byte |= 1 << (bit % 8);
        }
        self.count += 1;
    }

    /// Number of blocks that differ.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn has(&self, block: u64) -> bool {
        let bits = self.parts.get(&(block / PART_BLOCKS));
        let bit = block % PART_BLOCKS;
        let byte = bits.and_then(|bits| bits.get(clamp_usize(bit / 8)));
        byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// Calls `take` for each run of differing blocks inside `range`, in order.
    pub(super) fn inside(&self, range: Range<u64>, mut take: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        let mut open: Option<Range<u64>> = None;
        let parts = range.start / PART_BLOCKS..=(range.end - 1) / PART_BLOCKS;
        for (number, _) in self.parts.range(parts) {
            let first = number * PART_BLOCKS;
            for block in first.max(range.start)..(first + PART_BLOCKS).min(range.end) {
                if !self.has(block) {
                    continue;
                }
                match &mut open {
                    Some(run) if run.end == block => run.end += 1,
                    _ => {
                        let done = open.replace(block..block + 1);
                        done.into_iter().for_each(&mut take);
                    }
                }
            }
        }
        open.into_iter().for_each(take);
    }
}

/// The next byte at or after `offset` that is in no hole of the file behind the device, or `end`.
/// Where holes cannot be told, `offset`.
fn next_data(device: &dyn BlockDevice, offset: u64, end: u64) -> u64 {
    use rustix::fs::{SeekFrom, seek};
    let Some(backing) = device.backing(offset, end - offset) else {
        return offset;
    };
    match seek(backing.file, SeekFrom::Data(backing.offset)) {
        Ok(found) => found
            .saturating_sub(backing.offset)
            .saturating_add(offset)
            .min(end),
        Err(rustix::io::Errno::NXIO) => end,
        Err(_) => offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_to_the_range() {
        let mut runs = Runs::default();
        let ends = [PART_BLOCKS - 1, PART_BLOCKS, PART_BLOCKS + 1];
        for block in [3, 4, 9].into_iter().chain(ends) {
            runs.put(block);
        }
        let inside = |range| {
            let mut found = Vec::new();
            runs.inside(range, |run| found.push((run.start, run.end)));
            found
        };
        let across = (PART_BLOCKS - 1, PART_BLOCKS + 2);
        assert_eq!(inside(0..1 << 40), [(3, 5), (9, 10), across]);
        assert_eq!(inside(4..9), [(4, 5)]);
        assert_eq!(inside(5..5), []);
    }
}
