//! Rates of many workers, against one alone.

use super::Plan;
use super::case::Case;
use super::course::Work;
use super::load::Load;
use super::machines::Host;

/// More workers than the shards of a small machine.
const MANY: u32 = 128;

/// Rate of each worker of `fallocate2`, as a share of that of one alone.
fn share(variant: &'static str) -> f64 {
    let plan = Plan {
        experiment: "fallocate2".to_owned(),
        machine: "kunpeng-920".to_owned(),
        workers: vec![1, MANY],
        variants: Vec::new(),
        seconds: 0.2e-3,
        count: None,
        sizes: Vec::new(),
        image_mib: None,
        journal_mib: 1024,
        latency_us: 0.0,
        megabytes_per_second: 0.0,
        json: false,
        svg: None,
    };
    let load = Load::of_name(&plan.experiment).expect("it is known");
    let host = Host::of_name(&plan.machine).expect("it is known");
    let each = |workers| {
        let case = Case::new(&plan, load, variant, &host, workers);
        let outcomes = case.run(&[Work::of_ps(10_000)]).expect("it runs");
        outcomes[0].total / f64::from(workers)
    };
    each(MANY) / each(1)
}

#[test]
fn workers_with_a_shard_each_keep_their_rate() {
    let share = share("freespace-tree");
    assert!(share > 0.75, "{share} of ideal");
}

#[test]
fn a_shared_counter_is_seen() {
    let share = share(super::canary::CANARY);
    assert!(share < 0.5, "{share} of ideal");
}
