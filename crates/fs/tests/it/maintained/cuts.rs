//! One step of a life, cut at every write.

use super::life::Life;
use super::step::Step;
pub(super) use crate::resize::crash::Flushes;
use crate::resize::crash::{self, Careless};
use crate::resize::kind::Image;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use uext4::device::{BlockDevice, CrashLog, MemDevice, Recorder, Survivors, Tearing};
use uext4::format::Feature;
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount, Repair};

/// Of this many cuts e2fsck judges one.
const SAMPLE: usize = 7;

/// What a crash may leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// A recovery leaves nothing to repair.
    Clean,
    /// All files, and what e2fsck repairs: without a journal at the time, and in files of reserved
    /// inodes.
    Files,
}

/// The first step of the life that can be cut, with all its writes; `None` if there is no such.
fn record(life: &mut Life, flushes: Flushes) -> Option<(Step, CrashLog)> {
    for _ in 0..20 {
        let step = life.draw();
        // Without a journal a crash of a mount may lose files.
        let is_at_rest = matches!(
            step,
            Step::Grow(_) | Step::Shrink(_) | Step::Reseal(_) | Step::InodeSize(_)
        );
        let is_safe = has_journal(life.image()) || is_at_rest;
        if matches!(step, Step::Use | Step::Shared(_)) || life.image().journal.is_some() || !is_safe
        {
            continue;
        }
        let copy = Arc::new(life.image().main.snapshot());
        let recorder = Arc::new(Recorder::new(copy));
        let device: Arc<dyn BlockDevice> = match flushes {
            Flushes::Heeded => recorder.clone(),
            Flushes::Ignored => Arc::new(Careless(recorder.clone())),
        };
        if step.take(device, life.image()).expect("a step") {
            let mut log = recorder.log();
            // The superblock has two sectors, which its checksum or the log holds together.
            log.keep_whole(1024..2048);
            return Some((step, log));
        }
    }
    None
}

fn has_journal(image: &Image) -> bool {
    let disk = uext4::read_superblock(&*image.main, None).expect("a superblock");
    disk.features().has(Feature::HAS_JOURNAL)
}

fn promise(image: &Image, step: &Step) -> Promise {
    match has_journal(image) && !matches!(step, Step::Journal(_) | Step::Quota(_)) {
        true => Promise::Clean,
        false => Promise::Files,
    }
}

fn tree_is(life: &Life, image: &Image) -> Result<()> {
    let fs = image.mount().context("mount")?;
    let found = Manifest::of(&EngineTarget::new(&fs)).context("tree")?;
    fs.unmount().context("unmount")?;
    let differences = life.tree().diff(&found, &Policy::default());
    ensure!(differences.is_empty(), "{differences:?}");
    Ok(())
}

fn judge(
    life: &Life,
    image: &Image,
    (step, promise): (&Step, Promise),
    is_sample: bool,
) -> Result<()> {
    if promise == Promise::Files {
        // Where e2fsck 1.47 removes an orphan file, its first run leaves the bit of the inode.
        return tree_is(life, &repaired(image, &[Repair::Everything; 2])?);
    }
    if is_sample {
        // Safe repairs only: open files and the state of the orphan file are what a crash leaves.
        tree_is(life, &repaired(image, &[Repair::Preen])?).context("after e2fsck -p")?;
        if life.has_kernel() && KernelMount::is_available() {
            kernel_recovers(life, image, step)?;
        }
    }
    tree_is(life, image)?;
    let limits = uext4::check::Limits::default();
    let report = uext4::check::check(image.main.clone(), image.options(), &limits)?;
    ensure!(report.is_clean(), "{report:?}");
    Ok(())
}

/// Whether Linux replays the log and has the tree. Its first mount may fail, because it reads
/// features and sizes once, before the replay. A change of the size of descriptors keeps it out
/// until uext4 has recovered.
fn kernel_recovers(life: &Life, image: &Image, step: &Step) -> Result<()> {
    let (_dir, path) = crate::image::on_disk(&image.main);
    let mounted = match KernelMount::new(&path, "") {
        Err(_) if matches!(step, Step::DescriptorSize(_)) => crash::let_in(&path),
        Err(_) => KernelMount::new(&path, ""),
        mounted => mounted,
    };
    let mounted = mounted.context("the kernel's second mount")?;
    let found = Manifest::of_dir(mounted.path())?;
    mounted.unmount()?;
    let differences = life.tree().diff(&found, &Policy::default());
    ensure!(differences.is_empty(), "kernel: {differences:?}");
    Ok(())
}

/// What e2fsck makes of it.
fn repaired(image: &Image, repairs: &[Repair]) -> Result<Image> {
    let (_dir, path) = crate::image::on_disk(&image.main);
    for repair in repairs {
        let repaired = oracle::e2fsck_repair(&path, *repair)?;
        ensure!(repaired.is_repaired(), "{repair:?}: {repaired}");
    }
    let verdict = oracle::e2fsck(&path)?;
    ensure!(verdict.is_clean(), "after {repairs:?}: {verdict}");
    let bytes = std::fs::read(&path)?;
    Ok(copy_of(image, Arc::new(MemDevice::from_bytes(&bytes))))
}

fn copy_of(image: &Image, main: Arc<MemDevice>) -> Image {
    Image {
        kind: image.kind,
        main,
        journal: None,
    }
}

/// Judges all cuts of one step of the life of `seed`; returns what failed first.
pub(super) fn first_failure(seed: u64, flushes: Flushes) -> Option<String> {
    let mut life = Life::begin(seed);
    let (step, mut log) = record(&mut life, flushes)?;
    let promise = promise(life.image(), &step);
    for cut in 0..=log.len() {
        let some = Survivors::Seeded {
            seed: cut as u64,
            tearing: Tearing::Sectors,
        };
        let is_sample = cut % SAMPLE == 0;
        if promise == Promise::Files && !is_sample {
            continue;
        }
        let judged = (&step, promise);
        for survivors in [Survivors::All, Survivors::None, some] {
            let image = copy_of(life.image(), Arc::new(log.image(cut, survivors)));
            if let Err(error) = judge(&life, &image, judged, is_sample && survivors == some) {
                let kind = life.kind_name();
                return Some(format!(
                    "{kind}, {step:?}, cut {cut}, {survivors:?}: {error:#}"
                ));
            }
        }
    }
    None
}
