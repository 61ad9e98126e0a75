//! Many threads in one file system, small size; `cargo xtask threads` is the large run.

use crate::image;
use crate::worker::{self, Model, Worker};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use uext4::device::{BlockDevice, Error, MemDevice};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_sync::{shard_index, shards};

const THREADS: u64 = 16;
const STEPS: u64 = 3000;

/// Joins the workers, unmounts, and checks the image by e2fsck and the models.
pub(crate) fn finish(workers: Vec<JoinHandle<Model>>, fs: &Filesystem, device: &Arc<MemDevice>) {
    let models: Vec<Model> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    fs.unmount().unwrap();
    image::assert_clean(device);
    let fs = image::mount(device);
    for (id, model) in models.iter().enumerate() {
        worker::check(&fs, id as u64, model).unwrap();
    }
}

#[test]
fn sixteen_threads_agree_with_their_models() {
    let device = image::ext4(256);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let run = |id| {
        let worker = Worker::new(&fs, id, id).unwrap();
        thread::spawn(move || worker.work(|done| done < STEPS).0)
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    finish(workers, &fs, &device);
}

/// Steps of each thread in [`every_engine_agrees_with_its_models`].
fn stress_steps() -> u64 {
    let asked = std::env::var("UEXT4_STRESS_STEPS").ok();
    asked.and_then(|steps| steps.parse().ok()).unwrap_or(100)
}

/// All allocators, with and without delayed allocation, with quota, during commits, memory reclaim
/// and freezes.
#[test]
fn every_engine_agrees_with_its_models() {
    for engine in ["linear", "optimized", "freespace-tree"] {
        for delayed in ["delalloc", "nodelalloc"] {
            stress(&format!("allocator={engine},{delayed},extent_cache=4096"));
        }
    }
}

fn stress(list: &str) {
    const THREADS: u64 = 6;
    let mut made = MkfsOptions::new(Preset::Ext4);
    let features = made.features.apply_list("quota,project");
    features.expect("features that there are");
    let device = image::fresh(128, &made);
    let options = MountOptions::default().parse(list).unwrap();
    let fs = Arc::new(Filesystem::mount(device.clone(), options).unwrap());
    let steps = stress_steps();
    let run = |id| {
        let worker = Worker::new(&fs, id, id).unwrap();
        thread::spawn(move || worker.work(|done| done < steps).0)
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    while !workers.iter().all(JoinHandle::is_finished) {
        fs.sync().unwrap();
        fs.reclaim_memory();
        fs.freeze().unwrap();
        fs.thaw().unwrap();
    }
    finish(workers, &fs, &device);
}

#[test]
fn memory_is_given_back_while_they_work() {
    let device = image::ext4(64);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let run = |id| {
        let worker = Worker::new(&fs, id, id).unwrap();
        thread::spawn(move || worker.work(|done| done < STEPS / 3).0)
    };
    let workers: Vec<_> = (0..4).map(run).collect();
    let (mut inodes, mut blocks, mut rounds) = (0, 0, 0);
    // Recently used entries are reclaimed in the second round. On a busy machine the workers may
    // finish first.
    while rounds < 3 || !workers.iter().all(JoinHandle::is_finished) {
        fs.sync().unwrap(); // what a transaction holds stays
        let relief = fs.reclaim_memory();
        inodes += relief.inodes;
        blocks += relief.blocks;
        rounds += 1;
    }
    assert!(inodes > 0 && blocks > 0, "{inodes} {blocks}");
    assert!(fs.stats().memory_reliefs > 0);
    for (id, worker) in workers.into_iter().enumerate() {
        worker::check(&fs, id as u64, &worker.join().unwrap()).unwrap();
    }
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// A device whose first read starts a thread that takes a shard.
struct EarlyThread {
    device: Arc<MemDevice>,
    shard: OnceLock<usize>,
}

impl BlockDevice for EarlyThread {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.shard
            .get_or_init(|| thread::spawn(shard_index).join().unwrap());
        self.device.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.device.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        self.device.flush()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
}

/// The shard of the thread that mounts, and with it the inodes that it gets, does not depend on
/// when other threads begin to run.
#[test]
fn the_mounting_thread_takes_its_shard_first() {
    let mounting = thread::spawn(|| {
        let device = Arc::new(EarlyThread {
            device: image::ext4(16),
            shard: OnceLock::new(),
        });
        let fs = Filesystem::mount(device.clone(), MountOptions::default()).unwrap();
        fs.unmount().unwrap();
        (shard_index(), *device.shard.get().unwrap())
    });
    let (own, early) = mounting.join().unwrap();
    // Numbers go round; threads of other tests may have taken some in between.
    let after = (early + shards() - own) % shards();
    assert!(
        after < shards() / 2,
        "own {own}, of the early thread {early}"
    );
}
