//! Load on allocator, journal and extent tree, as in will-it-scale's `fallocate2`.
//!
//! Each worker has an unlinked file. One operation allocates 8 KiB at its end; after 128 of them
//! the file is truncated to zero, which is timed but not counted as an operation.

use super::phase::Work;
use super::task::{Clock, Task};
use crate::client::{Client, OpenFile};
use crate::workers::now;
use anyhow::Result;
use std::time::Duration;

const STEP_BYTES: u64 = 8192;
const STEPS: u64 = 128;

struct Fallocate2 {
    file: Box<dyn OpenFile>,
    seconds: f64,
}

pub(super) fn start(task: Task, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let name = format!("fallocate2.{}", task.worker);
    let file = client.open_new(&name)?;
    client.remove(&name)?;
    Ok(Box::new(Fallocate2 {
        file,
        seconds: task.seconds,
    }))
}

impl Work for Fallocate2 {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = now(Clock::Wall) + Duration::from_secs_f64(self.seconds);
        let mut done = 0;
        while now(Clock::Wall) < end {
            for step in 0..STEPS {
                self.file.fallocate(step * STEP_BYTES, STEP_BYTES)?;
            }
            self.file.truncate(0)?;
            done += STEPS;
        }
        Ok(done)
    }
}
