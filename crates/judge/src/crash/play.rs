//! Runs a workload over a recorder.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use uext4::device::{BlockDevice, CrashLog, MemDevice, Recorder};
use uext4::{Filesystem, MountOptions, Threads, mkfs};
use uext4_sync::{ManualClock, WallTime};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Errno, Op};
use uext4_testkit::rng::Rng;

use super::config::Config;
use super::history::History;
use super::step::{self, Held, Step};
use super::workload::Workload;

/// Errno of a full file system or inode.
const ENOSPC: Errno = Errno(28);
/// Bytes of a name or value that a report shows.
const SHOWN_BYTES: usize = 40;
/// Where the superblock is, which nobody survives torn: its checksum is looked at before the
/// journal is.
pub(super) const SUPERBLOCK_BYTES: std::ops::Range<u64> = 1024..2048;
/// When the clock of a run starts, in seconds since 1970.
const START_SECONDS: i64 = 1_500_000_000;

/// What makes a run; equal runs are equal to the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Kind of file system.
    pub config: Config,
    /// Seed of the workload.
    pub seed: u64,
    /// Steps before the recording starts.
    pub warm_up: usize,
    /// Recorded steps.
    pub steps: usize,
}

impl Run {
    /// The run of a seed. Every fourth starts on a fresh file system and sees its first mount.
    pub fn of(config: Config, seed: u64, steps: usize) -> Self {
        let warm_up = [0, 250, 80, 150][(seed % 4) as usize];
        Self {
            config,
            seed,
            warm_up,
            steps,
        }
    }
}

/// A run that can be cut anywhere. Marks in the log: twice the number of a step when it begins,
/// and one more when it returned.
pub struct Recording {
    pub(super) run: Run,
    pub(super) log: CrashLog,
    pub(super) history: History,
    /// The kinds of recorded steps that succeeded.
    pub done: BTreeSet<String>,
}

/// The clock of a run.
pub(super) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(WallTime {
        seconds: START_SECONDS,
        nanoseconds: 0,
    }))
}

/// Options of a mount that repeats.
pub(super) fn options(clock: Arc<ManualClock>) -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        seed: Some(1),
        no_atime: true,
        clock,
        ..MountOptions::default()
    }
}

/// A fresh file system of that kind.
///
/// # Errors
/// What mkfs answers.
pub(super) fn fresh(config: Config) -> Result<Arc<MemDevice>> {
    let device = Arc::new(MemDevice::new(config.size_bytes()));
    mkfs::format(&*device, &config.mkfs()).context("mkfs")?;
    Ok(device)
}

/// Runs a workload and records it.
///
/// # Errors
/// The engine answered another errno than the model.
pub fn play(run: Run) -> Result<Recording> {
    let recorder = Arc::new(Recorder::new(fresh(run.config)?));
    let clock = clock();
    let device: Arc<dyn BlockDevice> = recorder.clone();
    let fs = Filesystem::mount(device, options(clock.clone())).context("mount")?;
    let mut player = Player::new(run, fs, recorder, clock);
    for _ in 0..run.warm_up {
        player.step()?;
    }
    if run.warm_up > 0 {
        player.take(&Step::Sync)?;
        player.recorder.restart();
        player.done.clear();
        player.recorder.mark(player.history.last() as u64 * 2 + 1);
    }
    for _ in 0..run.steps {
        player.step()?;
    }
    player.take(&Step::Unmount)?;
    let mut log = player.recorder.log();
    log.keep_whole(SUPERBLOCK_BYTES);
    Ok(Recording {
        run,
        log,
        history: player.history,
        done: player.done,
    })
}

struct Player {
    fs: Filesystem,
    recorder: Arc<Recorder>,
    clock: Arc<ManualClock>,
    rng: Rng,
    workload: Workload,
    model: Model,
    held: Held,
    history: History,
    done: BTreeSet<String>,
}

impl Player {
    fn new(run: Run, fs: Filesystem, recorder: Arc<Recorder>, clock: Arc<ManualClock>) -> Self {
        let model = Model::new();
        Self {
            fs,
            recorder,
            clock,
            rng: Rng::new(run.seed).fork(2),
            workload: Workload::new(run.seed, run.config),
            history: History::new(&model),
            model,
            held: Held::default(),
            done: BTreeSet::new(),
        }
    }

    fn step(&mut self) -> Result<()> {
        let millis = self.rng.below(1500);
        self.clock.advance(Duration::from_millis(millis));
        let step = self.workload.draw(&self.model);
        self.take(&step)
    }

    fn take(&mut self, step: &Step) -> Result<()> {
        let number = self.history.last() as u64 + 1;
        self.recorder.mark(number * 2);
        let found = step::run(step, &self.fs, &mut self.held);
        if found != Err(ENOSPC) || !fails_whole(step) {
            let expected = step::expect(step, &mut self.model, &mut self.held);
            // Which of two reasons to fail is told first is the VFS's affair, not a crash's.
            ensure!(
                expected.is_ok() == found.is_ok(),
                "step {number} {} answers {found:?}, the model says {expected:?}",
                short(step)
            );
        }
        self.recorder.mark(number * 2 + 1);
        if found.is_ok() {
            self.done.insert(step.kind());
        }
        let text = match found {
            Ok(()) => format!("{number}: {}", short(step)),
            Err(errno) => format!("{number}: errno {} from {}", errno.0, short(step)),
        };
        self.history.push(step, found.is_ok(), &self.model, text);
        Ok(())
    }
}

/// A step that changes nothing when there is no room.
fn fails_whole(step: &Step) -> bool {
    matches!(step, Step::Op(Op::SetXattr { .. }) | Step::SetAcl { .. })
}

/// The step with its lists of bytes as text, cut where they are long.
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
