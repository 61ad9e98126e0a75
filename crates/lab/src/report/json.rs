//! One JSON object per line and metric.

use crate::measure::Results;
use crate::system::System;
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
    /// Median over that of the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_fuse2fs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of_kernel: Option<f64>,
}

/// The lines.
pub(crate) fn json_lines(results: &Results) -> Result<String> {
    let mut out = String::new();
    for series in &results.series {
        let line = Line {
            experiment: series.key.experiment,
            system: series.key.system.name(),
            variant: series.key.variant,
            workers: series.key.workers,
            metric: &series.metric,
            unit: series.unit.name(),
            median: series.median(),
            min: series.min(),
            max: series.max(),
            runs: series.samples.len(),
            of_fuse2fs: series.ratio(results, System::Fuse2fs),
            of_kernel: series.ratio(results, System::KernelExt4),
        };
        out.push_str(&serde_json::to_string(&line)?);
        out.push('\n');
    }
    for (system, why) in &results.missing {
        eprintln!("{}: missing: {why}", system.name());
    }
    Ok(out)
}
