//! Files that are unlinked while open: each is tracked as an orphan until it is closed. Then
//! truncates of such a file, which stays tracked.
//!
//! Every worker has its own directory, so that workers share only the tracking of orphans.

use super::phase::{Phase, Unit, Work};
use super::task::{Clock, Task};
use crate::client::{Client, OpenFile};
use crate::workers::now;
use anyhow::Result;
use std::time::Duration;

/// Operations between two reads of the clock.
const BATCH: u64 = 16;
const UNLINKED: usize = 0;
const BLOCK_BYTES: u64 = 4096;

pub(super) fn phases() -> Vec<Phase> {
    ["unlinked", "truncated"]
        .map(|metric| Phase::new(metric, Unit::PerSecond))
        .to_vec()
}

struct StressOrphan {
    client: Box<dyn Client>,
    seconds: f64,
    /// It has lost its name.
    file: Box<dyn OpenFile>,
}

pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let dir = format!("dir.{}", task.worker);
    client.make_dir(&dir)?;
    client.enter(&dir)?;
    let file = client.open_new("truncated")?;
    client.remove("truncated")?;
    Ok(Box::new(StressOrphan {
        client,
        seconds: task.seconds,
        file,
    }))
}

impl StressOrphan {
    fn operation(&self, phase: usize) -> Result<()> {
        if phase == UNLINKED {
            let file = self.client.open_new("orphan")?;
            self.client.remove("orphan")?;
            drop(file);
            return Ok(());
        }
        self.file.truncate(BLOCK_BYTES)?;
        self.file.truncate(0)
    }
}

impl Work for StressOrphan {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let end = now(Clock::Wall) + Duration::from_secs_f64(self.seconds);
        let mut done = 0;
        while now(Clock::Wall) < end {
            for _ in 0..BATCH {
                self.operation(index)?;
            }
            done += BATCH;
        }
        Ok(done)
    }
}
