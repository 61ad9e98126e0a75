//! The longest call of the shrinker of the extent status, beneath many writers.
//!
//! Two loads: many files, and two sparse files of 1 GB. The library keeps what it knows of their
//! maps within a budget; the base line is [`full_scan`], fed with the same blocks. Mounts are asked
//! by [`mounted`].

mod full_scan;
mod load;
mod mounted;

use crate::collection::{Collection, Sample};
use crate::experiments::{Clock, Unit};
use crate::measure::{Key, Results, progress};
use crate::system::{self, System};
use anyhow::Result;
use load::Load;

const EXPERIMENT: &str = "shrinker";
const VARIANTS: [(&str, &str, Load); 2] = [
    ("many-files", "full-scan-many-files", Load::ManyFiles),
    ("two-sparse", "full-scan-two-sparse", Load::TwoSparse),
];

/// Everything that the user chose.
pub(crate) struct Plan {
    pub(crate) systems: Vec<System>,
    pub(crate) workers: u32,
    /// Blocks that each writer writes.
    pub(crate) blocks: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) clock: Clock,
    pub(crate) runs: u32,
}

/// What a shrinker did.
struct Calls {
    worst_us: f64,
    mean_us: f64,
    rounds: Option<Rounds>,
}

struct Rounds {
    calls: u64,
    dropped: u64,
}

impl Calls {
    fn of_rounds(rounds: Rounds, time_ns: u64, worst_ns: u64) -> Self {
        Self {
            worst_us: worst_ns as f64 / 1e3,
            mean_us: time_ns as f64 / 1e3 / rounds.calls.max(1) as f64,
            rounds: Some(rounds),
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let mut samples = vec![
            Sample::new("worst call", Unit::Microseconds, self.worst_us),
            Sample::new("mean call", Unit::Microseconds, self.mean_us),
        ];
        if let Some(rounds) = &self.rounds {
            samples.push(Sample::new("calls", Unit::Count, rounds.calls as f64));
            samples.push(Sample::new("dropped", Unit::Count, rounds.dropped as f64));
        }
        samples
    }
}

/// Runs everything, in turns.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let systems = system::present(&plan.systems);
    let turns = plan.runs as usize * VARIANTS.len();
    let progress = progress((turns * (systems.clone().count() + 1)) as u64);
    let mut all = Collection::default();
    for (variant, base_line, load) in VARIANTS.repeat(plan.runs as usize) {
        for system in systems.clone() {
            progress.set_message(format!("{} {variant}", system.name()));
            let calls = match system {
                System::Uext4 => load::in_library(plan, load)?,
                _ => mounted::run(plan, system, load)?,
            };
            all.add(&key(plan, system, variant), calls.samples());
            progress.inc(1);
        }
        progress.set_message(base_line);
        let calls = full_scan::run(plan, load)?;
        all.add(&key(plan, System::Uext4, base_line), calls.samples());
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(all.results(&plan.systems))
}

fn key(plan: &Plan, system: System, variant: &'static str) -> Key {
    Key {
        experiment: EXPERIMENT,
        system,
        variant,
        workers: plan.workers,
    }
}
