//! `simulate`: experiments on a machine with any number of cores, in virtual time.
//!
//! Layout: [`machines`] and [`operations`] are the published and measured numbers, [`case`] runs
//! one variant with one number of workers on the simulator of `uext4_sync`, [`course`] lets its
//! workers begin each phase at once, [`report`] and [`chart`] show the outcome. Of the shrinker and
//! of checkpoints the calls are measured, not rates: [`calls`].
//! The work between two synchronisation operations is the time of an operation that one real core
//! needs, less its synchronisation on the simulated core, divided by the number of accesses.
//! References: docs/internals/simulation.md.

mod calls;
mod canary;
mod case;
mod chart;
mod checkpoint;
mod course;
mod device;
mod load;
mod machines;
mod operations;
mod report;
#[cfg(test)]
mod scaling_tests;
mod shrinker;
#[cfg(test)]
mod tests;

use crate::cpus::{cpus, stay_on};
use anyhow::{Context, Result};
use case::{Case, Outcome};
use load::Load;
use machines::Host;
use std::path::PathBuf;
use std::time::Duration;
use uext4_sync::simulation::HotLine;

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) experiment: String,
    pub(crate) machine: String,
    pub(crate) workers: Vec<u32>,
    pub(crate) variants: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) count: Option<u64>,
    /// Files or blocks of the experiments that measure calls.
    pub(crate) sizes: Vec<u64>,
    pub(crate) image_mib: Option<u64>,
    pub(crate) journal_mib: u64,
    pub(crate) latency_us: f64,
    pub(crate) megabytes_per_second: f64,
    pub(crate) json: bool,
    pub(crate) svg: Option<PathBuf>,
}

/// Result of one metric of one variant with one number of workers.
struct Row {
    variant: String,
    workers: u32,
    metric: String,
    /// Operations per second of all workers.
    total: f64,
    /// Share of the rate of one worker that each worker reaches.
    of_ideal: f64,
    /// Median and mean time of a call in microseconds, where the experiment takes them.
    call_us: Option<(f64, f64)>,
    /// Transfers per operation within sockets, and between them.
    near: f64,
    far: f64,
    hottest: Vec<HotLine>,
    /// The same by place of the code.
    places: Vec<HotLine>,
    /// Time of all workers together, in picoseconds.
    time_ps: u64,
}

impl Plan {
    /// The requested numbers of workers, or these.
    fn workers_or(&self, usual: &[u32]) -> Vec<u32> {
        let chosen = match self.workers.is_empty() {
            true => usual,
            false => &self.workers,
        };
        chosen
            .iter()
            .copied()
            .filter(|workers| *workers > 0)
            .collect()
    }
}

/// Runs everything and prints the report.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    stay_on_one_cpu().context("the simulation stays on one CPU")?;
    if let Some(experiment) = calls::of_name(&plan.experiment) {
        return calls::run(plan, &experiment);
    }
    let load = Load::of_name(&plan.experiment)?;
    let host = Host::of_name(&plan.machine)?;
    let mut rows = Vec::new();
    for variant in load.pick_variants(&plan.variants)? {
        let this = Host::of_name(machines::THIS)?;
        let work = Case::new(plan, load, variant, &this, 1).work_per_access()?;
        let work: Vec<_> = work.into_iter().map(|one| host.work(one)).collect();
        let mut first: Option<Vec<Outcome>> = None;
        for workers in plan.workers_or(&[1, 2, 4, 8, 16, 32, 64]) {
            let about = || format!("{variant}, {workers} workers");
            let case = Case::new(plan, load, variant, &host, workers);
            let outcomes = case.run(&work).with_context(about)?;
            let one = first.get_or_insert_with(|| outcomes.clone());
            for (outcome, one) in outcomes.iter().zip(one.iter()) {
                let row = row(variant, outcome, one);
                eprintln!("{}", report::short_line(plan, &row));
                rows.push(row);
            }
        }
    }
    match plan.json {
        true => print!("{}", report::json_lines(plan, &rows)?),
        false => print!("{}", report::table(plan, &rows)),
    }
    if let Some(path) = &plan.svg {
        let drawing = chart::svg(plan, &rows);
        std::fs::write(path, drawing).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn row(variant: &str, outcome: &Outcome, one: &Outcome) -> Row {
    let each = |outcome: &Outcome| outcome.total / f64::from(outcome.workers);
    let per_operation = |count: u64| count as f64 / outcome.amount.max(1) as f64;
    Row {
        variant: variant.to_owned(),
        workers: outcome.workers,
        metric: outcome.metric.clone(),
        total: outcome.total,
        of_ideal: each(outcome) / each(one),
        call_us: call_us(&outcome.latencies),
        near: per_operation(outcome.report.near),
        far: per_operation(outcome.report.far),
        hottest: outcome.report.hottest.clone(),
        places: outcome.report.places.clone(),
        time_ps: outcome.time_ps,
    }
}

/// Median and mean of ascending times, in microseconds.
fn call_us(times: &[Duration]) -> Option<(f64, f64)> {
    let us = |time: &Duration| time.as_secs_f64() * 1e6;
    let median = times.get(times.len() / 2)?;
    let sum: f64 = times.iter().map(us).sum();
    Some((us(median), sum / times.len() as f64))
}

/// All threads run one at a time: on one CPU, the right to run passes fastest.
fn stay_on_one_cpu() -> Result<()> {
    let last = cpus()?.last().copied();
    stay_on(last.context("a process has a CPU")?)
}
