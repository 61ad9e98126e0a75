//! Longest call of the shrinker of the extent status cache, with many writers.
//!
//! Two loads: many files, and two sparse files of 1 GB. The library keeps its extent cache within a
//! budget; the baseline is the library with its sorted shrinker; [`mounted`] covers mounts. Calls
//! are timed by wall clock and by thread time: with more writers than processors the longest call
//! by wall clock is one that was preempted.

mod load;
mod mounted;

use crate::base_lines::of_names;
use crate::collection::{Collection, Sample};
use crate::experiments::Unit;
use crate::measure::{Key, Results, progress};
use crate::system::{self, System};
use anyhow::Result;
use load::Load;
use uext4::BaseLines;
use uext4_sync::LatencySummary;

const EXPERIMENT: &str = "shrinker";
const VARIANTS: [(&str, &str, Load); 2] = [
    ("many-files", "full-scan-many-files", Load::ManyFiles),
    ("two-sparse", "full-scan-two-sparse", Load::TwoSparse),
];

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) systems: Vec<System>,
    pub(crate) workers: u32,
    /// Blocks written per writer.
    pub(crate) blocks: u32,
    /// `None`: that of the load.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) runs: u32,
}

/// Statistics of a shrinker's calls.
struct Calls {
    wall: Times,
    /// Only for our shrinker.
    of_ours: Option<Ours>,
}

/// Times of calls, by one clock.
struct Times {
    worst_us: f64,
    mean_us: f64,
    /// 99.9th percentile, in microseconds.
    p999_us: Option<f64>,
}

struct Ours {
    thread: Times,
    calls: u64,
    dropped: u64,
}

impl Times {
    fn of(summary: &LatencySummary) -> Self {
        Self {
            worst_us: summary.worst_ns as f64 / 1e3,
            mean_us: summary.total_ns as f64 / 1e3 / summary.count.max(1) as f64,
            p999_us: Some(summary.p999_ns as f64 / 1e3),
        }
    }

    fn samples(&self, clock: &str) -> Vec<Sample> {
        let metric = |name: &str, value| {
            Sample::new(format!("{name} call, {clock}"), Unit::Microseconds, value)
        };
        let mut samples = vec![metric("worst", self.worst_us)];
        samples.extend(self.p999_us.map(|p999| metric("p99.9", p999)));
        samples.push(metric("mean", self.mean_us));
        samples
    }
}

impl Calls {
    /// Statistics of the same calls by both clocks.
    fn of_ours(wall: &LatencySummary, thread: &LatencySummary, dropped: u64) -> Self {
        Self {
            wall: Times::of(wall),
            of_ours: Some(Ours {
                thread: Times::of(thread),
                calls: wall.count,
                dropped,
            }),
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let mut samples = self.wall.samples("wall");
        if let Some(ours) = &self.of_ours {
            samples.extend(ours.thread.samples("thread"));
            samples.push(Sample::new("calls", Unit::Count, ours.calls as f64));
            samples.push(Sample::new("dropped", Unit::Count, ours.dropped as f64));
        }
        samples
    }
}

/// Runs everything, systems in turn.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let systems = system::present(&plan.systems);
    let turns = plan.runs as usize * VARIANTS.len();
    let progress = progress((turns * (systems.clone().count() + 1)) as u64);
    let mut all = Collection::new(&progress);
    for (variant, base_line, load) in VARIANTS.repeat(plan.runs as usize) {
        for system in systems.clone() {
            progress.set_message(format!("{} {variant}", system.name()));
            let calls = match system {
                System::Uext4 => load::in_library(plan, load, BaseLines::default())?,
                _ => mounted::run(plan, system, load)?,
            };
            all.add(&key(plan, system, variant), calls.samples());
            progress.inc(1);
        }
        progress.set_message(base_line);
        let calls = load::in_library(plan, load, of_names(&["sorted_shrinker"]))?;
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
        variant: variant.into(),
        workers: plan.workers,
    }
}
