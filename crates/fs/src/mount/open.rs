//! Inspection of a device before a mount: superblock, features, need of a replay.

use super::{fast_commit, features, log};
use crate::media::Media;
use crate::mmp::Claim;
use crate::options::Access;
use crate::superblock::{
    SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, keep_errors, note_stopped_journal, read_superblock,
};
use crate::{Error, MountOptions, Result};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Feature, Geometry, Superblock, Timestamp, superblock};
use uext4_journal::Log;
use uext4_journal::recovery::{self, RecoveryMode};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;

/// Findings of the inspection, for assembling the engine.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) options: MountOptions,
    pub(super) superblock: Superblock,
    pub(super) geometry: Geometry,
    pub(super) needs_replay: bool,
    pub(super) log: Option<Log>,
    /// The file system was not unmounted cleanly, or has orphans.
    pub(super) recovering: bool,
    pub(super) fast_commits: fast_commit::Outcome,
    pub(super) purpose: Purpose,
}

impl Plan {
    /// The devices of the mount.
    pub(super) fn media(&mut self, device: Arc<dyn BlockDevice>) -> Result<Media> {
        let claim = Claim::new(&device, &self.superblock, &self.options.clock)?;
        let options = &mut self.options;
        Ok(Media::new(device, claim, options, self.needs_replay))
    }
}

/// Purpose of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Normal use with the options.
    Use,
    /// Recovery before a read-only mount; not counted as a mount.
    Recovery,
}

pub(super) fn inspect(device: &Arc<dyn BlockDevice>, mut options: MountOptions) -> Result<Plan> {
    let superblock = primary(read_superblock(&**device, options.superblock_kib)?);
    options = options.settled(&superblock)?;
    let features = superblock.features();
    let geometry = superblock.geometry()?;
    check_size(&**device, &geometry)?;
    if device.is_read_only() {
        options.access = Access::ReadOnly;
    }
    features::settle(&superblock, &mut options)?;
    settle_stripe(&superblock, &mut options);
    let state = superblock.state;
    let recovering = features.has(Feature::RECOVER)
        || features.has(Feature::ORPHAN_PRESENT)
        || superblock.last_orphan != 0
        || state & superblock::state::VALID == 0
        || options.superblock_kib.is_some();
    // A backup does not record whether the log is empty; the replay of an empty log does nothing.
    let backup = options.superblock_kib.is_some() && features.has(Feature::HAS_JOURNAL);
    let needs_replay = (features.has(Feature::RECOVER) || backup) && options.replay;
    if features.has(Feature::RECOVER) && !options.replay && options.access == Access::ReadWrite {
        return Err(Error::Mount("noload needs a read-only mount".into()));
    }
    Ok(Plan {
        options,
        superblock,
        geometry,
        needs_replay,
        log: None,
        recovering,
        fast_commits: fast_commit::Outcome::Nothing,
        purpose: Purpose::Use,
    })
}

/// The superblock as the primary one, also that of a backup. A device beside an internal journal is
/// what a crash in a change of the size of descriptors leaves, to keep Linux out.
fn primary(mut superblock: Superblock) -> Superblock {
    superblock.block_group_nr = 0;
    if superblock.journal_inum != 0 {
        superblock.journal_dev = 0;
    }
    superblock
}

/// Inspects again, after other hosts have stopped writing.
pub(super) fn look_again(device: &Arc<dyn BlockDevice>, plan: &mut Plan) -> Result<()> {
    let now = inspect(device, plan.options.clone())?;
    plan.superblock = now.superblock;
    plan.geometry = now.geometry;
    plan.needs_replay = now.needs_replay;
    plan.recovering = now.recovering;
    Ok(())
}

/// Whether a read-only mount recovers first: the device takes writes, and the state allows it. As
/// in the kernel, a file system with the error state is left to e2fsck, and one with read-only
/// features is not written.
pub(super) fn recovers_first(device: &dyn BlockDevice, plan: &Plan) -> bool {
    let features = plan.superblock.features();
    let is_left = features.has(Feature::RECOVER)
        || features.has(Feature::ORPHAN_PRESENT)
        || plan.superblock.last_orphan != 0;
    let state = plan.superblock.state;
    let is_whole = state & superblock::state::ERROR == 0
        && (features.has(Feature::HAS_JOURNAL) || state & superblock::state::VALID != 0);
    let options = &plan.options;
    let asked = options.access == Access::ReadOnly && options.replay;
    let log_takes_writes = |log: &Arc<dyn BlockDevice>| !log.is_read_only();
    asked
        && is_left
        && is_whole
        && options.superblock_kib.is_none()
        && !device.is_read_only()
        && options.journal_device.as_ref().is_none_or(log_takes_writes)
        && features::may_write(&plan.superblock)
}

