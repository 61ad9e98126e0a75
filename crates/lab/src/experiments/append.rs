//! Concurrent writers that append 4 KiB at a time, each to its own file: fragmentation of the
//! files.
//!
//! The last two phases count extents after an fsync; they are not timed.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::{Client, OpenFile};
use anyhow::Result;

const STEP_BYTES: usize = 4096;
const APPEND: usize = 0;
const EXTENTS: usize = 1;

pub(super) fn phases() -> Vec<Phase> {
    vec![
        Phase::new("append", Unit::MegabytesPerSecond),
        Phase::new("extents per file", Unit::Mean),
        Phase::new("extent length", Unit::MeanKibibytes),
    ]
}

struct Append {
    file: Box<dyn OpenFile>,
    steps: u64,
}

pub(super) fn start(task: Task, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let file = client.open_new(&format!("append.{}", task.worker))?;
    Ok(Box::new(Append {
        file,
        steps: task.count,
    }))
}

impl Append {
    fn extents(&self) -> Result<u64> {
        self.file.fsync()?;
        Ok(self.file.extent_count()? as u64)
    }
}

impl Work for Append {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let bytes = self.steps * STEP_BYTES as u64;
        match index {
            APPEND => {
                let data = [0x5a; STEP_BYTES];
                for step in 0..self.steps {
                    self.file.write(step * STEP_BYTES as u64, &data)?;
                }
                Ok(bytes)
            }
            EXTENTS => self.extents(),
            _ => Ok(bytes / 1024 / self.extents()?.max(1)),
        }
    }
}
