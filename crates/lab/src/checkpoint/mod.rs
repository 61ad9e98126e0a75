//! What it costs to know which committed blocks are not at home yet.
//!
//! Two questions: how much of the time of small durable files it takes ([`files`]), and whether it
//! stays the same per block however many blocks are queued ([`queue`]).

mod discarding;
mod files;
mod queue;

use crate::experiments::Unit;
use crate::measure::{Key, Results, Series, progress};
use crate::system::System;
use anyhow::{Context, Result};

const EXPERIMENT: &str = "checkpoint";
/// The variant of small durable files.
const FILES: &str = "files";
/// Variants with as many queued blocks.
const QUEUES: [(&str, u32); 4] = [
    ("queue-1000", 1000),
    ("queue-10000", 10_000),
    ("queue-100000", 100_000),
    ("queue-1000000", 1_000_000),
];

/// Everything that the user chose.
pub(crate) struct Plan {
    /// Files in all.
    pub(crate) files: u64,
    pub(crate) workers: Vec<u32>,
    pub(crate) systems: Vec<System>,
    pub(crate) runs: u32,
    pub(crate) image_mib: u64,
    pub(crate) journal_mib: u64,
    /// Longer queues are left out.
    pub(crate) queue_max: u32,
    /// Of uext4, in the library and through the mount.
    pub(crate) mount_options: String,
}

/// One number of one run.
struct Sample {
    key: Key,
    metric: &'static str,
    unit: Unit,
    value: f64,
}

fn sample(key: &Key, metric: &'static str, unit: Unit, value: f64) -> Sample {
    let key = key.clone();
    Sample {
        key,
        metric,
        unit,
        value,
    }
}

/// Runs everything, in turns.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let split = |system: &System| system.missing().map(|why| (*system, why));
    let missing: Vec<_> = plan.systems.iter().filter_map(split).collect();
    let progress = progress(u64::from(plan.runs) * 2);
    let mut stage = files::Ground::new(plan)?;
    let mut series = Vec::new();
    for _ in 0..plan.runs {
        progress.set_message("files");
        add(&mut series, stage.run(plan)?);
        progress.inc(1);
        progress.set_message("queues");
        for (variant, blocks) in QUEUES {
            if blocks <= plan.queue_max {
                let samples = queue::run(variant, blocks).context(variant)?;
                add(&mut series, samples);
            }
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    for one in &mut series {
        one.samples.sort_by(f64::total_cmp);
    }
    Ok(Results { series, missing })
}

fn add(series: &mut Vec<Series>, samples: Vec<Sample>) {
    for one in samples {
        let alike = |known: &&mut Series| known.key == one.key && known.metric == one.metric;
        match series.iter_mut().find(alike) {
            Some(known) => known.samples.push(one.value),
            None => series.push(Series {
                key: one.key,
                metric: one.metric.to_owned(),
                unit: one.unit,
                samples: vec![one.value],
            }),
        }
    }
}
