//! Writes of a repair: the changes of a round, and the state at the end.
//!
//! Invariant: from the first change to the end the superblock says that the file system is not
//! clean, so that a repair that was interrupted is followed by another one.

use super::outcome::RepairReport;
use crate::subject::{SharedData, Subject};
use std::collections::BTreeMap;
use uext4_format::superblock::state;
use uext4_format::{BlockNr, Feature, Superblock};
use uext4_journal::Log;
use uext4_num::{clamp_usize, nonnegative};
use uext4_volume::{Access, OpenOptions, Result, Volume};

/// What a round writes.
pub(super) struct Changes {
    pub(super) blocks: BTreeMap<BlockNr, Vec<u8>>,
    pub(super) superblock: Superblock,
    pub(super) log: Option<Log>,
}

/// Writes the changes of a round: through the log if there is a sound one, in parts if it cannot
/// hold all of them.
pub(super) fn commit(subject: &mut Subject, changes: Changes) -> Result<()> {
    subject.superblock.state &= !state::VALID;
    let mut volume = volume(subject, changes.log.clone())?;
    put(&mut volume, changes)?;
    subject.superblock = volume.superblock().clone();
    subject.geometry = *volume.geometry();
    Ok(())
}

/// Writes changes as [`commit`] does, through the log of the volume. What was written to new blocks
/// is durable before anything leads to it.
pub(super) fn put(volume: &mut Volume, changes: Changes) -> Result<()> {
    let mut wanted = changes.superblock;
    wanted.state &= !state::VALID;
    let mut before = volume.superblock().clone();
    before.state &= !state::VALID;
    let room = clamp_usize(volume.room()?.saturating_sub(1)).max(1);
    let mut blocks = changes.blocks;
    volume.device().flush()?;
    while blocks.len() > room {
        let rest = blocks.keys().nth(room).copied().unwrap_or_default();
        let rest = blocks.split_off(&rest);
        let part = std::mem::replace(&mut blocks, rest);
        volume.change(part, before.clone())?;
    }
    volume.change(blocks, wanted)
}

/// Marks the file system as checked, and as clean if nothing is left to repair. A check that ran
/// out of memory or time before it found anything says nothing about the file system.
pub(super) fn finish(
    subject: &Subject,
    report: &RepairReport,
    free: Option<(u64, u32)>,
) -> Result<()> {
    let mut superblock = subject.superblock.clone();
    if report.is_sound() {
        if superblock.state & state::ERROR != 0 {
            // The check has taken these inodes for ordinary ones, as a mount does.
            superblock.last_orphan = 0;
        }
        superblock.state = superblock.state & !state::ERROR | state::VALID;
        superblock.lastcheck = nonnegative(subject.clock.wall().seconds);
        superblock.mnt_count = 0;
        superblock.error_count = 0;
        let mut features = superblock.features();
        features.remove(Feature::RECOVER);
        if subject.shared_data == SharedData::Parted {
            features.remove(Feature::SHARED_BLOCKS);
        }
        superblock.set_features(features);
        if let Some((blocks, inodes)) = free {
            superblock.free_blocks_count = blocks;
            superblock.free_inodes_count = inodes;
        }
    } else if report.is_without_result() {
        return Ok(());
    } else {
        superblock.state &= !state::VALID;
    }
    volume(subject, None)?.change(BTreeMap::new(), superblock)
}

/// A claimed file system whose changes go through this log.
pub(super) fn volume(subject: &Subject, log: Option<Log>) -> Result<Volume> {
    let options = OpenOptions {
        access: Access::ReadWrite,
        journal_device: subject.journal_device.clone(),
        clock: subject.clock.clone(),
        ..OpenOptions::default()
    };
    Volume::of_mount(
        subject.device.clone(),
        log,
        subject.superblock.clone(),
        options,
    )
}
