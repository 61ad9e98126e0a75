//! The crash suite in the size of a test run; `cargo xtask crash` does more.
//!
//! `UEXT4_CRASH_SEEDS` and `UEXT4_CRASH_OPS` make it larger, `UEXT4_CRASH_CASE` repeats one crash.

use uext4_judge::crash::{
    Case, Config, Effort, Judge, Plant, Run, play, run_case, run_suite, run_threads,
};

/// Runs in which a planted bug must show.
const PLANT_SEEDS: u64 = 6;

fn number(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("the variable holds a number"),
        Err(_) => default,
    }
}

/// Runs of one kind of file system.
fn suite(name: &str) {
    let config = Config::named(name).expect("a known configuration");
    let seeds = number("UEXT4_CRASH_SEEDS", 4) as u64;
    let steps = number("UEXT4_CRASH_OPS", 60);
    // Another workload for every kind.
    let place = Config::ALL.iter().position(|other| *other == config);
    let first = place.map_or(0, |place| place as u64 * 100);
    for seed in first..first + seeds {
        match run_suite(Run::of(config, seed, steps), &Effort::SAMPLE) {
            Ok(figures) => println!("{name} seed {seed}: {figures}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn ext4() {
    suite("ext4");
}

#[test]
fn ext4_4k() {
    suite("ext4-4k");
}

#[test]
fn orphan_list() {
    suite("orphan-list");
}

#[test]
fn no_checksums() {
    suite("no-checksums");
}

#[test]
fn ext3() {
    suite("ext3");
}

#[test]
fn inline() {
    suite("inline");
}

#[test]
fn bigalloc() {
    suite("bigalloc");
}

/// Repeats the crash that `UEXT4_CRASH_CASE` names.
#[test]
fn the_case() {
    let Ok(text) = std::env::var("UEXT4_CRASH_CASE") else {
        return;
    };
    let case: Case = text.parse().expect("a case");
    match run_case(case) {
        Ok(figures) => println!("{case}: {figures}"),
        Err(error) => panic!("{error:?}"),
    }
}

/// The suite must see a bug that is there.
#[test]
fn planted_bugs_are_caught() {
    for plant in [
        Plant::AllFlushes,
        Plant::BeforeCommitBlock,
        Plant::AfterCommitBlock,
    ] {
        let caught = (1..=PLANT_SEEDS).find_map(|seed| violation(plant, seed));
        let text = caught.unwrap_or_else(|| panic!("{plant:?} is not caught"));
        println!("{plant:?}: {text}");
    }
}

/// What our own recovery alone sees of a planted bug.
fn violation(plant: Plant, seed: u64) -> Option<String> {
    let config = Config::named("ext4").expect("a known configuration");
    let recording = play(Run::of(config, seed, 60)).expect("a run");
    let recording = plant.into_recording(recording).expect("a worse recording");
    let mut judge = Judge::new(recording).expect("a judge");
    let error = judge.all(&Effort::OURS).err()?;
    Some(format!("after {}: {error:#}", judge.figures))
}

#[test]
fn what_threads_synced_is_there() {
    for (name, seed) in [("ext4", 1), ("orphan-list", 2)] {
        let config = Config::named(name).expect("a known configuration");
        match run_threads(config, seed, 60) {
            Ok(figures) => println!("{name} seed {seed}: {figures:?}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}
