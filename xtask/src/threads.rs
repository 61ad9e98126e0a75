//! Stress test of many threads in one file system through the library, each with a model of its
//! names.
//!
//! The same work by 1, 2 and 16 threads yields three throughputs. After each, e2fsck and a second
//! mount check the image.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use uext4::device::{Access, FileDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_sync::LockWait;
use uext4_testkit::oracle::{e2fsck, scratch_dir};

#[path = "../../crates/fs/tests/it/worker.rs"]
mod worker;

use worker::{Model, Worker};

const IMAGE_BYTES: u64 = 1 << 30;
const MOST_THREADS: u64 = 16;
/// Number of lock ranks that are listed with their waits.
const WAITS_SHOWN: usize = 4;

/// Result of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Threads.
    pub threads: u64,
    /// Operations of all of them.
    pub operations: u64,
    /// Time from the start of the threads to the end of the last.
    pub time: Duration,
    /// Total time that handles waited for a transaction, over all threads.
    pub handle_wait: Duration,
}

impl Throughput {
    /// Operations of all threads in one second.
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }
}

/// Measures 1, 2 and 16 threads: the 16 for `time`, the others for a quarter of it.
///
/// A report of e2fsck or a model; 16 threads that are not faster than one.
pub fn run(time: Duration, seed: u64) -> Result<[Throughput; 3]> {
    println!("seed {seed}");
    let mut results = Vec::new();
    for (threads, time) in [(1, time / 4), (2, time / 4), (MOST_THREADS, time)] {
        let before = uext4_sync::lock_waits();
        let result = measure(threads, time, seed)
            .with_context(|| format!("{threads} threads, seed {seed}"))?;
        println!(
            "{threads:2} threads: {:8.0} operations per second together ({} in {:.1} s)",
            result.per_second(),
            result.operations,
            result.time.as_secs_f64()
        );
        print_waits(&before, result);
        results.push(result);
    }
    let results: [Throughput; 3] = results.try_into().expect("three were measured");
    let [one, _, most] = results.map(|result| result.per_second());
    ensure!(
        most > one,
        "{MOST_THREADS} threads together are slower than one"
    );
    Ok(results)
}

/// Prints the longest waits since `before`: for transactions and per lock rank.
fn print_waits(before: &[LockWait], result: Throughput) {
    let milliseconds = |time: Duration| time.as_millis();
    let mut waits: Vec<_> = uext4_sync::lock_waits()
        .into_iter()
        .zip(before)
        .map(|(now, old)| (now.wait_ns - old.wait_ns, now.waits - old.waits, now.rank))
        .collect();
    waits.sort_unstable_by_key(|(wait_ns, ..)| std::cmp::Reverse(*wait_ns));
    print!("   waits: handles {} ms", milliseconds(result.handle_wait));
    for (wait_ns, waits, rank) in waits.into_iter().take(WAITS_SHOWN) {
        let time = milliseconds(Duration::from_nanos(wait_ns));
        print!(", {rank:?} {time} ms in {waits}");
    }
    println!();
}

/// Runs `threads` threads for `time` in a fresh file system, and checks it.
///
/// A report of e2fsck or a model.
pub fn measure(threads: u64, time: Duration, seed: u64) -> Result<Throughput> {
    let scratch = scratch_dir()?;
    let image = scratch.path().join("image");
    let device = FileDevice::create(&image, IMAGE_BYTES)?;
    mkfs::format(&device, &MkfsOptions::new(Preset::Ext4))?;
    drop(device);

    let fs = Arc::new(mount(&image)?);
    let workers: Vec<Worker> = (0..threads)
        .map(|id| Worker::new(&fs, id, seed ^ id))
        .collect::<uext4::Result<_>>()?;
    let start = Instant::now();
    let handles: Vec<_> = workers
        .into_iter()
        .map(|worker| thread::spawn(move || worker.work(|_| start.elapsed() < time)))
        .collect();
    let mut models: Vec<Model> = Vec::new();
    let mut operations = 0;
    for handle in handles {
        let done = handle
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        models.push(done.0);
        operations += done.1;
    }
    let time = start.elapsed();
    let handle_wait = Duration::from_nanos(fs.stats().journal.handle_wait_ns);
    fs.unmount()?;
    // Dropping the last reference closes the image.
    drop(fs);
    judge(&image, &models)?;
    Ok(Throughput {
        threads,
        operations,
        time,
        handle_wait,
    })
}

fn mount(image: &Path) -> Result<Filesystem> {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite)?);
    Ok(Filesystem::mount(device, MountOptions::default())?)
}

fn judge(image: &Path, models: &[Model]) -> Result<()> {
    let verdict = e2fsck(image)?;
    ensure!(verdict.is_clean(), "{verdict}");
    let fs = mount(image)?;
    for (id, model) in models.iter().enumerate() {
        worker::check(&fs, id as u64, model)?;
    }
    Ok(fs.unmount()?)
}
