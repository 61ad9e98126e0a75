//! Baselines in the simulator: each loses what its improvement gains. A switch without effect fails
//! here.

use super::calls::{Calls, Run};
use super::case::Case;
use super::load::Load;
use super::machines::Host;
use super::schedule::Work;
use super::{Plan, checkpoint, shrinker};
use crate::base_lines::of_names;

const WORKERS: u32 = 16;
const WORK_PS: u64 = 20_000;

/// Operations per second of all workers.
fn rate(experiment: &str, variant: &'static str, metric: &str) -> f64 {
    let plan = Plan {
        experiment: experiment.to_owned(),
        machine: "kunpeng-920".to_owned(),
        workers: Vec::new(),
        variants: Vec::new(),
        seconds: 0.0005,
        count: (experiment == "mdtest").then_some(40),
        sizes: Vec::new(),
        image_mib: Some(4096),
        journal_mib: 64,
        latency_us: 0.0,
        megabytes_per_second: 0.0,
        json: false,
        svg: None,
    };
    let load = Load::of_name(experiment).expect("an experiment");
    let host = Host::of_name(&plan.machine).expect("a machine");
    let phases = load.phases(40, WORKERS).len();
    let case = Case::new(&plan, load, variant, &host, WORKERS);
    let outcomes = case.run(&vec![Work::of_ps(WORK_PS); phases]).expect("runs");
    let outcome = outcomes.iter().find(|one| one.metric == metric);
    outcome.expect("the metric").total
}

#[test]
fn races_for_inodes_cost_creates() {
    let create = |variant| rate("mdtest", variant, "create");
    assert!(create("own") > 2.0 * create("own-racing"));
}

#[test]
fn a_list_that_is_always_locked_costs_truncates() {
    let truncated = |variant| rate("stress-orphan", variant, "truncated");
    assert!(truncated("list") > 2.0 * truncated("list-mutex"));
}

#[test]
fn a_locked_goal_costs_allocations() {
    let fallocate = |variant| rate("fallocate2", variant, "fallocate");
    assert!(fallocate("linear") > 2.0 * fallocate("goal-mutex"));
}

fn calls(run: fn(&Run<'_>) -> anyhow::Result<Calls>, size: u64, names: &[&str]) -> Calls {
    let host = Host::of_name("kunpeng-920").expect("a machine");
    run(&Run {
        host: &host,
        workers: 4,
        size,
        base_lines: of_names(names),
        work: Work::of_ps(WORK_PS),
    })
    .expect("runs")
}

#[test]
fn calls_of_the_sorted_shrinker_grow_with_the_files() {
    let worst = |size, names: &[&str]| calls(shrinker::run, size, names).worst.as_secs_f64();
    let sorted = ["sorted_shrinker"];
    assert!(worst(4000, &sorted) > 3.0 * worst(1000, &sorted));
    assert!(worst(4000, &[]) < 2.0 * worst(1000, &[]));
}

#[test]
fn scans_of_checkpoints_are_quadratic() {
    let total = |size, names: &[&str]| calls(checkpoint::run, size, names).total.as_secs_f64();
    let scans = |size| total(size, &["scanned_checkpoints"]) - total(size, &[]);
    assert!(scans(4096) > 10.0 * scans(1024));
    assert!(total(4096, &[]) < 6.0 * total(1024, &[]));
}
