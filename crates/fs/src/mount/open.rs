//! Inspection of a device before a mount: superblock, features, need of a replay.

use super::fast_commit;
use crate::types::error::Result;
use crate::types::options::{Access, MountOptions};
use uext4_device::{BlockDevice, SnapshotDevice, Snapshots};
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{BlockNr, Feature, Geometry, Superblock, Timestamp, superblock};
use uext4_journal::Log;
use uext4_journal::recovery::{self, RecoveryMode};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;
use uext4_volume::mmp::Claim;
use uext4_volume::superblock::{read_primary, write_superblock};
use uext4_volume::{
    Inspection, Media, Writes, keep_errors, log, may_write, record_stopped_journal,
};

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
    /// The devices of the mount. For a read-only mount the replay and its writes to the log stay in
    /// memory.
    pub(super) fn media(&mut self, device: Arc<dyn BlockDevice>) -> Result<Media> {
        let mut snapshots = Vec::new();
        let device = layered(device, &mut snapshots);
        let claim = Claim::new(&device, &self.superblock, &self.options.clock)?;
        let writes = match self.options.access {
            Access::ReadOnly if self.needs_replay => Writes::Memory,
            _ => Writes::Device,
        };
        let journal = self.options.journal_device.take();
        let journal = journal.map(|device| layered(device, &mut snapshots));
        let own = claim.as_ref().map(|claim| claim.range());
        // The claim's range is on the first device.
        let ranges = own.into_iter().chain(std::iter::repeat(0..0));
        for (layer, own) in snapshots.iter().zip(ranges) {
            let claim = claim.as_ref().map(Arc::downgrade);
            if let Some(claim) = claim {
                layer.set_lease(own, move || {
                    claim.upgrade().map_or(Ok(()), |claim| claim.check())
                });
            }
        }
        let mut media = Media::new(device, journal, claim, writes);
        media.snapshots = snapshots;
        self.options.journal_device = media.journal_device();
        media.set_barrier(self.options.barrier);
        Ok(media)
    }
}

/// A device of which snapshots can be taken.
fn layered(
    device: Arc<dyn BlockDevice>,
    snapshots: &mut Vec<Arc<Snapshots>>,
) -> Arc<dyn BlockDevice> {
    let device = SnapshotDevice::new(device);
    snapshots.push(device.snapshots().clone());
    Arc::new(device)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Normal use with the options.
    Use,
    /// Recovery before a read-only mount; not counted as a mount.
    Recovery,
}

pub(super) fn inspect(device: &Arc<dyn BlockDevice>, options: MountOptions) -> Result<Plan> {
    let superblock = read_primary(&**device, options.superblock_kib)?;
    let mut options = options.settled(&superblock)?;
    let found = Inspection::of(&**device, superblock, &options.open_options())?;
    options.access = found.access;
    apply_stripe(&found.superblock, &mut options);
    Ok(Plan {
        options,
        superblock: found.superblock,
        geometry: found.geometry,
        needs_replay: found.needs_replay,
        log: None,
        recovering: found.recovering,
        fast_commits: fast_commit::Outcome::Nothing,
        purpose: Purpose::Use,
    })
}

/// Inspects again, after other hosts have stopped writing.
pub(super) fn inspect_again(device: &Arc<dyn BlockDevice>, plan: &mut Plan) -> Result<()> {
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
    asked
        && is_left
        && is_whole
        && options.superblock_kib.is_none()
        && !device.is_read_only()
        && options
            .journal_device
            .as_ref()
            .is_none_or(|log| !log.is_read_only())
        && may_write(&plan.superblock)
}

/// Without `stripe=`, uses the superblock's RAID stripe. A stripe longer than a group is ignored.
fn apply_stripe(superblock: &Superblock, options: &mut MountOptions) {
    let widths = [
        options.stripe_blocks,
        superblock.raid_stripe_width,
        superblock.raid_stride.into(),
    ];
    options.stripe_blocks = widths
        .into_iter()
        .find(|width| (1..=superblock.blocks_per_group).contains(width))
        .unwrap_or(0);
}

/// The superblock after a replay: the primary copy, which the replay restores if it had changed;
/// else the backup.
fn after_replay(device: &dyn BlockDevice, options: &MountOptions) -> Result<Superblock> {
    match read_primary(device, None) {
        Err(_) if options.superblock_kib.is_some() => {
            Ok(read_primary(device, options.superblock_kib)?)
        }
        there => Ok(there?),
    }
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
    let external = plan.options.journal_device.as_ref();
    let found = log::find(device, &plan.superblock, &plan.geometry, external)?;
    if plan.needs_replay {
        let block_size = plan.geometry.block_size();
        let before = &plan.superblock;
        let mode = RecoveryMode::Replay;
        let report = recovery::recover_amended(&found, device, block_size, mode, &|nr, bytes| {
            amend(nr, bytes, before)
        })?;
        let replayed = after_replay(&**device, &plan.options)?;
        let before = std::mem::replace(&mut plan.superblock, replayed);
        if keep_errors(&mut plan.superblock, &before) {
            write_superblock(&**device, &plan.superblock)?;
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
        log::wipe(&found, device, plan.geometry.block_size())?;
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
        record_stopped_journal(&mut plan.superblock, now, errno);
        write_superblock(&**device, &plan.superblock)?;
    }
    Ok(recovery::clear_errno(log, plan.geometry.block_size())?)
}
