//! Small transactions whose blocks all wait for their checkpoint: the time of each commit.

use super::calls::{Calls, Run};
use super::schedule::now;
use crate::checkpoint::{Queue, SMALL_TRANSACTION};
use anyhow::Result;
use uext4_journal::Tracking;
use uext4_sync::simulation;

/// The commits until all blocks wait.
pub(super) fn run(run: &Run<'_>) -> Result<Calls> {
    let blocks = u32::try_from(run.size)?;
    let tracking = if run.base_lines.scanned_checkpoints {
        Tracking::Scanned
    } else {
        Tracking::Counted
    };
    simulation::run(&run.host.machine, run.host.cores, || {
        let queue = Queue::new(blocks, SMALL_TRANSACTION, tracking)?;
        run.work.set();
        let mut calls = Calls::default();
        for first in (0..blocks).step_by(SMALL_TRANSACTION as usize) {
            let began = now();
            queue.commit(first..blocks.min(first + SMALL_TRANSACTION))?;
            calls.add(now() - began);
        }
        Ok(calls)
    })
}
