//! Repairs that stop at any write: a second run, ours or e2fsck's, ends with the same tree, and the
//! undo file brings back every byte.
//!
//! More seeds: `UEXT4_REPAIR_CUT_SEEDS=1000 cargo test -p uext4 --test it repairs::cuts`;
//! `UEXT4_REPAIR_FIRST` repeats the seed of a failure.

use super::images::{bases, contents, damage};
use super::repaired_in_place;
use crate::damage::number;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{
    Cause, CrashLog, Event, Fault, Faulty, MemDevice, Operation, Recorder, Survivors, Tearing, When,
};
use uext4::repair::undo::{UndoOptions, UndoRecorder, undo};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{self, Repair};

/// Of this many cuts e2fsck judges one.
const SAMPLE: usize = 13;

/// A repair, and what it ends with.
struct Repaired {
    damaged: Vec<u8>,
    log: CrashLog,
    tree: Manifest,
    /// Contents that e2fsck keeps, of those that are there in the end; `None` if no run of it ends
    /// in a sound file system.
    kept_by_e2fsck: Option<BTreeSet<u64>>,
    /// With a damaged superblock e2fsck reads descriptors from backups as well; once the superblock
    /// is there again, it believes the primary ones.
    misleads_e2fsck: bool,
}

/// Counts over all repairs.
#[derive(Default)]
struct Tally {
    repairs: u64,
    cuts: u64,
    by_e2fsck: u64,
    undone: u64,
    /// Cuts from which e2fsck loses files.
    lost_by_e2fsck: u64,
}

fn tree(device: Arc<MemDevice>) -> Result<Manifest> {
    let options = MountOptions {
        access: uext4::Access::ReadOnly,
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device, options).context("mount")?;
    let tree = Manifest::of(&EngineTarget::new(&fs)).context("tree")?;
    fs.unmount().context("unmount")?;
    Ok(tree)
}

/// What a repair keeps; the times of directories that it changes are its own.
fn policy() -> Policy {
    Policy::default().ignore(Field::DirectoryMtime)
}

/// Repairs an image; `None` if there is nothing to repair, or something is left.
fn record(image: &Path, wounds: &[String]) -> Result<Option<Repaired>> {
    let damaged = std::fs::read(image)?;
    let device = Arc::new(MemDevice::from_bytes(&damaged));
    let recorder = Arc::new(Recorder::new(device.clone()));
    let Ok(report) = repaired_in_place(recorder.clone()) else {
        return Ok(None);
    };
    if !report.is_sound() || report.n_repaired == 0 {
        return Ok(None);
    }
    // Sound attributes may have names that nothing can ask for.
    let Ok(tree) = tree(device.clone()) else {
        return Ok(None);
    };
    let mut log = recorder.log();
    // The superblock has two sectors, which its checksum or the log holds together.
    log.keep_whole(1024..2048);
    let by_e2fsck = repaired_by_e2fsck(image).ok().flatten();
    std::fs::write(image, device.to_bytes())?;
    let kept = contents(image);
    let kept_by_e2fsck = by_e2fsck.map(|all| all.intersection(&kept).copied().collect());
    Ok(Some(Repaired {
        damaged,
        log,
        tree,
        kept_by_e2fsck,
        misleads_e2fsck: wounds.iter().any(|wound| wound.starts_with("Superblock")),
    }))
}

/// Contents that e2fsck leaves in a sound file system; `None` if it gives up.
pub(super) fn repaired_by_e2fsck(image: &Path) -> Result<Option<BTreeSet<u64>>> {
    // Where e2fsck 1.47 removes an orphan file, its first run leaves the bit of the inode.
    oracle::e2fsck_repair(image, Repair::Everything)?;
    let repaired = oracle::e2fsck_repair(image, Repair::Everything)?;
    if repaired.is_operational_error() {
        return Ok(None);
    }
    let verdict = oracle::e2fsck(image)?;
    ensure!(
        repaired.is_repaired() && verdict.is_clean(),
        "after e2fsck -fy: {verdict}"
    );
    Ok(Some(contents(image)))
}

impl Repaired {
    /// Our second run.
    fn judge_ours(&self, cut: &MemDevice) -> Result<()> {
        let device = Arc::new(cut.snapshot());
        let report = repaired_in_place(device.clone()).context("a second repair")?;
        ensure!(report.is_sound(), "left: {report:?}");
        let differences = self.tree.diff(&tree(device)?, &policy());
        ensure!(differences.is_empty(), "{differences:?}");
        Ok(())
    }

