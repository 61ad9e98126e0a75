//! Updates the backup copies of the superblock.

use crate::state::engine::Fs;
use crate::types::error::Result;
use uext4_format::GroupNr;
use uext4_volume::superblock::backup;

/// Writes the superblock to every group that has a copy, in the state of an unmounted file system.
/// After a crash some copies are still the old ones, which stay as usable as before.
pub(super) fn update(fs: &Fs) -> Result<()> {
    let disk = fs.base.superblock.read().disk.clone();
    let holders = (1..fs.base.geometry.group_count)
        .map(GroupNr)
        .filter(|group| fs.base.geometry.has_super(*group));
    for group in holders {
        let block = fs.base.geometry.group_first_block(group);
        fs.base.device.write_at(
            block.0 << fs.base.geometry.block_bits,
            &backup(&disk, group),
        )?;
    }
    Ok(fs.base.device.flush()?)
}
