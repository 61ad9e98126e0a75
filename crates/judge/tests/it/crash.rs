//! The crash suite in the size of a test run; `cargo xtask crash` does more.
//!
//! `UEXT4_CRASH_SEEDS` and `UEXT4_CRASH_OPS` make it larger, `UEXT4_CRASH_CASE` repeats one crash.

use uext4_judge::crash::{
    Case, Config, Effort, Judge, Plant, Run, play, run_case, run_suite, run_threads,
};

/// One image in so many goes to the slow judges.
const EFFORT: Effort = Effort {
    cut: 1,
    check: 8,
    e2fsck: 60,
    kernel: 250,
    twice: 200,
};

fn number(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("the variable holds a number"),
        Err(_) => default,
    }
}

/// Runs of one kind, half of them on a file system that is no longer fresh.
fn suite(name: &str) {
    let config = Config::named(name).expect("a known configuration");
    let seeds = number("UEXT4_CRASH_SEEDS", 2) as u64;
    let steps = number("UEXT4_CRASH_OPS", 60);
    for seed in 1..=seeds {
        let warm_up = if seed % 2 == 0 { 250 } else { 0 };
        let run = Run {
            config,
            seed,
            warm_up,
            steps,
        };
        match run_suite(run, &EFFORT) {
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
    let config = Config::named("ext4").expect("a known configuration");
    for plant in [
        Plant::AllFlushes,
        Plant::BeforeCommitBlock,
        Plant::AfterCommitBlock,
    ] {
        let run = Run {
            config,
            seed: 1,
            warm_up: 0,
            steps: 60,
        };
        let recording = play(run).expect("a run");
        let recording = plant.into_recording(recording).expect("a worse recording");
        let mut judge = Judge::new(recording).expect("a judge");
        let effort = Effort {
            cut: 1,
            check: 1000,
            e2fsck: 1_000_000,
            kernel: 1_000_000,
            twice: 1_000_000,
        };
        let found = judge.all(&effort);
        let error = found.expect_err("a planted bug must be caught");
        println!("{plant:?} after {}: {error:#}", judge.figures);
    }
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
