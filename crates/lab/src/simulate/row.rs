//! One row of the report.

use super::case::Outcome;
use std::time::Duration;
use uext4_sync::simulation::HotLine;

/// Result of one metric of one variant with one number of workers.
pub(super) struct Row {
    pub(super) variant: String,
    pub(super) workers: u32,
    pub(super) metric: String,
    /// Operations per second of all workers.
    pub(super) total: f64,
    /// Share of the rate of one worker that each worker reaches.
    pub(super) of_ideal: f64,
    /// Median and mean time of a call in microseconds, where the experiment takes them.
    pub(super) call_us: Option<(f64, f64)>,
    /// Transfers per operation within sockets, and between them.
    pub(super) near: f64,
    pub(super) far: f64,
    pub(super) hottest: Vec<HotLine>,
    /// The same by place of the code.
    pub(super) places: Vec<HotLine>,
    /// Time of all workers together, in picoseconds.
    pub(super) time_ps: u64,
}

impl Row {
    /// The row of `outcome`; `one` is that of one worker.
    pub(super) fn new(variant: &str, outcome: &Outcome, one: &Outcome) -> Self {
        let per_operation = |count: u64| count as f64 / outcome.amount.max(1) as f64;
        Self {
            variant: variant.to_owned(),
            workers: outcome.workers,
            metric: outcome.metric.clone(),
            total: outcome.total,
            of_ideal: each(outcome) / each(one),
            call_us: call_us(&outcome.latencies),
            near: per_operation(outcome.report.near),
            far: per_operation(outcome.report.far),
            hottest: outcome.report.hottest.clone(),
            places: outcome.report.places.clone(),
            time_ps: outcome.time_ps,
        }
    }
}

fn each(outcome: &Outcome) -> f64 {
    outcome.total / f64::from(outcome.workers)
}

/// Median and mean of ascending times, in microseconds.
fn call_us(times: &[Duration]) -> Option<(f64, f64)> {
    let median = times.get(times.len() / 2)?;
    let sum: f64 = times.iter().map(microseconds).sum();
    Some((microseconds(median), sum / times.len() as f64))
}

fn microseconds(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
