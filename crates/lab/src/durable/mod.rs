//! Durable changes: rate, and what each fsync costs the block device.
//!
//! Layout: [`device`] is the loop device below every system; its counters in `/sys` are read before
//! and after the work, so that all systems are counted the same way. [`empty_flushes`] tells
//! flushes from writes; [`slow`] makes a device whose flushes take long; [`commits`] reads the
//! counters of the journals.

mod commits;
mod device;
mod empty_flushes;
mod slow;

use crate::backing::Backing;
use crate::cleanup::Cleanup;
use crate::collection::{Collection, Sample};
use crate::experiments::{Clock, Experiment, Task, Unit};
use crate::measure::{Key, Results, of_system, progress};
use crate::stage::{Setup, Stage};
use crate::system::{self, System};
use crate::workers::{self, Done};
use anyhow::{Context, Result, ensure};
use commits::Commits;
pub(crate) use device::DeviceKind;
use device::{Device, Traffic};
use empty_flushes::EmptyFlushes;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rings::RingsSwitch;

/// Commits of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Feature {
    /// Full commits only.
    Full,
    /// The feature `fast_commit`.
    Fast,
}

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) experiment: Experiment,
    pub(crate) variants: Vec<&'static str>,
    pub(crate) features: Vec<Feature>,
    pub(crate) devices: Vec<DeviceKind>,
    pub(crate) workers: Vec<u32>,
    pub(crate) systems: Vec<System>,
    pub(crate) seconds: f64,
    pub(crate) runs: u32,
    pub(crate) count: u64,
    pub(crate) image_mib: u64,
    pub(crate) journal_mib: u64,
    pub(crate) flush_us: u64,
    pub(crate) mount_options: String,
}

