//! Durable files of 4 KiB, as in fs_mark: files per second, and for the library the share of time
//! of checkpoint bookkeeping.

use super::{FILES, Plan, key};
use crate::backing::Backing;
use crate::base_lines::of_names;
use crate::cleanup::Cleanup;
use crate::collection::{Collection, Sample};
use crate::experiments::{Clock, Experiment, Task, Unit};
use crate::measure::of_system;
use crate::stage::{Setup, Stage, WorkerAccess};
use crate::system::{self, System};
use crate::workers::{self, Done};
use anyhow::Result;

/// Backing image of the file systems, with its cleanup process.
pub(super) struct Fixture {
    backing: Backing,
    cleanup: Cleanup,
}

impl Fixture {
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        let mut cleanup = Cleanup::start()?;
        let backing = Backing::new(plan.image_mib, plan.journal_mib)?;
        cleanup.watch(backing.dir())?;
        Ok(Self { backing, cleanup })
    }

    /// Runs all systems with all numbers of workers, once.
    pub(super) fn run(&mut self, plan: &Plan, all: &mut Collection) -> Result<()> {
        for &workers in plan.workers.iter().filter(|workers| **workers > 0) {
            for system in system::present(&plan.systems) {
                for (variant, base_lines) in FILES {
                    if base_lines.is_empty() || system == System::Uext4 {
                        let samples = self.one(plan, system, base_lines, workers)?;
                        all.add(&key(system, variant, workers), samples);
                    }
                }
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        plan: &Plan,
        system: System,
        base_lines: &[&str],
        workers: u32,
    ) -> Result<Vec<Sample>> {
        let setup = Setup {
            options: of_system(system, &plan.mount_options),
            base_lines: of_names(base_lines),
            ..Setup::default()
        };
        let stage = Stage::prepare(system, &self.backing, &setup, &mut self.cleanup)?;
        let tasks: Vec<Task> = (0..workers)
            .map(|worker| Task {
                experiment: Experiment::Fsync,
                variant: "create".to_owned(),
                worker,
                workers,
                count: plan.files.div_ceil(workers.into()),
                seconds: 0.0,
                image_mib: plan.image_mib,
                journal_mib: plan.journal_mib,
                clock: Clock::Wall,
            })
            .collect();
        let place = stage.access();
        let done = workers::work(&place, &tasks);
        let share_ns = match &place {
            WorkerAccess::Library(filesystem) => Some(filesystem.stats().journal.bookkeeping_ns),
            WorkerAccess::Directory(_) => None,
        };
        drop(place);
        let torn_down = stage.tear_down();
        let done: Vec<Done> = done?.into_iter().flatten().collect();
        torn_down?;
        let files: u64 = done.iter().map(|one| one.amount).sum();
        let taken = workers::taken(Clock::Wall, &done);
        let seconds = taken.as_secs_f64().max(1e-9);
        let rate = files as f64 / seconds;
        let mut samples = vec![Sample::new("files", Unit::PerSecond, rate)];
        samples.extend(share_ns.map(|ns| {
            let percent = ns as f64 / 1e9 / seconds * 100.0;
            Sample::new("time in bookkeeping", Unit::Percent, percent)
        }));
        Ok(samples)
    }
}
