//! Rates of many workers, against one alone.

use super::Plan;
use super::case::Case;
use super::load::Load;
use super::machines::Host;
use super::schedule::Work;

/// More workers than the shards of a small machine.
const MANY: u32 = 128;

/// Rate of each of many workers, as a share of that of one alone.
fn share(experiment: &str, variant: &'static str, (many, latency_us): (u32, f64)) -> f64 {
    let plan = Plan {
        experiment: experiment.to_owned(),
        machine: "kunpeng-920".to_owned(),
        workers: vec![1, many],
        variants: Vec::new(),
        seconds: 0.2e-3 + latency_us * 1e-4,
        count: None,
        sizes: Vec::new(),
        image_mib: None,
        journal_mib: 1024,
        latency_us,
        megabytes_per_second: 0.0,
        json: false,
        svg: None,
    };
    // Beside a device there is little.
    let work = if latency_us > 0.0 {
        Work::NONE
    } else {
        Work::of_ps(10_000)
    };
    let load = Load::of_name(&plan.experiment).expect("it is known");
    let host = Host::of_name(&plan.machine).expect("it is known");
    let each = |workers| {
        let case = Case::new(&plan, load, variant, &host, workers);
        let phases = case.phases().len();
        let outcomes = case.run(&vec![work; phases]);
        outcomes.expect("it runs")[0].total / f64::from(workers)
    };
    each(many) / each(1)
}

#[test]
fn workers_with_a_shard_each_keep_their_rate() {
    let share = share("fallocate2", "freespace-tree", (MANY, 0.0));
    assert!(share > 0.75, "{share} of ideal");
}

#[test]
fn a_shared_counter_is_seen() {
    let share = share("fallocate2", super::canary::CANARY, (MANY, 0.0));
    assert!(share < 0.5, "{share} of ideal");
}

/// A commit has all callers that the one before has served: each call takes about the time of one
/// commit, not of two.
#[test]
fn callers_of_fsync_meet_in_each_commit() {
    let share = share("fsync", "own", (16, 100.0));
    assert!(share > 0.65, "{share} of ideal");
}
