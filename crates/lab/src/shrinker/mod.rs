//! The longest call of the shrinker of the extent status, beneath many writers.
//!
//! Two loads: many files, and two sparse files of 1 GB. The library keeps what it knows of their
//! maps within a budget; the base line is [`full_scan`], fed with the same blocks.

mod full_scan;
mod load;

use crate::experiments::{Clock, Unit};
use crate::measure::{Key, Results, Series, progress};
use crate::system::System;
use anyhow::Result;
use load::Load;

const EXPERIMENT: &str = "shrinker";
const VARIANTS: [(&str, &str, Load); 2] = [
    ("many-files", "full-scan-many-files", Load::ManyFiles),
    ("two-sparse", "full-scan-two-sparse", Load::TwoSparse),
];

/// Everything that the user chose.
pub(crate) struct Plan {
    pub(crate) workers: u32,
    /// Blocks that each writer writes.
    pub(crate) blocks: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) clock: Clock,
    pub(crate) runs: u32,
}

/// What a shrinker did.
struct Calls {
    calls: u64,
    dropped: u64,
    time_ns: u64,
    worst_ns: u64,
}

/// Runs everything, in turns.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let progress = progress(u64::from(plan.runs) * 4);
    let mut series: Vec<Series> = Vec::new();
    for _ in 0..plan.runs {
        for (ours, base_line, load) in VARIANTS {
            progress.set_message(ours);
            add(&mut series, plan, ours, &load::in_library(plan, load)?);
            progress.inc(1);
            progress.set_message(base_line);
            add(&mut series, plan, base_line, &full_scan::run(plan, load)?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    for one in &mut series {
        one.samples.sort_by(f64::total_cmp);
    }
    let missing = Vec::new();
    Ok(Results { series, missing })
}

fn add(series: &mut Vec<Series>, plan: &Plan, variant: &'static str, calls: &Calls) {
    let microseconds = |ns: u64| ns as f64 / 1e3;
    let mean = microseconds(calls.time_ns) / calls.calls.max(1) as f64;
    let numbers = [
        (
            "worst call",
            Unit::Microseconds,
            microseconds(calls.worst_ns),
        ),
        ("mean call", Unit::Microseconds, mean),
        ("calls", Unit::Count, calls.calls as f64),
        ("dropped", Unit::Count, calls.dropped as f64),
    ];
    for (metric, unit, value) in numbers {
        let alike = |one: &&mut Series| one.key.variant == variant && one.metric == metric;
        match series.iter_mut().find(alike) {
            Some(one) => one.samples.push(value),
            None => series.push(Series {
                key: Key {
                    experiment: EXPERIMENT,
                    system: System::Uext4,
                    variant,
                    workers: plan.workers,
                },
                metric: metric.to_owned(),
                unit,
                samples: vec![value],
            }),
        }
    }
}
