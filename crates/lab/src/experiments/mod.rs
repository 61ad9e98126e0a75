//! The experiments, one module each.

mod apart;
mod append;
mod fallocate2;
mod fsync;
mod mdtest;
mod mount;
mod mount_create;
mod mount_io;
mod mount_names;
mod mount_tree;
mod parallel_write;
mod setup;
mod stress_orphan;
mod varmail;

pub(crate) use apart::of_variant;
pub(crate) use setup::{allocators, setup};

use crate::backing::BYTES_PER_INODE;
use crate::client::Client;
use crate::system::System;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

const IMAGE_MIB: u64 = 2048;

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Experiment {
    Mdtest,
    Fallocate2,
    Fsync,
    Mount,
    MountCreate,
    MountIo,
    Append,
    StressOrphan,
    MountNames,
    MountTree,
    ParallelWrite,
    Varmail,
}

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) experiment: Experiment,
    pub(crate) variants: Vec<&'static str>,
    pub(crate) workers: Vec<u32>,
    pub(crate) systems: Vec<System>,
    pub(crate) seconds: f64,
    pub(crate) runs: u32,
    pub(crate) count: u64,
    pub(crate) image_mib: u64,
    pub(crate) journal_mib: u64,
    pub(crate) mount_options: String,
    pub(crate) features: String,
    pub(crate) clock: Clock,
}

/// Clock that times the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Clock {
    /// Time that passes.
    Wall,
    /// CPU time of all workers together, in user and kernel mode: compares versions of one system,
    /// or numbers of workers, on a busy machine. It excludes the work of servers and background
    /// threads.
    Cpu,
}

/// One worker's part of one run; sent to worker processes as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) experiment: Experiment,
    pub(crate) variant: String,
    pub(crate) worker: u32,
    pub(crate) workers: u32,
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) image_mib: u64,
    pub(crate) journal_mib: u64,
    pub(crate) clock: Clock,
}

/// Unit of a phase's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Operations per second.
    PerSecond,
    /// 10^6 bytes per second; the phase counts bytes.
    MegabytesPerSecond,
    /// Milliseconds.
    Milliseconds,
    /// A plain number.
    Count,
    /// 2^20 bytes.
    Mebibytes,
    /// A plain number, averaged over the workers.
    Mean,
    /// 2^10 bytes, averaged over the workers.
    MeanKibibytes,
    Nanoseconds,
    Microseconds,
    /// Percent.
    Percent,
}

impl Unit {
    const ALL: [Self; 10] = [
        Self::PerSecond,
        Self::MegabytesPerSecond,
        Self::Milliseconds,
        Self::Count,
        Self::Mebibytes,
        Self::Mean,
        Self::MeanKibibytes,
        Self::Nanoseconds,
        Self::Microseconds,
        Self::Percent,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::Milliseconds => "ms",
            Self::Count => "",
            Self::Mebibytes => "MiB",
            Self::Mean => "mean",
            Self::MeanKibibytes => "KiB",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Percent => "%",
        }
    }

    /// Whether it counts per second.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Self::PerSecond | Self::MegabytesPerSecond)
    }

    /// The unit of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }
}

/// A part of a run that all workers start together.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) metric: String,
    pub(crate) unit: Unit,
}

impl Phase {
    fn new(metric: impl Into<String>, unit: Unit) -> Self {
        Self {
            metric: metric.into(),
            unit,
        }
    }
}

/// One worker at work.
pub(crate) trait Work {
    /// Runs the phase of this index; answers its amount in the phase's unit. The index after the
    /// last phase completes the pending work of a rehearsal.
    fn phase(&mut self, index: usize) -> Result<u64>;

    /// Takes the times of the calls of the last phase, where they are of interest.
    #[cfg(simulated)]
    fn take_latencies(&mut self) -> Vec<std::time::Duration> {
        Vec::new()
    }
}

