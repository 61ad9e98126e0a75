//! `simulate`: experiments on a machine with any number of cores, in virtual time.
//!
//! Layout: [`machines`] and [`operations`] are the published and measured numbers, [`case`] runs
//! one variant with one number of workers on the simulator of `uext4_sync`, [`schedule`] lets its
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
mod device;
mod load;
mod machines;
mod operations;
mod plan;
mod report;
mod row;
#[cfg(test)]
mod scaling_tests;
mod schedule;
mod shrinker;
#[cfg(test)]
mod tests;

pub(crate) use plan::Plan;

use crate::cpus::{cpus, stay_on};
use anyhow::{Context, Result};
use case::{Case, Outcome};
use load::Load;
use machines::Host;
use row::Row;

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
            let case = Case::new(plan, load, variant, &host, workers);
            let outcomes = case
                .run(&work)
                .with_context(|| format!("{variant}, {workers} workers"))?;
            let one = first.get_or_insert_with(|| outcomes.clone());
            for (outcome, one) in outcomes.iter().zip(one.iter()) {
                let row = Row::new(variant, outcome, one);
                eprintln!("{}", report::short_line(plan, &row));
                rows.push(row);
            }
        }
    }
    if plan.json {
        print!("{}", report::json_lines(plan, &rows)?)
    } else {
        print!("{}", report::table(plan, &rows))
    }
    if let Some(path) = &plan.svg {
        let drawing = chart::svg(plan, &rows);
        std::fs::write(path, drawing).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// All threads run one at a time: on one CPU, the right to run passes fastest.
fn stay_on_one_cpu() -> Result<()> {
    let last = cpus()?.last().copied();
    stay_on(last.context("a process has a CPU")?)
}
