//! Runs all crashes of one recording, recovered and checked by several workers in parallel, since
//! mounts of the kernel mostly wait.

use std::ops::RangeInclusive;
use std::thread;

use anyhow::{Context, Result, ensure};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Clock, RealClock};
use uext4_testkit::manifest::{Field, FileKind, Manifest, Policy};
use uext4_testkit::rng::Rng;

use super::case::{Case, Survivors};
use super::config::Config;
use super::disk::Disk;
use super::effort::{Effort, Figures};
use super::event_log::EventLog;
use super::extents;
use super::record::Recording;
use super::recover::{Scratch, by_us, no_panic, recorded};
use super::verdict::{self, Window};
use crate::EngineTarget;

const WORKERS: usize = 3;

/// Checks the crashes of one recording.
pub struct Judge {
    recording: Recording,
    /// Sum of the results so far.
    pub figures: Figures,
}

/// One crash, with the checks to run.
#[derive(Clone, Copy)]
struct Task {
    cut: usize,
    survivors: Survivors,
    check: bool,
    e2fsck: bool,
    kernel: bool,
    twice: bool,
}

impl Judge {
    /// A judge of the crashes of `recording`, with no results yet.
    pub fn new(recording: Recording) -> Self {
        Self {
            recording,
            figures: Figures::default(),
        }
    }

    /// Runs crashes at every cut.
    ///
    /// # Errors
    /// A crash that violates a promise, with the text of its case.
    pub fn all(&mut self, effort: &Effort) -> Result<()> {
        self.figures.fast_commits += self.recording.fast_commits;
        let tasks = self.tasks(effort);
        let share = tasks.len().div_ceil(WORKERS).max(1);
        let (recording, stop) = (&self.recording, AtomicBool::new(false));
        let answers: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = tasks
                .chunks(share)
                .map(|tasks| {
                    let mut worker = Worker::new(recording);
                    let stop = &stop;
                    scope.spawn(move || (worker.run(tasks, stop), worker.figures))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join()).collect()
        });
        let mut first = Ok(());
        for answer in answers {
            let (result, figures) = answer.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            self.figures += figures;
            first = first.and(result);
        }
        first
    }

    /// Runs one crash with every check.
    ///
    /// # Errors
    /// As [`Judge::all`].
    pub(super) fn one(&mut self, cut: usize, survivors: Survivors) -> Result<()> {
        let mut worker = Worker::new(&self.recording);
        let result = worker.one(&Task {
            cut,
            survivors,
            check: true,
            e2fsck: true,
            kernel: true,
            twice: true,
        });
        self.figures += worker.figures;
        result
    }

    fn tasks(&mut self, effort: &Effort) -> Vec<Task> {
        let mut rng = Rng::new(self.recording.run.seed).fork(3);
        let mut tasks = Vec::new();
        for cut in self.recording.event_log.cuts() {
            if rng.below(effort.cut) != 0 {
                continue;
            }
            self.figures.cuts += 1;
            self.figures.inside += u64::from(is_inside(&self.recording, cut));
            let seed = rng.below(1 << 32);
            // With at most one pending change some choices coincide.
            let all = [
                Survivors::All,
                Survivors::None,
                Survivors::Whole(seed),
                Survivors::Torn(seed),
            ];
            let survivors = match self.recording.event_log.pending(cut) {
                0 => &all[..1],
                1 => &all[..2],
                _ => &all[..],
            };
            tasks.extend(survivors.iter().map(|survivors| Task {
                cut,
                survivors: *survivors,
                check: rng.below(effort.check) == 0,
                e2fsck: rng.below(effort.e2fsck) == 0,
                kernel: rng.below(effort.kernel) == 0,
                twice: rng.below(effort.twice) == 0,
            }));
        }
        tasks
    }
}

struct Worker<'a> {
    recording: &'a Recording,
    event_log: EventLog,
    scratch: Scratch,
    figures: Figures,
}

