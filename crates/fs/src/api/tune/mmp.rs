//! Adds and removes the block of multiple mount protection.
//!
//! Invariant: one transaction has the block's bitmap bit and the superblock that names it.

use crate::state::engine::Fs;
use crate::state::space::{Reserve, metadata_end};
use crate::state::superblock::read_superblock;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_device::BlockDevice;
use uext4_format::mmp::{MMP_UPDATE_INTERVAL_SECONDS, Mmp};
use uext4_format::{BlockNr, BlockRun, Feature, InodeNr};
use uext4_num::usize_of;
use uext4_offline::Presence;
use uext4_sync::Arc;
use uext4_volume::metadata_zones;

/// Says in the MMP block that no host uses the file system, whatever it says now. The caller knows
/// that it is so.
///
/// # Errors
/// [`Error::NotSupported`] without the feature `mmp`; damage of the superblock; the device's.
pub fn clear_mmp(device: &Arc<dyn BlockDevice>) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let geometry = disk.geometry()?;
    let block = BlockNr(disk.mmp_block);
    if !disk.features().has(Feature::MMP) {
        return Err(Error::NotSupported(
            "it has no MMP block to clear (feature mmp)",
        ));
    }
    if !metadata_zones(&**device, &geometry)?.is_clear(block, 1) || !geometry.contains(block) {
        return Err(Error::NotSupported(
            "the MMP block is among metadata; e2fsck repairs it",
        ));
    }
    let mut bytes = vec![0; usize_of(geometry.block_size())];
    Mmp::clean(disk.mmp_update_interval).write_to(&mut bytes, &disk.checksums());
    Ok(device.write_durable_at(block.0 << geometry.block_bits, &bytes)?)
}

pub(super) fn set(fs: &Fs, wanted: Presence) -> Result<()> {
    let there = fs.base.superblock.read().disk.features().has(Feature::MMP);
    match wanted {
        Presence::Present if !there => add(fs),
        Presence::Absent if there => remove(fs),
        _ => Ok(()),
    }
}

fn add(fs: &Fs) -> Result<()> {
    let handle = fs.start(credits::MAP)?;
    let (reserve, end) = (Reserve::MayUse, metadata_end(&fs.base));
    let block = fs
        .space
        .allocate_block(&fs.base, &handle, None, InodeNr::ROOT, reserve, end)?;
    let seconds = match fs.base.superblock.read().disk.mmp_update_interval {
        0 => MMP_UPDATE_INTERVAL_SECONDS,
        seconds => seconds,
    };
    let mut bytes = vec![0; fs.block_size()];
    Mmp::clean(seconds).write_to(&mut bytes, &fs.base.checksums);
    fs.base
        .device
        .write_durable_at(block.0 << fs.base.geometry.block_bits, &bytes)?;
    fs.base.superblock.update(&handle, |disk| {
        let mut features = disk.features();
        features.insert(Feature::MMP);
        disk.set_features(features);
        disk.mmp_block = block.0;
        disk.mmp_update_interval = seconds;
    });
    Ok(())
}

/// The lease of this mount ends with the unmount, which writes to the free block once more.
fn remove(fs: &Fs) -> Result<()> {
    let start = BlockNr(fs.base.superblock.read().disk.mmp_block);
    if !fs.space.may_hold_data(start) {
        return Err(Error::NotSupported(
            "the MMP block is among metadata; e2fsck repairs it",
        ));
    }
    let handle = fs.start(credits::MAP)?;
    let len_blocks = fs.base.geometry.blocks_per_cluster();
    fs.space
        .free(&fs.base, &handle, BlockRun { start, len_blocks })?;
    fs.base.superblock.update(&handle, |disk| {
        let mut features = disk.features();
        features.remove(Feature::MMP);
        disk.set_features(features);
        disk.mmp_block = 0;
    });
    Ok(())
}
