//! Files that are unlinked while open: each is tracked as an orphan until it is closed.
//!
//! Every worker has its own directory, so that workers share only the tracking of orphans.

use super::{Clock, Task, Work};
use crate::client::Client;
use crate::workers::now;
use anyhow::Result;
use std::time::Duration;

/// Files between two reads of the clock.
const BATCH: u64 = 16;

struct StressOrphan {
    client: Box<dyn Client>,
    seconds: f64,
}

pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let dir = format!("dir.{}", task.worker);
    client.make_dir(&dir)?;
    client.enter(&dir)?;
    Ok(Box::new(StressOrphan {
        client,
        seconds: task.seconds,
    }))
}

impl Work for StressOrphan {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = now(Clock::Wall) + Duration::from_secs_f64(self.seconds);
        let mut done = 0;
        while now(Clock::Wall) < end {
            for _ in 0..BATCH {
                let file = self.client.open_new("orphan")?;
                self.client.remove("orphan")?;
                drop(file);
            }
            done += BATCH;
        }
        Ok(done)
    }
}
