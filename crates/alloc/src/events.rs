//! What free-space trees do, as `tracing` events for whoever subscribes: at the places where the
//! patch that proposed the trees has tracepoints.
//!
//! Layout: the target of all is [`TARGET`]; fields are numbers, in clusters where they are lengths.
//! Searches, takes and returns are events of the level `TRACE`, what builds, learns and drops trees
//! is `DEBUG`. Without a subscriber an event costs the load of a word that nobody changes.

use crate::Run;
use tracing::{debug, trace};

/// The target of the events.
pub(crate) const TARGET: &str = "uext4::freespace_tree";

/// The tree of a region was built from its bitmaps.
pub(crate) fn tree_built(region: u32, runs: u64, longest: u32) {
    debug!(target: TARGET, region, runs, longest, "tree built");
}

/// The longest run of a region was found without a tree.
pub(crate) fn region_surveyed(region: u32, longest: u32) {
    debug!(target: TARGET, region, longest, "region surveyed");
}

/// A tree went because memory was short, or was asked back.
pub(crate) fn tree_dropped(region: u32, runs: u64) {
    debug!(target: TARGET, region, runs, "tree dropped");
}

/// The summary led a search to a region.
pub(crate) fn region_chosen(region: u32, longest: u32, want: u32) {
    trace!(target: TARGET, region, longest, want, "region chosen");
}

/// No known region has a run of this length: the criterion falls, without a scan.
pub(crate) fn criterion_failed(criterion: &'static str, want: u32) {
    trace!(target: TARGET, criterion, want, "criterion failed");
}

/// A run was taken from a tree.
pub(crate) fn run_taken(region: u32, run: Run) {
    trace!(target: TARGET, region, start = run.start.0, len = run.len, "run taken");
}

/// A run came back to a tree.
pub(crate) fn run_returned(region: u32, run: Run) {
    trace!(target: TARGET, region, start = run.start.0, len = run.len, "run returned");
}

/// Runs came back to a region whose tree is away: its longest run is not known any more.
pub(crate) fn region_unknown(region: u32, runs: usize) {
    debug!(target: TARGET, region, runs, "region unknown");
}
