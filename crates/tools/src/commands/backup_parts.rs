//! Parts of a disk in which a copy differs from an earlier one.

use super::backup_source::Source;
use std::ops::Range;
use uext4::device::{Error as DeviceError, SnapshotEnd};
use uext4_fuse::{Earlier, Remote};
use uext4_num::clamp_usize;

/// Smallest granule, which is a cluster of qcow2.
const GRANULE_BYTES_MIN: u64 = 1 << 16;

/// Granules of the disk in which a copy differs from the earlier one.
pub(super) struct Parts {
    bits: Vec<u8>,
    granule_bytes: u64,
    size_bytes: u64,
}

impl Parts {
    pub(super) fn of(snapshot: &Remote, earlier: &Earlier, source: &Source) -> uext4::Result<Self> {
        let (granule_bytes, size_bytes) = (earlier.granule_bytes, source.device.size_bytes());
        if !granule_bytes.is_power_of_two() || granule_bytes < GRANULE_BYTES_MIN {
            let malformed = SnapshotEnd::Malformed;
            return Err(DeviceError::SnapshotEnded(malformed).into());
        }
        let mut bits = snapshot.changed()?;
        let granules = size_bytes.div_ceil(granule_bytes);
        bits.resize(clamp_usize(granules.div_ceil(8)), 0);
        let mut parts = Self {
            bits,
            granule_bytes,
            size_bytes,
        };
        source.granules(granule_bytes).for_each(|nr| parts.mark(nr));
        // What the file system has grown by, and what has no bits.
        let covered_bytes = (earlier.bitmap_bytes * 8).saturating_mul(granule_bytes);
        let known_bytes = earlier.copy.disk_bytes.min(covered_bytes);
        if known_bytes < size_bytes {
            (known_bytes / granule_bytes..granules).for_each(|nr| parts.mark(nr));
        }
        Ok(parts)
    }

    fn mark(&mut self, granule: u64) {
        if let Some(byte) = self.bits.get_mut(clamp_usize(granule / 8)) {
            *byte |= 1 << (granule % 8);
        }
    }

    /// Their ranges in bytes, in ascending order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let granules = (0..).zip(&self.bits).filter(|(_, byte)| **byte != 0);
        let granules = granules.flat_map(|(at, byte)| {
            let set = (0..8).filter(move |bit| byte >> bit & 1 == 1);
            set.map(move |bit| at * 8 + bit)
        });
        granules
            .map(|nr: u64| nr * self.granule_bytes)
            .take_while(|start| *start < self.size_bytes)
            .map(|start| start..self.size_bytes.min(start + self.granule_bytes))
    }
}