    /// How many files e2fsck loses that it keeps without a repair before.
    fn judge_e2fsck(&self, cut: &MemDevice, image: &Path) -> Result<usize> {
        let Some(kept) = &self.kept_by_e2fsck else {
            return Ok(0);
        };
        std::fs::write(image, cut.to_bytes())?;
        let by_e2fsck = repaired_by_e2fsck(image)?;
        Ok(by_e2fsck.map_or(0, |there| kept.difference(&there).count()))
    }

    /// Stops a repair with an undo file after a number of writes, and undoes it.
    fn judge_undo(&self, writes: u64) -> Result<()> {
        let device = Arc::new(MemDevice::from_bytes(&self.damaged));
        let faulty = Arc::new(Faulty::new(device.clone()));
        faulty.arm(Fault {
            operation: Operation::Write,
            when: When::Counted {
                after: writes,
                count: u64::MAX,
            },
            cause: Cause::Io,
        });
        let file = tempfile::tempfile()?;
        let recorder = Arc::new(UndoRecorder::new(faulty, 0, file.try_clone()?));
        let stopped = repaired_in_place(recorder.clone());
        if stopped.is_ok() {
            recorder.finish()?;
        }
        if device.to_bytes() != self.damaged {
            undo(&file, &*device, UndoOptions::default()).context("undo")?;
        }
        ensure!(device.to_bytes() == self.damaged, "bytes differ after undo");
        Ok(())
    }

    fn judge(&mut self, image: &Path, tally: &mut Tally) -> Result<()> {
        tally.repairs += 1;
        let changes: Vec<_> = (0..=self.log.len())
            .filter(|cut| is_change(&self.log, *cut))
            .collect();
        for (at, cut) in changes.iter().enumerate() {
            let some = Survivors::Seeded {
                seed: *cut as u64,
                tearing: Tearing::Whole,
            };
            for survivors in [Survivors::All, some] {
                let stopped = self.log.image(*cut, survivors);
                let judged = self.judge_ours(&stopped);
                judged.with_context(|| format!("cut {cut}, {survivors:?}"))?;
                tally.cuts += 1;
                if at % SAMPLE == 0 {
                    let said = || format!("cut {cut}, {survivors:?}, e2fsck");
                    let lost = self.judge_e2fsck(&stopped, image).with_context(said)?;
                    ensure!(lost == 0 || self.misleads_e2fsck, "{}: {lost} lost", said());
                    tally.by_e2fsck += 1;
                    tally.lost_by_e2fsck += u64::from(lost > 0);
                }
            }
        }
        let last = changes.len() as u64;
        for writes in [1, last / 3, last - 1, last] {
            let judged = self.judge_undo(writes);
            judged.with_context(|| format!("undo after {writes} writes"))?;
            tally.undone += 1;
        }
        Ok(())
    }
}

/// Whether the event before the cut is a change.
fn is_change(log: &CrashLog, cut: usize) -> bool {
    let before = cut
        .checked_sub(1)
        .and_then(|before| log.events().get(before));
    matches!(before, Some(Event::Change { .. }))
}

#[test]
fn a_stop_at_any_write_leaves_what_a_second_run_completes() {
    let dir = oracle::scratch_dir().expect("there is room");
    let bases = bases(dir.path());
    let image = dir.path().join("image");
    let first = number("UEXT4_REPAIR_FIRST", 0);
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for seed in first..first + number("UEXT4_REPAIR_CUT_SEEDS", 8) {
        let wounds = damage(&bases, seed, &image);
        if wounds.is_empty() {
            continue;
        }
        let judged = match record(&image, &wounds) {
            Ok(Some(mut repaired)) => repaired.judge(&image, &mut tally),
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        if let Err(error) = judged {
            let failure = format!("seed {seed}: {}: {error:#}", wounds.join(" and "));
            println!("{failure}");
            failures.push(failure);
        }
    }
    let Tally {
        repairs,
        cuts,
        by_e2fsck,
        undone,
        lost_by_e2fsck,
    } = tally;
    println!("{repairs} repairs, {cuts} cuts, {by_e2fsck} by e2fsck, {undone} undone");
    println!("from {lost_by_e2fsck} cuts e2fsck loses files");
    assert!(undone > 0, "nothing was repaired");
    assert!(failures.is_empty(), "{} failures", failures.len());
}
