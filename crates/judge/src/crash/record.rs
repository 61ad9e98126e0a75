//! Runs a workload on a recording device.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use uext4::{FallocateMode, Filesystem, MountOptions, Threads};
use uext4_sync::{ManualClock, WallTime};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Errno, Op};
use uext4_testkit::rng::Rng;

use super::config::Config;
use super::disk::Recorders;
use super::event_log::EventLog;
use super::held::OpenFiles;
use super::history::History;
use super::plot::Plot;
use super::step::{self, Step};
use super::workload::Workload;

/// Directory of the filler files; no step uses it.
pub(super) const FILLER: &str = "filler";
const FILLERS: u64 = 6;
/// Bytes of a name or value shown in a report.
const SHOWN_BYTES: usize = 40;
/// Start of a run's clock, in seconds since 1970.
const START_SECONDS: i64 = 1_500_000_000;

/// Parameters of a run; equal parameters give byte-identical runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Kind of file system.
    pub config: Config,
    /// A fixed workload instead of a random one.
    pub plot: Option<Plot>,
    /// Seed of the workload; equal seeds give equal steps.
    pub seed: u64,
    /// Steps before the recording starts.
    pub warm_up: usize,
    /// Number of recorded steps.
    pub steps: usize,
}

impl Run {
    /// The run of a seed. Every fourth starts on a fresh file system and includes its first mount.
    pub fn of(config: Config, seed: u64, steps: usize) -> Self {
        let warm_up = [0, 250, 80, 150][(seed % 4) as usize];
        Self {
            config,
            plot: None,
            seed,
            warm_up,
            steps,
        }
    }

    /// The run of a plot; the seed varies it.
    pub fn of_plot(config: Config, plot: Plot, seed: u64) -> Self {
        Self {
            config,
            plot: Some(plot),
            seed,
            warm_up: 0,
            steps: 0,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config,
            plot,
            seed,
            warm_up,
            steps,
        } = self;
        let plot = plot.map_or(String::new(), |plot| format!("+{}", plot.name()));
        write!(f, "{}{plot},{seed},{warm_up},{steps}", config.name)
    }
}

/// A run that can be cut anywhere. Marks in its log: twice the step number at the begin of a step,
/// plus one at its return.
pub struct Recording {
    pub(super) run: Run,
    pub(super) event_log: EventLog,
    pub(super) history: History,
    /// The kinds of recorded steps that succeeded.
    pub done: BTreeSet<String>,
    /// Fast commits since the mount.
    pub fast_commits: u64,
}

pub(super) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(WallTime {
        seconds: START_SECONDS,
        nanoseconds: 0,
    }))
}

/// Mount options under which equal steps give equal writes.
pub(super) fn options(clock: Arc<ManualClock>) -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        seed: Some(1),
        no_atime: true,
        delalloc: Some(false),
        clock,
        ..MountOptions::default()
    }
}

/// Runs a workload and records it.
///
/// # Errors
/// The engine's errno differs from the model's.
pub fn record(run: Run) -> Result<Recording> {
    let disk = run.config.make()?;
    let recorders = Recorders::new(&disk);
    let clock = clock();
    let fs = recorders.mount(run.config.mounted(options(clock.clone())))?;
    let mut player = Player::new(run, fs, recorders, clock);
    player.fill()?;
    player.first_part()?;
    if player.history.last() > 0 {
        player.take(&Step::Sync)?;
        player.recorders.restart();
        player.done.clear();
        player.mark(player.history.last() as u64 * 2 + 1);
    }
    player.second_part()?;
    let fast_commits = player.fs.stats().fast_commits.commits;
    player.take(&Step::Unmount)?;
    Ok(Recording {
        run,
        event_log: EventLog::of(&player.recorders),
        history: player.history,
        done: player.done,
        fast_commits,
    })
}

struct Player {
    run: Run,
    fs: Filesystem,
    recorders: Recorders,
    clock: Arc<ManualClock>,
    rng: Rng,
    workload: Workload,
    model: Model,
    held: OpenFiles,
    history: History,
    done: BTreeSet<String>,
    /// Whether the last step succeeded.
    succeeded: bool,
}

