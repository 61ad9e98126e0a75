//! Creates in one growing directory; each chunk of names is a metric of its own, which shows a rate
//! that falls with the size.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::Client;
use anyhow::Result;

/// Names per chunk, all workers together.
const CHUNK: u64 = 20_000;

fn chunk(count: u64, workers: u32) -> u64 {
    CHUNK.min(count).div_ceil(workers.into()).max(1)
}

pub(super) fn phases(count: u64, workers: u32) -> Vec<Phase> {
    let step = chunk(count, workers) * u64::from(workers);
    let starts = (0..count.max(1)).step_by(step as usize);
    starts
        .map(|from| Phase::new(format!("create from {from}"), Unit::PerSecond))
        .collect()
}

struct MountCreate {
    client: Box<dyn Client>,
    worker: u32,
    chunk: u64,
}

pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    client.make_dir("dir")?;
    client.enter("dir")?;
    let chunk = chunk(task.count, task.workers);
    Ok(Box::new(MountCreate {
        client,
        worker: task.worker,
        chunk,
    }))
}

impl Work for MountCreate {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let first = index as u64 * self.chunk;
        for number in first..first + self.chunk {
            self.client
                .create(&format!("file.{}.{number}", self.worker))?;
        }
        Ok(self.chunk)
    }
}
