//! Updates the backup copies of the superblock.

use crate::superblock::SUPERBLOCK_BYTES;
use crate::{Fs, Result};
use uext4_format::{Feature, GroupNr, superblock};
use uext4_num::clamp_u16;

/// Writes the superblock to every group that has a copy, in the state of an unmounted file system.
/// After a crash some copies are still the old ones, which stay as usable as before.
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
        copy.block_group_nr = clamp_u16(group.0); // as mke2fs, for groups above 65,535
        let bytes: [u8; SUPERBLOCK_BYTES] = copy.to_bytes();
        let block = fs.geometry.group_first_block(group);
        fs.device
            .write_at(block.0 << fs.geometry.block_bits, &bytes)?;
    }
    Ok(fs.device.flush()?)
}
