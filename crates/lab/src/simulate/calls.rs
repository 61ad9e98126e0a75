//! Experiments that measure calls instead of rates: the longest, the mean and the sum, by size.
//!
//! The work between two accesses is such that one worker on `this-machine` takes the measured time
//! of a call at the size at which it was measured.

use super::machines::{Host, THIS};
use super::plan::Plan;
use super::schedule::Work;
use super::{checkpoint, operations, shrinker};
use crate::base_lines::of_names;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::time::Duration;
use uext4::BaseLines;

/// An experiment that measures calls.
#[derive(Clone, Copy)]
pub(super) struct Experiment {
    name: &'static str,
    /// By name, each with its baselines.
    variants: [(&'static str, &'static [&'static str]); 2],
    sizes: &'static [u64],
    /// The size at which operations.json has the time of a call.
    measured_size: u64,
    workers: u32,
    run: fn(&Run<'_>) -> Result<Calls>,
}

const ALL: [Experiment; 2] = [
    Experiment {
        name: "shrinker",
        variants: [("full-scan", &["sorted_shrinker"]), ("round-robin", &[])],
        sizes: &[1000, 10_000, 50_000],
        measured_size: 10_000,
        workers: 16,
        run: shrinker::run,
    },
    Experiment {
        name: "checkpoint",
        variants: [("list-scan", &["scanned_checkpoints"]), ("counters", &[])],
        sizes: &[1000, 3000, 10_000, 30_000],
        measured_size: 10_000,
        workers: 1,
        run: checkpoint::run,
    },
];

/// One run of one variant.
pub(super) struct Run<'a> {
    pub(super) host: &'a Host,
    pub(super) workers: u32,
    pub(super) size: u64,
    pub(super) base_lines: BaseLines,
    pub(super) work: Work,
}

/// Calls and their times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) count: u64,
    pub(super) total: Duration,
    pub(super) worst: Duration,
}

impl Calls {
    pub(super) fn add(&mut self, taken: Duration) {
        self.count += 1;
        self.total += taken;
        self.worst = self.worst.max(taken);
    }

    fn mean_ns(&self) -> f64 {
        self.total.as_nanos() as f64 / self.count.max(1) as f64
    }
}

/// The experiment of this name, if it is one of these.
pub(super) fn of_name(name: &str) -> Option<Experiment> {
    ALL.into_iter().find(|experiment| experiment.name == name)
}

/// Runs everything and prints each row as it ends.
pub(super) fn run(plan: &Plan, experiment: &Experiment) -> Result<()> {
    let host = Host::of_name(&plan.machine)?;
    let sizes = if plan.sizes.is_empty() {
        experiment.sizes
    } else {
        &plan.sizes
    };
    if !plan.json {
        println!("{} on {} (simulated)", plan.experiment, plan.machine);
        println!(
            "{:<16} {:>7} {:>9} {:>7} {:>12} {:>12} {:>12}",
            "variant", "workers", "size", "calls", "worst us", "mean us", "total ms"
        );
    }
    for (variant, names) in experiment.picked(&plan.variants)? {
        let base_lines = of_names(names);
        let work = experiment.work_per_access(variant, base_lines)?;
        for workers in plan.workers_or(&[experiment.workers]) {
            for &size in sizes {
                let calls = (experiment.run)(&Run {
                    host: &host,
                    workers,
                    size,
                    base_lines,
                    work: host.work(Work::of_ps(work as u64)),
                })
                .with_context(|| format!("{variant}, size {size}"))?;
                show(plan, variant, (workers, size), &calls);
            }
        }
    }
    Ok(())
}

impl Experiment {
    fn picked(&self, wanted: &[String]) -> Result<Vec<(&'static str, &'static [&'static str])>> {
        let names = self.variants.map(|(name, _)| name);
        if let Some(other) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
            bail!(
                "{other}: {} has the variants {}",
                self.name,
                names.join(", ")
            );
        }
        let variants = self.variants.into_iter();
        Ok(variants
            .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|one| one == name))
            .collect())
    }

    /// Work between two accesses on `this-machine`, in picoseconds: two runs show what it adds.
    fn work_per_access(&self, variant: &str, base_lines: BaseLines) -> Result<f64> {
        const TRIED_PS: u64 = 10_000;
        let this = Host::of_name(THIS)?;
        let mean_ns = |work_ps| -> Result<f64> {
            let calls = (self.run)(&Run {
                host: &this,
                workers: 1,
                size: self.measured_size,
                base_lines,
                work: Work::of_ps(work_ps),
            })?;
            Ok(calls.mean_ns())
        };
        let goal_ns = operations::time_ps(self.name, variant, "call")? / 1e3;
        let (without, with) = (mean_ns(0)?, mean_ns(TRIED_PS)?);
        let each = (with - without) / TRIED_PS as f64;
        Ok(((goal_ns - without) / each).max(0.0))
    }
}

fn show(plan: &Plan, variant: &str, (workers, size): (u32, u64), calls: &Calls) {
    let (worst_us, mean_us) = (calls.worst.as_secs_f64() * 1e6, calls.mean_ns() / 1e3);
    let total_ms = calls.total.as_secs_f64() * 1e3;
    if plan.json {
        let line = json!({
            "experiment": plan.experiment, "machine": plan.machine, "variant": variant,
            "workers": workers, "size": size, "calls": calls.count,
            "worst_us": worst_us, "mean_us": mean_us, "total_ms": total_ms,
        });
        println!("{line}");
    } else {
        let count = calls.count;
        println!(
            "{variant:<16} {workers:>7} {size:>9} {count:>7} {worst_us:>12.1} {mean_us:>12.1} \
             {total_ms:>12.2}"
        );
    }
}
