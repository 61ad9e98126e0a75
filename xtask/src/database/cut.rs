//! Selection of power cuts, and recovery after each.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use uext4::device::{CrashLog, Event, MemDevice, Survivors, Tearing};
use uext4::{Filesystem, MountOptions};
use uext4_testkit::oracle::{e2fsck, scratch_dir};
use uext4_testkit::rng::Rng;

use super::{Figures, Plan, writer};

/// Every n-th cut is checked by e2fsck, because e2fsck reads the whole image.
const CHECK_EVERY: u64 = 8;
/// Files that SQLite recovers from. The WAL index (`db-shm`) is only for running processes.
const FILES: [&str; 2] = ["db", "db-wal"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    nr: u64,
    at: usize,
    survivors: Survivors,
}

/// Even cuts follow a commit directly and lose all unflushed changes. Odd cuts are at random
/// events, and pending changes survive in full or in part. Cuts are in ascending order, because
/// replay of the log then only moves forward.
pub(super) fn choose(log: &CrashLog, plan: &Plan) -> Vec<Cut> {
    let mut rng = Rng::new(plan.seed).fork(u64::MAX);
    let events = log.events().iter().enumerate();
    let marks = events.filter(|(_, event)| matches!(event, Event::Mark(_)));
    let marks: Vec<usize> = marks.map(|(index, _)| index).collect();
    let mut cuts: Vec<Cut> = (0..plan.cuts)
        .map(|nr| match nr % 2 {
            0 => Cut {
                nr,
                at: rng.pick(&marks) + 1,
                survivors: Survivors::None,
            },
            _ => Cut {
                nr,
                at: rng.below(log.len() as u64 + 1) as usize,
                survivors: *rng.pick(&[Survivors::All, torn(nr), torn(plan.seed ^ nr)]),
            },
        })
        .collect();
    cuts.sort_by_key(|cut| cut.at);
    cuts
}

fn torn(seed: u64) -> Survivors {
    Survivors::Seeded {
        seed,
        tearing: Tearing::Sectors,
    }
}

impl Cut {
    /// Recovers the image and the database, and checks that no committed transaction is missing.
    pub(super) fn judge(self, log: &mut CrashLog, seed: u64, figures: &mut Figures) -> Result<()> {
        let promised = log.last_mark(self.at).unwrap_or(0);
        let image = Arc::new(log.image(self.at, self.survivors));
        let scratch = scratch_dir()?;
        recover(&image, scratch.path()).context("our recovery")?;
        let found = if scratch.path().join(FILES[0]).exists() {
            writer::judge(&scratch.path().join(FILES[0]), seed)?
        } else {
            0
        };
        ensure!(
            found >= promised,
            "{found} transactions of {promised} that were promised"
        );
        if self.nr.is_multiple_of(CHECK_EVERY) {
            let file = scratch.path().join("image");
            std::fs::write(&file, image.to_bytes())?;
            let verdict = e2fsck(&file)?;
            ensure!(verdict.is_clean(), "{verdict}");
            figures.checked += 1;
        }
        figures.cuts += 1;
        figures.found += found;
        figures.promised += promised;
        Ok(())
    }
}

/// Mounts the image and copies the files of the database into the directory.
fn recover(image: &Arc<MemDevice>, dir: &Path) -> Result<()> {
    let filesystem = Filesystem::mount(image.clone(), MountOptions::default())?;
    let paths = filesystem.paths();
    for name in FILES {
        let path = format!("/{name}");
        if paths.exists(&path)? {
            std::fs::write(dir.join(name), paths.read(&path)?)?;
        }
    }
    Ok(filesystem.unmount()?)
}
