//! One variant with one number of workers.

use super::canary;
use super::device::TimedDevice;
use super::load::Load;
use super::machines::Host;
use super::operations;
use super::plan::Plan;
use super::schedule::{Done, Schedule, Work};
use crate::client::LibraryClient;
use crate::experiments::{self, Clock, Phase, Task, Unit};
use anyhow::{Context, Result, anyhow};
use std::sync::Arc;
use std::time::Duration;
use uext4::mkfs::{self, JournalSize, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_device::MemDevice;
use uext4_sync::simulation::{self, AccessCounts};

/// One variant with one number of workers on a simulated machine.
pub(super) struct Case<'a> {
    plan: &'a Plan,
    load: Load,
    variant: &'static str,
    host: &'a Host,
    workers: u32,
}

/// Result of one phase.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) metric: String,
    pub(super) workers: u32,
    /// Operations of all workers, or bytes.
    pub(super) amount: u64,
    /// Operations per second of all workers, or 10^6 bytes.
    pub(super) total: f64,
    /// Time of all workers together, in picoseconds.
    pub(super) time_ps: u64,
    pub(super) report: AccessCounts,
    /// Times of single calls of all workers, ascending.
    pub(super) latencies: Vec<Duration>,
    /// Accesses of all workers together.
    accesses: u64,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        load: Load,
        variant: &'static str,
        host: &'a Host,
        workers: u32,
    ) -> Self {
        Self {
            plan,
            load,
            variant,
            host,
            workers,
        }
    }

    /// Equal for all numbers of workers.
    fn image_mib(&self) -> u64 {
        let workers = self.plan.workers.iter().copied().max().unwrap_or(1);
        self.plan
            .image_mib
            .unwrap_or_else(|| self.load.image_mib(workers))
    }

    fn count(&self) -> u64 {
        self.plan.count.unwrap_or(self.load.count)
    }

    pub(super) fn phases(&self) -> Vec<Phase> {
        self.load.phases(self.count(), self.workers)
    }

    /// Work between two accesses in each phase, in picoseconds, such that one worker takes the
    /// measured time of its operations. Background threads work, too, and the worker may wait for
    /// them, so the second run measures what the work of the first one adds.
    pub(super) fn work_per_access(&self) -> Result<Vec<Work>> {
        let none = vec![Work::NONE; self.phases().len()];
        let without = self.run(&none)?;
        let goals = without
            .iter()
            .map(|one| self.goal_ps(one))
            .collect::<Result<Vec<_>>>()?;
        let left = |(one, goal): (&Outcome, &f64)| (goal - self.each_ps(one)).max(0.0);
        let left: Vec<f64> = without.iter().zip(&goals).map(left).collect();
        let first: Vec<f64> = without
            .iter()
            .zip(&left)
            .map(|(one, left)| left * self.operations(one) / one.accesses as f64)
            .collect();
        let rounded = without
            .iter()
            .zip(&first)
            .map(|(outcome, ps)| self.work(outcome, *ps))
            .collect::<Result<Vec<_>>>()?;
        let with = self.run(&rounded)?;
        Ok((0..left.len())
            .map(|index| {
                let added = self.each_ps(&with[index]) - self.each_ps(&without[index]);
                if added > 0.0 {
                    Work {
                        ps: (first[index] * left[index] / added) as u64,
                        ..rounded[index]
                    }
                } else {
                    rounded[index]
                }
            })
            .collect())
    }

    /// The work of a phase that took `ps` picoseconds.
    fn work(&self, outcome: &Outcome, ps: f64) -> Result<Work> {
        let variant = self.load.measured_variant(self.variant);
        let scale = operations::busy_scale(&self.plan.experiment, variant, &outcome.metric)?;
        Ok(Work {
            ps: ps as u64,
            busy_scale: scale,
        })
    }

    /// Measured time of an operation.
    fn goal_ps(&self, outcome: &Outcome) -> Result<f64> {
        let variant = self.load.measured_variant(self.variant);
        operations::time_ps(&self.plan.experiment, variant, &outcome.metric)
    }

    fn operations(&self, outcome: &Outcome) -> f64 {
        (outcome.amount / self.load.unit_of(&outcome.metric)).max(1) as f64
    }

    /// Simulated time of an operation.
    fn each_ps(&self, outcome: &Outcome) -> f64 {
        outcome.time_ps as f64 / self.operations(outcome)
    }

    /// Runs all phases with this work between two accesses.
    pub(super) fn run(&self, work: &[Work]) -> Result<Vec<Outcome>> {
        let image = self.image()?;
        let setup = self.load.setup(self.variant)?;
        let mut options = MountOptions::default().parse(&setup.options)?;
        options.base_lines = setup.base_lines;
        // Workers take the cores of the machine in turn, so background threads find idle ones
        // while there are fewer workers than cores.
        let cores = self.host.cores.max(self.workers as usize);
        simulation::run(&self.host.machine, cores, || {
            let filesystem = Arc::new(Filesystem::mount(Arc::new(image), options)?);
            let outcomes = self.schedule(&filesystem, work);
            let filesystem = Arc::into_inner(filesystem);
            filesystem
                .context("a worker still uses the file system")?
                .unmount()?;
            outcomes
        })
    }

    fn image(&self) -> Result<TimedDevice> {
        let device = MemDevice::new(self.image_mib() << 20);
        let setup = self.load.setup(self.variant)?;
        let mut options = MkfsOptions {
            journal: JournalSize::Mib(u32::try_from(self.plan.journal_mib)?),
            // Fixed, so that runs repeat.
            uuid: Some([0x5a; 16]),
            hash_seed: Some([0xa5; 16]),
            time: Some(1_700_000_000),
            ..MkfsOptions::new(Preset::Ext4)
        };
        options
            .features
            .apply_list(&setup.features)
            .map_err(|e| anyhow!("{e:?}"))?;
        mkfs::format(&device, &options)?;
        Ok(TimedDevice::new(
            device,
            self.plan.latency_us,
            self.plan.megabytes_per_second,
        ))
    }

    fn schedule(&self, filesystem: &Arc<Filesystem>, work: &[Work]) -> Result<Vec<Outcome>> {
        let schedule = Arc::new(Schedule::new(self.workers as usize));
        let threads: Vec<_> = (0..self.workers)
            .map(|worker| {
                let (filesystem, make) = (filesystem.clone(), self.maker());
                schedule.start(self.task(worker), move |task| make(filesystem, task))
            })
            .collect();
        let outcomes = self.outcomes(&schedule, work);
        schedule.end();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a worker panicked"))?;
        }
        outcomes
    }

    fn maker(
        &self,
    ) -> impl FnOnce(Arc<Filesystem>, Task) -> Result<Box<dyn experiments::Work>> + use<> {
        let is_canary = self.variant == canary::CANARY;
        move |filesystem, task| {
            if is_canary {
                canary::start(&filesystem, &task)
            } else {
                task.start(Box::new(LibraryClient::new(filesystem)?))
            }
        }
    }

    fn task(&self, worker: u32) -> Task {
        Task {
            experiment: self.load.experiment,
            variant: self.variant.to_owned(),
            worker,
            workers: self.workers,
            count: self.count(),
            seconds: self.plan.seconds,
            image_mib: self.image_mib(),
            journal_mib: self.plan.journal_mib,
            clock: Clock::Wall,
        }
    }

    fn outcomes(&self, schedule: &Schedule, work: &[Work]) -> Result<Vec<Outcome>> {
        schedule.await_ready();
        for phase in 0..self.load.warm_ups {
            schedule.phase(phase, work.get(phase).copied().unwrap_or(Work::NONE))?;
        }
        self.phases()
            .into_iter()
            .zip(work)
            .enumerate()
            .map(|(index, (phase, work))| {
                let (done, report) = schedule.phase(index, *work)?;
                Ok(self.outcome(phase, &done, report))
            })
            .collect()
    }

    /// Workers of a timed phase end one after the other, so the sum of their rates counts; of the
    /// others all work on a given amount, until the last has done it.
    fn outcome(&self, phase: Phase, done: &[Done], report: AccessCounts) -> Outcome {
        let amount = done.iter().map(|one| one.amount).sum();
        let began = done.iter().map(|one| one.began).min().unwrap_or_default();
        let ended = done.iter().map(|one| one.ended).max().unwrap_or_default();
        let total: f64 = match self.count() {
            0 => done
                .iter()
                .map(|one| one.amount as f64 / seconds(one))
                .sum(),
            _ => amount as f64 / (ended - began).as_secs_f64(),
        };
        let is_bytes = phase.unit == Unit::MegabytesPerSecond;
        let time: f64 = done.iter().map(seconds).sum();
        let calls = done.iter().flat_map(|one| one.latencies.iter().copied());
        let mut latencies: Vec<Duration> = calls.collect();
        latencies.sort_unstable();
        Outcome {
            metric: phase.metric,
            workers: self.workers,
            amount,
            total: if is_bytes { total / 1e6 } else { total },
            time_ps: (time * 1e12) as u64,
            report,
            latencies,
            accesses: done.iter().map(|one| one.accesses).sum(),
        }
    }
}

fn seconds(one: &Done) -> f64 {
    (one.ended - one.began).as_secs_f64()
}