impl Player {
    fn new(run: Run, fs: Filesystem, recorders: Recorders, clock: Arc<ManualClock>) -> Self {
        let model = Model::new();
        Self {
            run,
            fs,
            recorders,
            clock,
            rng: Rng::new(run.seed).fork(2),
            workload: Workload::new(run.seed, run.config),
            history: History::new(&model, &run.config),
            model,
            held: OpenFiles::default(),
            done: BTreeSet::new(),
            succeeded: true,
        }
    }

    fn first_part(&mut self) -> Result<()> {
        match self.run.plot {
            Some(plot) => self.follow(plot.before(&self.run.config, self.run.seed)),
            None => (0..self.run.warm_up).try_for_each(|_| self.step()),
        }
    }

    fn second_part(&mut self) -> Result<()> {
        match self.run.plot {
            Some(plot) => self.follow(plot.recorded(&self.run.config, self.run.seed)),
            None => (0..self.run.steps).try_for_each(|_| self.step()),
        }
    }

    /// Runs a plot; every step must succeed.
    fn follow(&mut self, steps: Vec<Step>) -> Result<()> {
        for step in steps {
            if self.run.plot.is_some_and(Plot::takes_time) {
                self.clock.advance(Duration::from_millis(20));
            }
            self.take(&step)?;
            ensure!(self.succeeded, "{} fails", short(&step));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let millis = self.rng.below(1500);
        self.clock.advance(Duration::from_millis(millis));
        let step = self.workload.draw(&self.model);
        self.take(&step)
    }

    fn mark(&self, label: u64) {
        self.recorders.main.mark(label);
    }

    fn take(&mut self, step: &Step) -> Result<()> {
        let number = self.history.last() as u64 + 1;
        self.mark(number * 2);
        let found = step::run(step, &self.fs, &mut self.held);
        if found == Err(Errno::ENOSPC) && self.may_be_full(step) {
            step::expect_part(step, &self.fs, &mut self.model, &mut self.held)?;
        } else {
            let expected = step::expect(step, &mut self.model, &mut self.held);
            ensure!(
                expected == found,
                "step {number} {} answers {found:?}, the model says {expected:?}",
                short(step)
            );
        }
        self.mark(number * 2 + 1);
        self.succeeded = found.is_ok();
        if found.is_ok() {
            self.done.insert(step.kind());
        }
        let text = match found {
            Ok(()) => format!("{number}: {}", short(step)),
            Err(errno) => format!("{number}: errno {} from {}", errno.0, short(step)),
        };
        let done = (step, found.is_ok());
        self.history.push(done, &self.model, &mut self.held, text);
        Ok(())
    }

    /// Whether "no space" is a valid answer; for attributes it is one in any file system.
    fn may_be_full(&self, step: &Step) -> bool {
        let attribute = matches!(step, Step::Op(Op::SetXattr { .. }) | Step::SetAcl { .. });
        attribute || self.run.config.full_percent > 0
    }

    /// Fills space with files of size 0.
    fn fill(&mut self) -> Result<()> {
        let percent = self.run.config.full_percent;
        if percent == 0 {
            return Ok(());
        }
        self.take(&Step::Op(Op::Mkdir {
            path: FILLER.into(),
            mode: 0o700,
        }))?;
        for n in 0..FILLERS {
            let path = format!("{FILLER}/{n}").into_bytes();
            self.take(&Step::Op(Op::Create {
                path: path.clone(),
                mode: 0o600,
            }))?;
            let space = self.fs.statfs();
            let left = space.blocks * (100 - percent) / 100;
            let take = space.blocks_free.saturating_sub(left) / (FILLERS - n);
            self.take(&Step::Fallocate {
                path,
                mode: FallocateMode::AllocateKeepSize,
                offset: 0,
                len: (take * u64::from(self.run.config.block_size)).max(1),
            })?;
        }
        Ok(())
    }
}

/// The step with its byte lists as text, truncated.
fn short(step: &Step) -> String {
    let debug = format!("{step:?}");
    let mut text = String::new();
    let mut rest = debug.as_str();
    while let Some((before, after)) = rest.split_once('[') {
        let (list, behind) = after.split_once(']').unwrap_or((after, ""));
        let bytes: Vec<u8> = list
            .split(", ")
            .filter_map(|byte| byte.parse().ok())
            .collect();
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
        text += &format!("{before}\"{}\"", shown.escape_ascii());
        if shown.len() < bytes.len() {
            text += &format!("... {} bytes", bytes.len());
        }
        rest = behind;
    }
    text + rest
}