impl Experiment {
    /// Name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mdtest => "mdtest",
            Self::Fallocate2 => "fallocate2",
            Self::Fsync => "fsync",
            Self::Mount => "mount",
            Self::MountCreate => "mount-create",
            Self::MountIo => "mount-io",
            Self::Append => "append",
            Self::StressOrphan => "stress-orphan",
            Self::MountNames => "mount-names",
            Self::MountTree => "mount-tree",
            Self::ParallelWrite => "parallel-write",
            Self::Varmail => "varmail",
        }
    }

    pub(crate) fn default_systems(self) -> &'static [System] {
        match self {
            Self::MountCreate => &[System::Uext4Mount, System::Fuse2fs],
            Self::Mount | Self::MountIo | Self::MountNames | Self::MountTree => {
                &[System::Uext4Mount, System::Fuse2fs, System::KernelExt4]
            }
            Self::StressOrphan | Self::Fsync | Self::Varmail => {
                &[System::Uext4, System::Uext4Mount, System::KernelExt4]
            }
            _ => &[System::Uext4, System::KernelExt4],
        }
    }

    fn variants(self) -> &'static [&'static str] {
        match self {
            Self::Mdtest => &[
                "own",
                "shared",
                mdtest::SPREAD,
                "own-racing",
                "shared-racing",
                "own-before",
                "shared-before",
                apart::APART,
            ],
            Self::Fallocate2 => &[
                "default",
                "linear",
                "optimized",
                "freespace-tree",
                "blocking",
                "goal-mutex",
                apart::APART,
            ],
            Self::Fsync => &[fsync::CREATE, fsync::APPEND],
            Self::Varmail => &["varmail"],
            Self::Append => &["default", "nodelalloc"],
            Self::StressOrphan => &["file", "list", "list-mutex", "none"],
            Self::Mount
            | Self::MountCreate
            | Self::MountIo
            | Self::MountNames
            | Self::MountTree => &["dev_fuse", "io_uring", "peers"],
            Self::ParallelWrite => &["default", "linear", "optimized", "freespace-tree"],
        }
    }

    /// The requested variants, or all.
    pub(crate) fn pick_variants(self, wanted: &[String]) -> Result<Vec<&'static str>> {
        let all = self.variants();
        if wanted.is_empty() {
            return Ok(all.to_vec());
        }
        let pick = |name: &String| match all.iter().find(|one| **one == name) {
            Some(one) => Ok(*one),
            None => bail!("{} has the variants {}", self.name(), all.join(", ")),
        };
        wanted.iter().map(pick).collect()
    }

    /// Operations and fsyncs in one unit of what a worker counts.
    pub(crate) fn operations(self) -> (u64, u64) {
        match self {
            Self::Varmail => (varmail::OPERATIONS, varmail::FSYNCS),
            _ => (1, 1),
        }
    }

    /// Default of `--count`; its meaning is on the command line.
    pub(crate) fn default_count(self) -> u64 {
        match self {
            Self::Mdtest => 30_000,
            Self::Fallocate2 | Self::Fsync | Self::StressOrphan => 0,
            Self::MountCreate => 200_000,
            Self::MountIo => 256,
            Self::Append => 1024,
            Self::Mount | Self::MountNames | Self::Varmail => 1000,
            Self::MountTree => 0,
            Self::ParallelWrite => 64,
        }
    }

    /// Default of `--image-mib`: space for the inodes of all files.
    pub(crate) fn default_image_mib(self, workers: &[u32], count: u64) -> u64 {
        let workers = workers.iter().copied().max().unwrap_or(0);
        let files = match self {
            Self::Mdtest | Self::Mount | Self::MountNames => count.saturating_mul(workers.into()),
            Self::MountCreate => count,
            _ => 0,
        };
        // A reserve for directories, and for groups that fill unevenly.
        let inodes = files.saturating_add(files / 16);
        IMAGE_MIB.max(inodes.saturating_mul(BYTES_PER_INODE) >> 20)
    }

    /// Default of `--journal-mib` for a file system of `image_mib` MiB.
    pub(crate) fn default_journal_mib(self, image_mib: u64) -> u64 {
        match self {
            Self::Mdtest => (image_mib / 4).min(1024),
            _ => 128,
        }
    }

    pub(crate) fn phases(self, count: u64, workers: u32) -> Vec<Phase> {
        match self {
            Self::Mdtest => mdtest::phases(),
            Self::Fallocate2 => vec![Phase::new("fallocate", Unit::PerSecond)],
            Self::Fsync => vec![Phase::new("files", Unit::PerSecond)],
            Self::Mount => mount::phases(),
            Self::MountCreate => mount_create::phases(count, workers),
            Self::MountIo => mount_io::phases(),
            Self::Append => append::phases(),
            Self::StressOrphan => stress_orphan::phases(),
            Self::MountNames => mount_names::phases(),
            Self::MountTree => mount_tree::phases(),
            Self::ParallelWrite => parallel_write::phases(),
            Self::Varmail => vec![Phase::new("iterations", Unit::PerSecond)],
        }
    }
}

impl Task {
    /// The task of this worker.
    pub(crate) fn new(plan: &Plan, variant: &str, worker: u32, workers: u32) -> Self {
        Self {
            experiment: plan.experiment,
            variant: variant.to_owned(),
            worker,
            workers,
            count: plan.count,
            seconds: plan.seconds,
            image_mib: plan.image_mib,
            journal_mib: plan.journal_mib,
            clock: plan.clock,
        }
    }

    /// The worker, with its files prepared.
    pub(crate) fn start(mut self, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
        let client = match apart::inner(&self.variant).map(str::to_owned) {
            Some(inner) => {
                self.variant = inner;
                apart::client(&self)?
            }
            None => client,
        };
        match self.experiment {
            Experiment::Mdtest => mdtest::start(self, client),
            Experiment::Fallocate2 => fallocate2::start(self, client),
            Experiment::Fsync => fsync::start(self, client),
            Experiment::Mount => mount::start(self, client),
            Experiment::MountCreate => mount_create::start(self, client),
            Experiment::MountIo => mount_io::start(self, client),
            Experiment::Append => append::start(self, client),
            Experiment::StressOrphan => stress_orphan::start(self, client),
            Experiment::MountNames => mount_names::start(self, client),
            Experiment::MountTree => mount_tree::start(self, client),
            Experiment::ParallelWrite => parallel_write::start(self, client),
            Experiment::Varmail => varmail::start(self, client),
        }
    }

    /// Number of untimed rounds of all phases before the timed one.
    pub(crate) fn rehearsals(&self) -> usize {
        usize::from(self.experiment == Experiment::Mdtest)
    }

    /// Number of phases.
    pub(crate) fn phase_count(&self) -> usize {
        self.experiment.phases(self.count, self.workers).len()
    }
}
