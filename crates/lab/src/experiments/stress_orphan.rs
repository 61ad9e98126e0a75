//! Files that lose their name while they are open: each is tracked as an orphan, and no longer when
//! it is closed.
//!
//! Every file has a directory of its own worker, so that orphans are all that workers share.

use super::{Task, Work};
use crate::seat::Seat;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Between two looks at the clock.
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
