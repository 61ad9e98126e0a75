//! What one worker has to do, and the choices of the user that it follows from.

use crate::system::System;
use serde::{Deserialize, Serialize};

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
}
