//! `tracing` events of the free-space trees, at the tracepoints of the kernel patch that proposed
//! them.
//!
//! Layout: the target is [`TARGET`]; fields are numbers, lengths in clusters. Searches, takes and
//! returns are events of level `TRACE`; building, learning and dropping trees is `DEBUG`. Without a
//! subscriber an event costs the load of a read-only word.

use crate::Run;
use tracing::{debug, trace};

/// Target of the events, by which filters of `tracing` select them.
pub(crate) const TARGET: &str = "uext4::freespace_tree";

/// The tree of a region was built from its bitmaps.
pub(crate) fn tree_built(region: u32, runs: u64, longest: u32) {
    debug!(target: TARGET, region, runs, longest, "tree built");
}

/// The longest run of a region was found without a tree.
pub(crate) fn region_surveyed(region: u32, longest: u32) {
    debug!(target: TARGET, region, longest, "region surveyed");
}

/// A tree was dropped because memory was short, or on request.
pub(crate) fn tree_dropped(region: u32, runs: u64) {
    debug!(target: TARGET, region, runs, "tree dropped");
}

/// The summary led a search to a region.
pub(crate) fn region_chosen(region: u32, longest: u32, want: u32) {
    trace!(target: TARGET, region, longest, want, "region chosen");
}

/// No known region has a run of this length: the criterion fails without a scan.
pub(crate) fn criterion_failed(criterion: &'static str, want: u32) {
    trace!(target: TARGET, criterion, want, "criterion failed");
}

/// A run was taken from a tree.
pub(crate) fn run_taken(region: u32, run: Run) {
    trace!(target: TARGET, region, start = run.start.0, len = run.len, "run taken");
}

/// A run was returned to a tree.
pub(crate) fn run_returned(region: u32, run: Run) {
    trace!(target: TARGET, region, start = run.start.0, len = run.len, "run returned");
}

/// Runs were returned to a region without a tree: its longest run is unknown now.
pub(crate) fn region_unknown(region: u32, runs: usize) {
    debug!(target: TARGET, region, runs, "region unknown");
}
