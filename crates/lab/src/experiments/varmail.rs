//! A mail server, as filebench's personality varmail: one directory of files of 16 KiB, of which
//! four in five exist. A worker removes one file, creates one, appends to two, each with an fsync,
//! and reads two.
//!
//! Difference: filebench's threads pick among all files; here each worker has a share of them, so
//! that workers in processes of their own need no common state.
//! References: filebench, `workloads/varmail.f` version 3.0; `appendfilerand` draws a length below
//! 16 KiB.

use super::phase::Work;
use super::task::Task;
use crate::client::{Client, OpenFile};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use uext4_testkit::rng::Rng;

/// Operations of one iteration as filebench counts them, opens and closes included.
pub(super) const OPERATIONS: u64 = 13;
/// Fsyncs of one iteration.
pub(super) const FSYNCS: u64 = 2;

const FILE_BYTES: usize = 16 << 10;
const APPEND_BYTES_MAX: u64 = 16 << 10;
const READ_BYTES: usize = 1 << 20;
/// Percentage of the files that exist.
const EXISTING: u64 = 80;

struct Varmail {
    client: Box<dyn Client>,
    /// Files that exist, with their sizes.
    files: Vec<(String, u64)>,
    absent: Vec<String>,
    rng: Rng,
    memory: Vec<u8>,
    seconds: f64,
}

/// Creates the worker's share of the files; they are durable before the clock runs.
pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    client.make_dir("mail")?;
    client.enter("mail")?;
    let share = task.count.div_ceil(task.workers.into()).max(2);
    let names = (0..share).map(|nr| format!("{}.{nr}", task.worker));
    let mut names: Vec<String> = names.collect();
    let absent = names.split_off((share * EXISTING).div_ceil(100) as usize);
    let files = names
        .into_iter()
        .map(|name| {
            let file = client.open_new(&name)?;
            file.write(0, &[0x5a; FILE_BYTES])?;
            Ok((name, FILE_BYTES as u64))
        })
        .collect::<Result<_>>()?;
    client.sync()?;
    Ok(Box::new(Varmail {
        client,
        files,
        absent,
        rng: Rng::new(1).fork(task.worker.into()),
        memory: vec![0x5a; READ_BYTES],
        seconds: task.seconds,
    }))
}

impl Varmail {
    fn iteration(&mut self) -> Result<()> {
        let removed = self.pick();
        let (name, _) = self.files.swap_remove(removed);
        self.client.remove(&name)?;
        self.absent.push(name);
        let created = self.rng.below(self.absent.len() as u64) as usize;
        let name = self.absent.swap_remove(created);
        let file = self.client.open_new(&name)?;
        self.files.push((name, 0));
        self.append(&*file, self.files.len() - 1)?;
        drop(file);
        let grown = self.pick();
        let file = self.read_whole(grown)?;
        self.append(&*file, grown)?;
        drop(file);
        let read = self.pick();
        self.read_whole(read).map(drop)
    }

    fn pick(&mut self) -> usize {
        self.rng.below(self.files.len() as u64) as usize
    }

    fn append(&mut self, file: &dyn OpenFile, index: usize) -> Result<()> {
        let len = self.rng.below(APPEND_BYTES_MAX);
        let (_, size_bytes) = &mut self.files[index];
        if len > 0 {
            file.write(*size_bytes, &self.memory[..len as usize])?;
            *size_bytes += len;
        }
        file.fsync()
    }

    /// Opens a file and reads all of it.
    fn read_whole(&mut self, index: usize) -> Result<Box<dyn OpenFile>> {
        let (name, size_bytes) = &self.files[index];
        let file = self.client.open(name).context("a file of this worker")?;
        let mut at = 0;
        while at < *size_bytes {
            let read = file.read(at, &mut self.memory)?;
            ensure!(read > 0, "{name} ends at byte {at} of {size_bytes}");
            at += read as u64;
        }
        Ok(file)
    }
}

impl Work for Varmail {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        let mut done = 0;
        while Instant::now() < end {
            self.iteration()?;
            done += 1;
        }
        Ok(done)
    }
}