impl<'a> Worker<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            event_log: recording.event_log.clone(),
            scratch: Scratch::new(recording.run.config),
            figures: Figures::default(),
        }
    }

    fn run(&mut self, tasks: &[Task], stop: &AtomicBool) -> Result<()> {
        for task in tasks {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let result = self.one(task);
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
                return result;
            }
        }
        Ok(())
    }

    fn one(&mut self, task: &Task) -> Result<()> {
        let case = Case {
            run: self.recording.run,
            cut: task.cut,
            survivors: task.survivors,
        };
        self.judge(task).with_context(|| {
            format!(
                "crash {case}\nrepeat it with: UEXT4_CRASH_CASE='{case}' \
                 cargo test -p uext4-judge --test crash the_case -- --nocapture"
            )
        })
    }

    fn judge(&mut self, task: &Task) -> Result<()> {
        let image = self.event_log.image(task.cut, task.survivors.for_device());
        let window = window(self.recording, task.cut);
        let config = self.recording.run.config;
        let tree = self.recover(image.snapshot(), window, task.check)?;
        if task.e2fsck {
            match self.scratch.by_e2fsck(&image)? {
                Some(other) => {
                    same(&config, &tree, &other).context("e2fsck -p recovers another tree")?;
                    self.figures.by_e2fsck += 1;
                }
                None => self.figures.refused += 1,
            }
        }
        if task.kernel && self.scratch.has_kernel() {
            let now = || RealClock::new().wall().seconds;
            let since = now();
            let mut other = self.scratch.by_kernel(&image)?;
            forget_cuts(&mut other, &tree, since..=now());
            same(&config, &tree, &other).context("the kernel recovers another tree")?;
            self.figures.by_kernel += 1;
        }
        if task.twice {
            self.twice(&image, window)?;
        }
        Ok(())
    }

    /// Recovers `image` with our engine and checks the tree.
    fn recover(&mut self, image: Disk, window: Window, check: bool) -> Result<Manifest> {
        let recovered = by_us(&self.recording.run.config, image)?;
        let source = EngineTarget::new(&recovered.fs);
        let found = verdict::judge(&self.recording.history, window, &recovered.tree, &source)?;
        extents::end_with_their_files(&recovered.fs, &recovered.tree)?;
        self.figures.older += u64::from(found < window.begun);
        self.figures.images += 1;
        no_panic("our unmount", || {
            recovered.fs.unmount().context("our unmount")
        })?;
        if check {
            self.scratch.check(&recovered.disk, "our recovery")?;
            self.figures.checked += 1;
        }
        Ok(recovered.tree)
    }

    /// Crashes at every write of our recovery, and recovers again.
    fn twice(&mut self, image: &Disk, window: Window) -> Result<()> {
        let config = self.recording.run.config;
        let mut event_log = no_panic("our recovery", || recorded(&config, image.snapshot()))?;
        for cut in event_log.cuts() {
            for survivors in [Survivors::All, Survivors::None, Survivors::Torn(cut as u64)] {
                let image = event_log.image(cut, survivors.for_device());
                let check = survivors == Survivors::None;
                self.recover(image, window, check)
                    .with_context(|| format!("second crash at {cut}, {survivors}"))?;
                self.figures.twice += 1;
            }
        }
        Ok(())
    }
}

/// Whether `cut` is in the middle of an operation after one of its transactions has ended.
fn is_inside(recording: &Recording, cut: usize) -> bool {
    let label = recording.event_log.last_mark(cut).unwrap_or(1);
    let commits = recording.history.commits((label / 2) as usize);
    // A flush and a durable write make a commit durable.
    label.is_multiple_of(2) && !commits && recording.event_log.flushes_since_mark(cut) >= 2
}

/// The states allowed after a crash at `cut`.
pub(super) fn window(recording: &Recording, cut: usize) -> Window {
    let last = recording.event_log.last_mark(cut).unwrap_or(0);
    let begun = (last / 2) as usize;
    let returned = if last % 2 == 1 {
        begun
    } else {
        begun.saturating_sub(1)
    };
    Window {
        floor: recording.history.floor(returned),
        begun,
        returned,
        data_may_wait: recording.run.config.data_may_be_older(),
    }
}

/// A truncate finished by the kernel sets a new mtime, within `seconds`; e2fsck and we keep the
/// original one. Replaces the former by the latter.
fn forget_cuts(kernels: &mut Manifest, ours: &Manifest, seconds: RangeInclusive<i64>) {
    for (path, entry) in &mut kernels.entries {
        let is_dated = entry.kind == FileKind::File && seconds.contains(&entry.mtime.seconds);
        if let Some(ours) = ours.entries.get(path).filter(|_| is_dated) {
            entry.mtime = ours.mtime;
        }
    }
}

/// Two recoveries of one image give the same tree. Fast commits do not record the times of
/// directories.
pub(super) fn same(config: &Config, ours: &Manifest, other: &Manifest) -> Result<()> {
    let policy = if config.has_fast_commits() {
        Policy::default().ignore(Field::DirectoryMtime)
    } else {
        Policy::default().check(Field::DirectoryMtime)
    };
    let differences = ours.diff(other, &policy);
    let shown: Vec<_> = differences
        .iter()
        .take(8)
        .map(ToString::to_string)
        .collect();
    ensure!(differences.is_empty(), "{}", shown.join("; "));
    Ok(())
}
