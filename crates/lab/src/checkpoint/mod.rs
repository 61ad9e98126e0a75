//! Cost of tracking committed blocks until their checkpoint.
//!
//! Two questions: its share of the time for small durable files ([`files`]), and whether it is
//! constant per block for any length of the queue ([`queue`]).

mod discarding;
mod files;
mod queue;

#[cfg(simulated)]
pub(crate) use queue::{Queue, SMALL_TRANSACTION};

use crate::collection::Collection;
use crate::measure::{Key, Results, progress};
use crate::system::System;
use anyhow::{Context, Result};
use uext4_journal::Tracking;

const EXPERIMENT: &str = "checkpoint";
/// The variants with small durable files, and their baselines.
const FILES: [(&str, &[&str]); 2] = [("files", &[]), ("files-scan", &["scanned_checkpoints"])];
/// Variants by number of queued blocks.
const QUEUES: [(&str, u32, Tracking); 7] = [
    ("queue-1000", 1000, Tracking::Counted),
    ("queue-10000", 10_000, Tracking::Counted),
    ("queue-100000", 100_000, Tracking::Counted),
    ("queue-1000000", 1_000_000, Tracking::Counted),
    ("scan-1000", 1000, Tracking::Scanned),
    ("scan-10000", 10_000, Tracking::Scanned),
    ("scan-100000", 100_000, Tracking::Scanned),
];

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) files: u64,
    pub(crate) workers: Vec<u32>,
    pub(crate) systems: Vec<System>,
    pub(crate) runs: u32,
    pub(crate) image_mib: u64,
    pub(crate) journal_mib: u64,
    /// Longest queue measured, in blocks.
    pub(crate) queue_max: u32,
    /// Mount options of uext4, for the library and the mount.
    pub(crate) mount_options: String,
}

/// Runs everything, systems in turn.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let progress = progress(u64::from(plan.runs) * 2);
    let mut stage = files::Fixture::new(plan)?;
    let mut all = Collection::new(&progress);
    for _ in 0..plan.runs {
        progress.set_message("files");
        stage.run(plan, &mut all)?;
        progress.inc(1);
        progress.set_message("queues");
        for (variant, blocks, tracking) in QUEUES {
            if blocks <= plan.queue_max {
                let mut samples = queue::run(blocks, tracking).context(variant)?;
                samples.extend(queue::run_small(blocks, tracking).context(variant)?);
                all.add(&key(System::Uext4, variant, 1), samples);
            }
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(all.results(&plan.systems))
}

fn key(system: System, variant: &'static str, workers: u32) -> Key {
    Key {
        experiment: EXPERIMENT,
        system,
        variant: variant.into(),
        workers,
    }
}