/// One system, with the transport of its requests if it is our mount.
type Peer = (System, Option<&'static str>);

#[derive(Clone, Copy)]
struct Case {
    device: DeviceKind,
    variant: &'static str,
    feature: Feature,
    workers: u32,
    peer: Peer,
}

/// Runs everything, systems in turn.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    ensure!(
        KernelMount::is_available(),
        "writes are counted at a loop device, which needs root and /dev/loop-control"
    );
    if plan.devices.contains(&DeviceKind::Slow) {
        slow::require()?;
    }
    let cases = cases(plan);
    ensure!(
        !cases.is_empty(),
        "nothing to run: no system of the list suits"
    );
    let mut cleanup = Cleanup::start()?;
    let backing = Backing::new(plan.image_mib, plan.journal_mib)?;
    cleanup.watch(backing.dir())?;
    let progress = progress(cases.len() as u64 * u64::from(plan.runs));
    let mut all = Collection::new(&progress);
    for _ in 0..plan.runs {
        for case in &cases {
            let key = case.key(plan);
            let what = format!("{} {} x{}", key.system.name(), key.variant, key.workers);
            progress.set_message(what.clone());
            let samples = case.run(plan, &backing, &mut cleanup).context(what)?;
            all.add(&key, samples);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(all.results(&plan.systems))
}

/// All measurements of one run; the systems of one comparison follow each other.
fn cases(plan: &Plan) -> Vec<Case> {
    let peers: Vec<Peer> = system::present(&plan.systems).flat_map(peers_of).collect();
    let mut cases = Vec::new();
    for &device in &plan.devices {
        for &variant in &plan.variants {
            for &workers in plan.workers.iter().filter(|workers| **workers > 0) {
                for &feature in &plan.features {
                    cases.extend(peers.iter().map(|&peer| Case {
                        device,
                        variant,
                        feature,
                        workers,
                        peer,
                    }));
                }
            }
        }
    }
    cases
}

fn peers_of(system: System) -> Vec<Peer> {
    match system {
        System::Uext4Mount if RingsSwitch::is_available() => {
            vec![(system, Some("io_uring")), (system, Some("dev_fuse"))]
        }
        System::Uext4Mount => vec![(system, Some("dev_fuse"))],
        // It has no journal.
        System::Fuse2fs => Vec::new(),
        _ => vec![(system, None)],
    }
}

impl Case {
    fn key(&self, plan: &Plan) -> Key {
        let words = [
            Some(self.variant),
            (self.feature == Feature::Fast).then_some("fast_commit"),
            (self.device == DeviceKind::Slow).then_some("slow"),
            self.peer.1,
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        Key {
            experiment: plan.experiment.name(),
            system: self.peer.0,
            variant: words.join(", ").into(),
            workers: self.workers,
        }
    }

    fn setup(&self, plan: &Plan) -> Setup {
        let transport = match self.peer.1 {
            Some("io_uring") => "io_uring",
            Some(_) => "no_io_uring",
            None => "",
        };
        let options = of_system(self.peer.0, &plan.mount_options);
        let options = [transport, &options].into_iter();
        let options: Vec<&str> = options.filter(|word| !word.is_empty()).collect();
        Setup {
            features: match self.feature {
                Feature::Full => "^fast_commit".to_owned(),
                Feature::Fast => "fast_commit".to_owned(),
            },
            options: options.join(","),
            ..Setup::default()
        }
    }

    fn run(&self, plan: &Plan, backing: &Backing, cleanup: &mut Cleanup) -> Result<Vec<Sample>> {
        let setup = self.setup(plan);
        backing.format(&setup.features)?;
        let device = Device::new(self.device, plan.flush_us, backing, cleanup)?;
        let place = device.path(self.peer.0)?;
        let stage = Stage::mount(self.peer.0, &place, backing.dir(), &setup, cleanup)?;
        let measured = self.measure(plan, &stage, &device);
        let torn_down = stage.tear_down();
        device.release()?;
        let measured = measured?;
        torn_down.map(|()| measured)
    }

    fn measure(&self, plan: &Plan, stage: &Stage, device: &Device) -> Result<Vec<Sample>> {
        let tasks: Vec<Task> = (0..self.workers)
            .map(|worker| Task {
                experiment: plan.experiment,
                variant: self.variant.to_owned(),
                worker,
                workers: self.workers,
                count: plan.count,
                seconds: plan.seconds,
                image_mib: plan.image_mib,
                journal_mib: plan.journal_mib,
                clock: Clock::Wall,
            })
            .collect();
        let disk = device.name(stage)?;
        let empty = EmptyFlushes::of(&disk)?;
        let mut seen = Vec::new();
        let done = workers::work_watched(&stage.access(), &tasks, &mut || {
            // The journal's counters are read outside of the span of the device's.
            let commits = || Commits::of(stage, &disk, self.feature);
            let before = seen.is_empty().then(commits).transpose()?;
            let traffic = Traffic::of(&disk, empty.as_ref())?;
            let commits = before.map_or_else(commits, Ok)?;
            seen.push((traffic, commits));
            Ok(())
        })?;
        let [(before, first), (after, last)] = &seen[..] else {
            anyhow::bail!("the work has one phase");
        };
        let done: Vec<Done> = done.into_iter().flatten().collect();
        let mut samples = rates(plan.experiment, &done, after.since(before));
        samples.extend(last.since(first).samples());
        Ok(samples)
    }
}

/// Rate of the operations, and traffic for each fsync.
fn rates(experiment: Experiment, done: &[Done], traffic: Traffic) -> Vec<Sample> {
    let units: u64 = done.iter().map(|one| one.amount).sum();
    let seconds = workers::taken(Clock::Wall, done).as_secs_f64().max(1e-9);
    let (operations, fsyncs) = experiment.operations();
    let fsyncs = (units * fsyncs).max(1) as f64;
    let kib = traffic.written_bytes as f64 / 1024.0;
    let per_fsync = |what: &str, amount: u64| {
        let metric = format!("{what} per fsync");
        Sample::new(metric, Unit::Count, amount as f64 / fsyncs)
    };
    let ops = (units * operations) as f64 / seconds;
    let mut samples = vec![
        Sample::new("ops", Unit::PerSecond, ops),
        Sample::new("written per fsync", Unit::MeanKibibytes, kib / fsyncs),
    ];
    samples.extend(traffic.writes().map(|writes| per_fsync("writes", writes)));
    samples.extend([
        per_fsync("flushes", traffic.flushes),
        per_fsync("requests", traffic.requests),
        Sample::new("written", Unit::Mebibytes, kib / 1024.0),
    ]);
    samples
}
