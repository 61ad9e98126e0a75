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
}

/// Time of one operation in picoseconds.
pub(super) fn time_ps(experiment: &str, variant: &str, metric: &str) -> Result<f64> {
    let file: File = serde_json::from_str(FILE).context("operations.json")?;
    let is_it = |one: &&Operation| {
        (&*one.experiment, &*one.variant, &*one.metric) == (experiment, variant, metric)
    };
    let found = file.operations.iter().find(is_it);
    let one = found.with_context(|| {
        format!("operations.json has no time of {experiment}, {variant}, {metric}")
    })?;
    Ok(one.ns * 1e3)
}
