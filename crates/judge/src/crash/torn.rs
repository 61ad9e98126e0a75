//! Torn superblock: a crash leaves half of it new, half of it old.
//!
//! With a checksum in the superblock the format cannot survive this: the kernel and our engine
//! refuse such an image. The promise is that e2fsck finds a backup, replays the log and reaches a
//! tree that existed.

use anyhow::{Context, Result, bail, ensure};
use uext4::device::{BlockDevice, Change, Event, Survivors};
use uext4_testkit::manifest::Source;

use super::disk::Disk;
use super::judge::window;
use super::record::{Recording, Run, record};
use super::recover::{Scratch, by_us};
use super::verdict;
use crate::EngineTarget;

/// The two sectors of the superblock, in bytes.
const HALVES: [u64; 2] = [1024, 1536];
const SECTOR_BYTES: usize = 512;

/// What was checked, and how it came out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TornFigures {
    /// Images with a superblock half old and half new.
    pub images: u64,
    /// Images that our engine refused, and the kernel too where it can mount.
    pub refused: u64,
    /// Images that e2fsck repaired to a tree that existed.
    pub repaired: u64,
}

/// Tears every write of the superblock in a run.
///
/// # Errors
/// The kernel mounts an image that our engine refuses, or a recovered tree never existed.
pub fn run_torn_superblock(run: Run) -> Result<TornFigures> {
    let mut recording = record(run)?;
    let mut scratch = Scratch::new(run.config);
    let mut figures = TornFigures::default();
    for cut in 0..recording.event_log.len() {
        let Some(Event::Change { change, .. }) = recording.event_log.event(cut) else {
            continue;
        };
        if !covers_superblock(change) {
            continue;
        }
        for half in HALVES {
            let Some(image) = torn(&mut recording, cut + 1, half)? else {
                continue;
            };
            let result = judge(&recording, cut + 1, &image, &mut scratch, &mut figures);
            result.with_context(|| format!("run {run}, cut {cut}, torn at {half}"))?;
        }
    }
    Ok(figures)
}

fn covers_superblock(change: &Change) -> bool {
    match change {
        Change::Write { offset, bytes } => {
            *offset <= HALVES[0] && *offset + bytes.len() as u64 >= HALVES[1]
        }
        _ => false,
    }
}

/// The image at `cut` with all writes but one half of the superblock; `None` when that half is
/// unchanged.
fn torn(recording: &mut Recording, cut: usize, half: u64) -> Result<Option<Disk>> {
    let before = recording.event_log.image(cut - 1, Survivors::All);
    let image = recording.event_log.image(cut, Survivors::All);
    let (mut old, mut new) = ([0; SECTOR_BYTES], [0; SECTOR_BYTES]);
    before.main.read_at(half, &mut old)?;
    image.main.read_at(half, &mut new)?;
    image.main.write_at(half, &old)?;
    Ok((old != new).then_some(image))
}

fn judge(
    recording: &Recording,
    cut: usize,
    image: &Disk,
    scratch: &mut Scratch,
    figures: &mut TornFigures,
) -> Result<()> {
    figures.images += 1;
    let config = &recording.run.config;
    let window = window(recording, cut);
    let ours = by_us(config, image.snapshot());
    let kernel = scratch.has_kernel().then(|| scratch.by_kernel(image));
    match (&ours, kernel) {
        (Ok(ours), _) => {
            let source = EngineTarget::new(&ours.fs);
            verdict::judge(&recording.history, window, &ours.tree, &source)?;
            return Ok(());
        }
        (Err(ours), Some(Ok(_))) => bail!("the kernel mounts it, we do not: {ours:#}"),
        (Err(ours), _) => {
            let text = format!("{ours:#}");
            ensure!(text.contains("superblock"), "{text}");
            figures.refused += 1;
        }
    }
    let fs = scratch.by_repair(image)?;
    let source: &dyn Source = &EngineTarget::new(&fs.fs);
    verdict::judge(&recording.history, window, &fs.tree, source)?;
    figures.repaired += 1;
    Ok(())
}
