//! Time of operations on one real core, from a file.

use anyhow::{Context, Result};
use serde::Deserialize;

const FILE: &str = include_str!("../../machines/operations.json");

#[derive(Deserialize)]
struct File {
    /// Where the numbers come from.
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
    operations: Vec<Operation>,
}

#[derive(Deserialize)]
struct Operation {
    experiment: String,
    variant: String,
    metric: String,
    ns: f64,
    /// Time while the other core does the same for another file system, as a multiple; from
    /// `uext4-lab calibrate --operations`.
    #[serde(default = "one")]
    busy_scale: f64,
}

fn one() -> f64 {
    1.0
}

/// Time of one operation in picoseconds.
pub(super) fn time_ps(experiment: &str, variant: &str, metric: &str) -> Result<f64> {
    operation(experiment, variant, metric).map(|one| one.ns * 1e3)
}

/// Time of its work on this machine while the other core is busy, as a multiple: less than 1 is
/// noise of the measurement.
pub(super) fn busy_scale(experiment: &str, variant: &str, metric: &str) -> Result<f64> {
    operation(experiment, variant, metric).map(|one| one.busy_scale.max(1.0))
}

fn operation(experiment: &str, variant: &str, metric: &str) -> Result<Operation> {
    let file: File = serde_json::from_str(FILE).context("operations.json")?;
    file.operations
        .into_iter()
        .find(|one| {
            (&*one.experiment, &*one.variant, &*one.metric) == (experiment, variant, metric)
        })
        .with_context(|| {
            format!("operations.json has no time of {experiment}, {variant}, {metric}")
        })
}
