//! Small durable changes, each with an fsync: a new file of 4 KiB, or 512 bytes at the end of the
//! worker's file.

use super::phase::Work;
use super::task::{Clock, Task};
use crate::client::{Client, OpenFile};
use crate::workers::now;
use anyhow::Result;
use std::time::Duration;

pub(super) const CREATE: &str = "create";
pub(super) const APPEND: &str = "append";

const FILE_BYTES: usize = 4096;
const APPEND_BYTES: usize = 512;

struct Fsync {
    client: Box<dyn Client>,
    /// The file that grows, and its size; none makes new files.
    grows: Option<(Box<dyn OpenFile>, u64)>,
    seconds: f64,
    /// Number of changes; 0: as many as the time allows.
    count: u64,
    /// Times of the calls of `fsync`.
    latencies: Vec<Duration>,
}

/// The directory, and the file that grows, are durable before the clock runs.
pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let dir = format!("dir.{}", task.worker);
    client.make_dir(&dir)?;
    client.enter(&dir)?;
    let grows = match &*task.variant {
        APPEND => Some((client.open_new("grows")?, 0)),
        _ => None,
    };
    client.sync()?;
    Ok(Box::new(Fsync {
        client,
        grows,
        seconds: task.seconds,
        count: task.count,
        latencies: Vec::new(),
    }))
}

impl Fsync {
    fn change(&mut self, nr: u64) -> Result<()> {
        match &mut self.grows {
            Some((file, size_bytes)) => {
                file.write(*size_bytes, &[0x5a; APPEND_BYTES])?;
                *size_bytes += APPEND_BYTES as u64;
                timed(&mut self.latencies, || file.fsync())
            }
            None => {
                let file = self.client.open_new(&format!("file.{nr}"))?;
                file.write(0, &[0x5a; FILE_BYTES])?;
                timed(&mut self.latencies, || file.fsync())
            }
        }
    }
}

/// Runs one call and adds its time.
fn timed(latencies: &mut Vec<Duration>, call: impl FnOnce() -> Result<()>) -> Result<()> {
    let began = now(Clock::Wall);
    call()?;
    latencies.push(now(Clock::Wall) - began);
    Ok(())
}

impl Work for Fsync {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = now(Clock::Wall) + Duration::from_secs_f64(self.seconds);
        let (count, mut done) = (self.count, 0);
        while if count == 0 {
            now(Clock::Wall) < end
        } else {
            done < count
        } {
            self.change(done)?;
            done += 1;
        }
        Ok(done)
    }

    #[cfg(simulated)]
    fn take_latencies(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.latencies)
    }
}
