//! What the user chose to simulate.

use std::path::PathBuf;

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) experiment: String,
    pub(crate) machine: String,
    pub(crate) workers: Vec<u32>,
    pub(crate) variants: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) count: Option<u64>,
    /// Files or blocks of the experiments that measure calls.
    pub(crate) sizes: Vec<u64>,
    pub(crate) image_mib: Option<u64>,
    pub(crate) journal_mib: u64,
    pub(crate) latency_us: f64,
    pub(crate) megabytes_per_second: f64,
    pub(crate) json: bool,
    pub(crate) svg: Option<PathBuf>,
}

impl Plan {
    /// The requested numbers of workers, or these.
    pub(super) fn workers_or(&self, usual: &[u32]) -> Vec<u32> {
        let chosen = if self.workers.is_empty() {
            usual
        } else {
            &self.workers
        };
        chosen
            .iter()
            .copied()
            .filter(|workers| *workers > 0)
            .collect()
    }
}
