//! Bringing the copies of the superblock up to date.

use crate::superblock::SUPERBLOCK_BYTES;
use crate::{Fs, Result};
use uext4_format::{Feature, GroupNr, superblock};

/// Writes the superblock to every group that has a copy, as a file system that is not mounted. A
/// crash leaves some old: they are as good as they were.
pub(super) fn update(fs: &Fs) -> Result<()> {
    let mut copy = fs.superblock.read().disk.clone();
    let mut features = copy.features();
    features.remove(Feature::RECOVER);
    features.remove(Feature::ORPHAN_PRESENT);
    copy.set_features(features);
    copy.state &= !superblock::state::VALID;
    copy.last_orphan = 0;
    let holders = (1..fs.geometry.group_count)
        .map(GroupNr)
        .filter(|group| fs.geometry.has_super(*group));
    for group in holders {
        // The field has 16 bits, as with mke2fs.
        copy.block_group_nr = group.0 as u16;
        let bytes: [u8; SUPERBLOCK_BYTES] = copy.to_bytes();
        let block = fs.geometry.group_first_block(group);
        fs.device
            .write_at(block.0 << fs.geometry.block_bits, &bytes)?;
    }
    Ok(fs.device.flush()?)
}
