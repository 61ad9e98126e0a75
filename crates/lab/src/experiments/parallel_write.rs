//! Writers on a new file system, each with a file of its own: writes of 64 KiB, then an fsync.
//!
//! A second round truncates the file to zero and writes it again. The last phase counts extents.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::{Client, OpenFile};
use anyhow::Result;

const PIECE_BYTES: usize = 64 << 10;
const AGAIN: usize = 1;
const EXTENTS: usize = 2;

pub(super) fn phases() -> Vec<Phase> {
    vec![
        Phase::new("first write", Unit::MegabytesPerSecond),
        Phase::new("second write", Unit::MegabytesPerSecond),
        Phase::new("extents per file", Unit::Mean),
    ]
}

struct ParallelWrite {
    file: Box<dyn OpenFile>,
    size_bytes: u64,
}

pub(super) fn start(task: Task, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let file = client.open_new(&format!("parallel.{}", task.worker))?;
    Ok(Box::new(ParallelWrite {
        file,
        size_bytes: task.count << 20,
    }))
}

impl ParallelWrite {
    fn write(&self) -> Result<u64> {
        let data = vec![0x5a; PIECE_BYTES];
        for at in (0..self.size_bytes).step_by(PIECE_BYTES) {
            self.file.write(at, &data)?;
        }
        self.file.fsync()?;
        Ok(self.size_bytes)
    }
}

impl Work for ParallelWrite {
    fn phase(&mut self, index: usize) -> Result<u64> {
        match index {
            EXTENTS => return Ok(self.file.extent_count()? as u64),
            AGAIN => self.file.truncate(0)?,
            _ => {}
        }
        self.write()
    }
}