/// Without `stripe=`, uses the superblock's RAID stripe. A stripe longer than a group is ignored.
fn settle_stripe(superblock: &Superblock, options: &mut MountOptions) {
    let widths = [
        options.stripe_blocks,
        superblock.raid_stripe_width,
        superblock.raid_stride.into(),
    ];
    let fits = |width: &u32| (1..=superblock.blocks_per_group).contains(width);
    options.stripe_blocks = widths.into_iter().find(fits).unwrap_or(0);
}

fn check_size(device: &dyn BlockDevice, geometry: &Geometry) -> Result<()> {
    let (wanted, there) = (geometry.size_bytes(), device.size_bytes());
    if wanted > there {
        let name = device.describe();
        let problem = format!("the superblock says {wanted} bytes, {name} has {there}");
        return Err(Error::Mount(problem));
    }
    Ok(())
}

/// The superblock after a replay: the primary copy, which the replay restores if it had changed;
/// else the backup.
fn after_replay(device: &dyn BlockDevice, options: &MountOptions) -> Result<Superblock> {
    let there = match read_superblock(device, None) {
        Err(_) if options.superblock_kib.is_some() => {
            read_superblock(device, options.superblock_kib)
        }
        there => there,
    };
    there.map(primary)
}

/// Keeps the superblock's error records when its image is replayed, because they were written past
/// the journal. Bytes that are no superblock are left alone; the next read reports them.
fn amend(nr: BlockNr, image: &mut [u8], before: &Superblock) {
    let block_size = u64_of(image.len());
    let at = clamp_usize(SUPERBLOCK_OFFSET % block_size);
    if nr.0 != SUPERBLOCK_OFFSET / block_size {
        return;
    }
    let Some(bytes) = image.get_mut(at..at + SUPERBLOCK_BYTES) else {
        return;
    };
    if let Ok(mut disk) = Superblock::parse(bytes)
        && keep_errors(&mut disk, before)
    {
        bytes.copy_from_slice(&disk.to_bytes());
    }
}

/// Finds the log, replays it if needed, and reads the superblock again.
pub(super) fn replay(device: &Arc<dyn BlockDevice>, plan: &mut Plan) -> Result<()> {
    if !plan.superblock.features().has(Feature::HAS_JOURNAL) {
        return Ok(());
    }
    let found = log::find(device, &plan.superblock, &plan.geometry, &plan.options)?;
    if plan.needs_replay {
        let block_size = plan.geometry.block_size();
        let before = &plan.superblock;
        let amend = |nr: BlockNr, bytes: &mut [u8]| amend(nr, bytes, before);
        let mode = RecoveryMode::Replay;
        let report = recovery::recover_amended(&found, device, block_size, mode, &amend)?;
        let replayed = after_replay(&**device, &plan.options)?;
        let before = std::mem::replace(&mut plan.superblock, replayed);
        if keep_errors(&mut plan.superblock, &before) {
            store(device, &plan.superblock)?;
        }
        plan.geometry = plan.superblock.geometry()?;
        log::check(device, &plan.superblock, &plan.geometry)?;
        plan.log = Some(found.clone());
        if fast_commit::finish(device, plan, &found, &report)? == fast_commit::Outcome::Replayed {
            plan.superblock = after_replay(&**device, &plan.options)?;
            plan.fast_commits = fast_commit::Outcome::Replayed;
        }
        if report.errno != 0 {
            take_over_error(device, plan, &found, report.errno)?;
        }
    } else if plan.options.access == Access::ReadWrite {
        wipe(&found, device, plan.geometry.block_size())?;
    }
    plan.log = Some(found);
    Ok(())
}

/// Records an earlier error of the journal in the superblock, until e2fsck runs. A mount that ended
/// properly has recorded it itself.
fn take_over_error(
    device: &Arc<dyn BlockDevice>,
    plan: &mut Plan,
    log: &Log,
    errno: i32,
) -> Result<()> {
    let now = plan.options.clock.wall();
    let now = Timestamp::new(now.seconds, now.nanoseconds);
    if plan.superblock.state & superblock::state::ERROR == 0 {
        note_stopped_journal(&mut plan.superblock, now, errno);
        store(device, &plan.superblock)?;
    }
    Ok(recovery::clear_errno(log, plan.geometry.block_size())?)
}

/// Writes the primary superblock, durably.
fn store(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<()> {
    let bytes: [u8; SUPERBLOCK_BYTES] = superblock.to_bytes();
    device.write_at(SUPERBLOCK_OFFSET, &bytes)?;
    Ok(device.flush()?)
}

/// Marks a log clean that must not be replayed, because everything is home.
pub(super) fn wipe(log: &Log, device: &Arc<dyn BlockDevice>, block_size: u32) -> Result<()> {
    if recovery::needs_recovery(log, block_size)? {
        let report = recovery::recover(log, device, block_size, RecoveryMode::Inspect)?;
        recovery::mark_clean(log, block_size, &report)?;
    }
    Ok(())
}
