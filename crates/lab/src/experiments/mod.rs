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
mod phase;
mod setup;
mod stress_orphan;
mod task;
mod varmail;

pub(crate) use apart::of_variant;
pub(crate) use phase::{Phase, Unit, Work};
pub(crate) use setup::{allocators, setup};
pub(crate) use task::{Clock, Experiment, Plan, Task};

use crate::backing::BYTES_PER_INODE;
use crate::client::Client;
use crate::system::System;
use anyhow::{Result, bail};

const IMAGE_MIB: u64 = 2048;

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
        wanted
            .iter()
            .map(|name| match all.iter().find(|one| **one == name) {
                Some(one) => Ok(*one),
                None => bail!("{} has the variants {}", self.name(), all.join(", ")),
            })
            .collect()
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

    pub(crate) fn phase_count(&self) -> usize {
        self.experiment.phases(self.count, self.workers).len()
    }
}
