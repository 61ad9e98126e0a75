//! Replay of fast commits on top of the replayed transactions of a log.
//!
//! The engine applies the records to an overlay in memory. The changed blocks go to the log as one
//! transaction, which replaces the fast commits ([`uext4_journal::recovery::supersede`]). A crash
//! at any point leads either to the same records on the same state, or to a plain replay: records
//! are never applied twice. For the same reason a mount that replayed in memory stays read-only.
//!
//! Layout: [`ranges`] combines the records of one file's blocks; [`maps`] applies them, with
//! [`clusters`] for clusters that a file shares with itself; [`inodes`] and [`names`] apply the
//! other records.
//!
//! Order: blocks of the records are reserved before any allocation; then lost blocks are unmapped;
//! then come inodes, names in their order, and the new mappings.
//!
//! Invariants: an inode without a name in the end is tracked as an orphan, for the mount to free.
//! Record bytes are validated as any other bytes from disk; damage refuses the mount.
//!
//! Not here: times of directories, which no record has; they get the time of the replay.
//!
//! References: kernel documentation, `filesystems/ext4/journal.rst`, "fast commits".

mod clusters;
mod inodes;
mod maps;
mod names;
mod ranges;

use super::assemble;
use super::open::Plan;
use crate::parts::{orphan_recovery, quota_files};
use crate::state::engine::Fs;
use crate::types::credits;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions, Threads};
use std::collections::BTreeMap;
use uext4_device::{BlockDevice, Overlay};
use uext4_format::fast_commit::{Record, Scan, Verdict};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, InodeNr};
use uext4_journal::recovery::{self, RecoveryReport};
use uext4_journal::{Image, Log};
use uext4_num::clamp_usize;
use uext4_sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Nothing,
    /// Fast commits were replayed: the superblock may have changed.
    Replayed,
}

/// Replays the fast commits behind the replayed transactions, if there are any, and marks the log
/// clean. `plan` has the state after the replay of the transactions.
pub(super) fn finish(
    device: &Arc<dyn BlockDevice>,
    plan: &Plan,
    log: &Log,
    report: &RecoveryReport,
) -> Result<Outcome> {
    if report.fast_commit.is_none() {
        return Ok(Outcome::Nothing);
    }
    let block_size = plan.geometry.block_size();
    let records = read_records(plan, log, report)?;
    if records.is_empty() {
        recovery::mark_clean(log, block_size, report)?;
        return Ok(Outcome::Nothing);
    }
    let overlay = Arc::new(Overlay::new(device.clone()));
    apply(overlay.clone(), plan, &records)?;
    let images = changed_blocks(&overlay, &**device, block_size)?;
    let seconds = u64::try_from(plan.options.clock.wall().seconds).unwrap_or(0);
    match recovery::supersede(log, device, block_size, report, images, seconds) {
        Err(uext4_journal::Error::LogTooSmall { blocks }) => {
            let Access::ReadOnly = plan.options.access else {
                return Err(too_much(blocks));
            };
            // In memory: a crash leaves no partial state.
            write_directly(&overlay, device, log, block_size, report)?;
        }
        other => other?,
    }
    Ok(Outcome::Replayed)
}

fn read_records(plan: &Plan, log: &Log, report: &RecoveryReport) -> Result<Vec<Record>> {
    let Some(area) = &report.fast_commit else {
        return Ok(Vec::new());
    };
    let block_size = plan.geometry.block_size();
    let mut scan = Scan::new(area.tid, plan.geometry.inode_size);
    for index in 0.. {
        let block = recovery::read_fast_commit_block(log, block_size, area, index)?;
        let Some(block) = block else { break };
        if scan.push(&block) == Verdict::Ends {
            break;
        }
    }
    Ok(scan.into_records())
}

/// Applies the records to a device, with an engine without a log.
fn apply(device: Arc<dyn BlockDevice>, plan: &Plan, records: &[Record]) -> Result<()> {
    let options = MountOptions {
        access: Access::ReadWrite,
        threads: Threads::Inline,
        discard: false,
        ..plan.options.clone()
    };
    let mut plan = Plan {
        options,
        ..plan.clone()
    };
    let media = plan.media(device)?;
    let fs = assemble::engine(media, &plan, None, None)?;
    orphan_recovery::take_over(&fs)?;
    let mut maps = maps::Maps::new(&fs, records)?;
    maps.reserve_free(&fs)?;
    maps.unmap(&fs)?;
    fs.base.journal.commit_running()?;
    maps.reserve_rest(&fs)?;
    let last = last_inodes(records);
    inodes::apply(&fs, records, &last)?;
    names::apply(&fs, records)?;
    maps.map(&fs)?;
    names::track_nameless(&fs, records)?;
    quota_files::add_missing_entries(&fs)?;
    let handle = fs.start(credits::ATTRIBUTES)?;
    fs.log_counts(&handle);
    drop(handle);
    Ok(fs.base.journal.commit_running()?)
}

/// The last recorded state of every inode.
fn last_inodes(records: &[Record]) -> BTreeMap<InodeNr, &[u8]> {
    records
        .iter()
        .filter_map(|record| match record {
            &Record::Inode { inode, ref raw } => Some((inode, &raw[..])),
            _ => None,
        })
        .collect()
}

/// Blocks that differ from `base`, in ascending order.
fn changed_blocks(
    overlay: &Overlay,
    base: &dyn BlockDevice,
    block_size: u32,
) -> Result<Vec<(BlockNr, Image)>> {
    let size = u64::from(block_size);
    let mut changed: Vec<(BlockNr, Image)> = Vec::new();
    for range in overlay.changed_ranges() {
        for nr in range.start / size..range.end.div_ceil(size) {
            if changed.last().is_some_and(|(last, _)| last.0 >= nr) {
                continue;
            }
            let (mut new, mut old) = (vec![0; clamp_usize(size)], vec![0; clamp_usize(size)]);
            overlay.read_at(nr * size, &mut new)?;
            base.read_at(nr * size, &mut old)?;
            if new != old {
                changed.push((BlockNr(nr), new.into()));
            }
        }
    }
    Ok(changed)
}

/// Linux writes its replay home step by step, and restarts it after a crash, so records are
/// idempotent there. Here they are applied once, so changes that exceed the log are refused.
fn too_much(blocks: u64) -> Error {
    Error::Mount(format!(
        "the fast commits in the journal change {blocks} blocks, more than its log holds at once: \
         mount read-only, or let e2fsck -y replay them"
    ))
}

/// Writes the changes home directly, if the log cannot hold them at once.
fn write_directly(
    overlay: &Overlay,
    device: &Arc<dyn BlockDevice>,
    log: &Log,
    block_size: u32,
    report: &RecoveryReport,
) -> Result<()> {
    for (nr, image) in changed_blocks(overlay, &**device, block_size)? {
        device.write_at(nr.0 * u64::from(block_size), &image)?;
    }
    device.flush()?;
    Ok(recovery::mark_clean(log, block_size, report)?)
}

/// The error for a record that contradicts the file system.
fn contradiction(inode: InodeNr, problem: CorruptKind) -> Error {
    Corrupt::new(DamageLocation::Inode(inode), "fast commit", problem).into()
}

/// The inode of a record, loaded; a number that no file may have is damage.
fn load(fs: &Fs, nr: InodeNr) -> Result<Arc<crate::state::inode::Inode>> {
    if fs.hidden.contains(nr) {
        return Err(contradiction(nr, CorruptKind::FcReserved));
    }
    fs.load_inode(nr)
}
