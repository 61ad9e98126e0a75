//! One JSON object per line and metric.

use crate::measure::Results;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Line<'a> {
    experiment: &'a str,
    system: &'a str,
    variant: &'a str,
    workers: u32,
    metric: &'a str,
    unit: &'a str,
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
}

pub(crate) fn json_lines(results: &Results) -> Result<String> {
    let mut out = String::new();
    for series in &results.series {
        let line = Line {
            experiment: series.key.experiment,
            system: series.key.system.name(),
            variant: &series.key.variant,
            workers: series.key.workers,
            metric: &series.metric,
            unit: series.unit.name(),
            median: series.median(),
            min: series.min(),
            max: series.max(),
            runs: series.samples.len(),
        };
        out.push_str(&serde_json::to_string(&line)?);
        out.push('\n');
    }
    for (system, why) in &results.missing {
        eprintln!("{}: missing: {why}", system.name());
    }
    Ok(out)
}
