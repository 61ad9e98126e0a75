//! Files that are unlinked while open: each is tracked as an orphan until it is closed.
//!
//! Every worker has its own directory, so that workers share only the tracking of orphans.

use super::{Task, Work};
use crate::seat::Seat;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Files between two reads of the clock.
const BATCH: u64 = 16;

struct StressOrphan {
    seat: Box<dyn Seat>,
    seconds: f64,
}

pub(super) fn start(task: Task, mut seat: Box<dyn Seat>) -> Result<Box<dyn Work>> {
    let dir = format!("dir.{}", task.worker);
    seat.make_dir(&dir)?;
    seat.enter(&dir)?;
    Ok(Box::new(StressOrphan {
        seat,
        seconds: task.seconds,
    }))
}

impl Work for StressOrphan {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        let mut done = 0;
        while Instant::now() < end {
            for _ in 0..BATCH {
                let file = self.seat.open_new("orphan")?;
                self.seat.remove("orphan")?;
                drop(file);
            }
            done += BATCH;
        }
        Ok(done)
    }
}
