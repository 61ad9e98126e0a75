//! Small durable files: create, write 4 KiB, fsync, close.

use super::{Task, Work};
use crate::client::Client;
use anyhow::Result;
use std::time::{Duration, Instant};

const FILE_BYTES: usize = 4096;

struct Fsync {
    client: Box<dyn Client>,
    seconds: f64,
    /// Number of files; 0: as many as the time allows.
    count: u64,
}

pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let dir = format!("dir.{}", task.worker);
    client.make_dir(&dir)?;
    client.enter(&dir)?;
    Ok(Box::new(Fsync {
        client,
        seconds: task.seconds,
        count: task.count,
    }))
}

impl Work for Fsync {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        let data = [0x5a; FILE_BYTES];
        let mut done = 0;
        let goes_on = |done| match self.count {
            0 => Instant::now() < end,
            count => done < count,
        };
        while goes_on(done) {
            let file = self.client.open_new(&format!("file.{done}"))?;
            file.write(0, &data)?;
            file.fsync()?;
            done += 1;
        }
        Ok(done)
    }
}
