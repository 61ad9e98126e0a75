//! `calibrate --operations`: what an operation costs while the other CPU does the same, in a
//! process and for a file system of its own. The two share nothing but the machine, so what it
//! costs more is the machine's: caches, memory bandwidth, threads of one core, the clock, the
//! other guests.
//!
//! One and two workers take turns; the medians count.

use crate::experiments::{Clock, Experiment, Task, Unit, of_variant};
use crate::stage::WorkerAccess;
use crate::workers;
use anyhow::{Context, Result};
use serde_json::json;
use uext4_testkit::oracle;

/// Experiments and variants that are simulated; the count of operations, or 0 with a time.
const OPERATIONS: [(Experiment, &str, u64); 11] = [
    (Experiment::Fallocate2, "blocking", 0),
    (Experiment::Fallocate2, "linear", 0),
    (Experiment::Fallocate2, "optimized", 0),
    (Experiment::Fallocate2, "freespace-tree", 0),
    (Experiment::Mdtest, "own", 30_000),
    (Experiment::Mdtest, "shared", 30_000),
    (Experiment::StressOrphan, "file", 0),
    (Experiment::StressOrphan, "list", 0),
    (Experiment::Append, "default", 4096),
    (Experiment::Append, "nodelalloc", 4096),
    (Experiment::Fsync, "create", 0),
];
const SECONDS: f64 = 0.3;
const IMAGE_MIB: u64 = 1024;
const JOURNAL_MIB: u64 = 128;
/// Bytes of one operation that is counted in bytes.
const BLOCK_BYTES: f64 = 4096.0;

/// Prints a JSON line for each operation: its time alone, and beside another, as a multiple.
pub(crate) fn run(runs: usize) -> Result<()> {
    for (experiment, variant, count) in OPERATIONS {
        let phases = experiment.phases(count, 1);
        let rates = phases
            .iter()
            .enumerate()
            .filter(|(_, phase)| phase.unit.is_rate());
        let mut times = vec![[Vec::new(), Vec::new()]; phases.len()];
        for _ in 0..runs.max(1) {
            for workers in [1, 2] {
                let found = time_ns(experiment, variant, count, workers)?;
                let all = times.iter_mut().zip(found);
                all.for_each(|(times, ns)| times[workers as usize - 1].push(ns));
            }
        }
        for (index, phase) in rates {
            let [alone, beside] = times[index].each_mut().map(|times| median(times));
            let is_bytes = phase.unit == Unit::MegabytesPerSecond;
            let ns = if is_bytes { alone * BLOCK_BYTES } else { alone };
            let [ns, scale] =
                [(ns, 10.0), (beside / alone, 1000.0)].map(|(x, y)| (x * y).round() / y);
            let line = json!({
                "experiment": experiment.name(), "variant": variant, "metric": phase.metric,
                "ns": ns, "busy_scale": scale,
            });
            println!("{line}");
        }
    }
    Ok(())
}

/// Time of the workers for one unit of each phase.
fn time_ns(experiment: Experiment, variant: &str, count: u64, workers: u32) -> Result<Vec<f64>> {
    let dir = oracle::scratch_dir()?;
    let tasks: Vec<Task> = (0..workers)
        .map(|worker| Task {
            experiment,
            variant: of_variant(variant),
            worker,
            workers,
            count,
            seconds: SECONDS,
            image_mib: IMAGE_MIB,
            journal_mib: JOURNAL_MIB,
            clock: Clock::Wall,
        })
        .collect();
    let phases = workers::work(&WorkerAccess::Directory(dir.path().to_owned()), &tasks);
    let phases = phases.with_context(|| format!("{} {variant}", experiment.name()))?;
    Ok(phases
        .iter()
        .map(|done| {
            let amount: u64 = done.iter().map(|one| one.amount).sum();
            let time = workers::taken(Clock::Cpu, done);
            time.as_nanos() as f64 / amount.max(1) as f64
        })
        .collect())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
