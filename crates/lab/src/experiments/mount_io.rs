//! Sequential data: write a new file and fsync it, forget the cache, read it back; at 1 MiB and
//! at 4 KiB a call.

use super::{Phase, Task, Unit, Work};
use crate::seat::{OpenFile, Seat};
use anyhow::{Context, Result, ensure};

const CALLS_BYTES: [(&str, usize); 2] = [("1 MiB", 1 << 20), ("4 KiB", 4096)];

pub(super) fn phases() -> Vec<Phase> {
    let both = |(name, _)| {
        ["write", "read"].map(|what| Phase::new(format!("{what} {name}"), Unit::MegabytesPerSecond))
    };
    CALLS_BYTES.into_iter().flat_map(both).collect()
}

struct MountIo {
    seat: Box<dyn Seat>,
    worker: u32,
    size_bytes: u64,
    file: Option<Box<dyn OpenFile>>,
}

pub(super) fn start(task: Task, seat: Box<dyn Seat>) -> Result<Box<dyn Work>> {
    let size_bytes = task.count << 20;
    Ok(Box::new(MountIo {
        seat,
        worker: task.worker,
        size_bytes,
        file: None,
    }))
}

impl Work for MountIo {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let (_, call_bytes) = CALLS_BYTES[index / 2];
        match index % 2 {
            0 => self.write(index, call_bytes)?,
            _ => self.read(call_bytes)?,
        }
        Ok(self.size_bytes)
    }
}

impl MountIo {
    fn write(&mut self, index: usize, call_bytes: usize) -> Result<()> {
        let file = self
            .seat
            .open_new(&format!("data.{}.{index}", self.worker))?;
        let data = vec![0x5a; call_bytes];
        for offset in (0..self.size_bytes).step_by(call_bytes) {
            file.write(offset, &data)?;
        }
        file.fsync()?;
        file.drop_cache()?;
        self.file = Some(file);
        Ok(())
    }

    fn read(&mut self, call_bytes: usize) -> Result<()> {
        let file = self
            .file
            .take()
            .context("the file was written in the phase before")?;
        let mut buf = vec![0; call_bytes];
        for offset in (0..self.size_bytes).step_by(call_bytes) {
            let read = file.read(offset, &mut buf)?;
            ensure!(read == call_bytes, "short read at byte {offset}");
        }
        Ok(())
    }
}
