//! Runs one scenario under many schedules, each reproducible from a seed.
//!
//! `UEXT4_SCHEDULES=N` tries N times as many, `UEXT4_SCHEDULE_SEED=S` begins with another seed.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Stack of each thread: a whole operation of the engine in a build without optimisation.
const STACK_BYTES: usize = 1 << 20;
/// A scenario takes thousands of steps; one that takes this many never ends.
const STEPS_MAX: usize = 20_000_000;
/// Schedules per seed with few preemptions: the first only counts the steps.
const PREEMPTED: usize = 8;

/// A random number that is part of the schedule.
pub(crate) fn number() -> u64 {
    shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
}

/// Tries `seeds` random schedules of `scenario`, and then as many with few, badly placed
/// preemptions (PCT), which find races that a random walk rarely meets.
pub(crate) fn explore(seeds: u64, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    let seeds = seeds * asked("UEXT4_SCHEDULES").unwrap_or(1);
    let first: u64 = asked("UEXT4_SCHEDULE_SEED").unwrap_or(1);
    for seed in first..first + seeds {
        run(
            seed,
            RandomScheduler::new_from_seed(seed, 1),
            scenario.clone(),
        );
    }
    for seed in first..first + seeds.div_ceil(PREEMPTED as u64) {
        let depth = 2 + seed as usize % 3;
        run(
            seed,
            PctScheduler::new_from_seed(seed, depth, PREEMPTED),
            scenario.clone(),
        );
    }
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
}

/// Runs `work` once under the model checker.
pub(crate) fn once(work: impl Fn() + Send + Sync + 'static) {
    run(1, RandomScheduler::new_from_seed(1, 1), work);
}

fn run(
    seed: u64,
    scheduler: impl Scheduler + 'static,
    scenario: impl Fn() + Send + Sync + 'static,
) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    let runner = Runner::new(scheduler, config);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| runner.run(scenario))) {
        eprintln!("UEXT4_SCHEDULE_SEED={seed} begins with the schedule that failed");
        resume_unwind(panic);
    }
}
