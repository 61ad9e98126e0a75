//! Many threads in one file system, small: `cargo xtask threads` is the large run.

use crate::image;
use crate::worker::{self, Model, Worker};
use std::sync::Arc;
use std::thread;
use uext4::{Filesystem, MountOptions};

const THREADS: u64 = 16;
const STEPS: u64 = 3000;

#[test]
fn sixteen_threads_agree_with_their_models() {
    let device = image::ext4(256);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let run = |id| {
        let worker = Worker::new(&fs, id, id).unwrap();
        thread::spawn(move || worker.work(|done| done < STEPS).0)
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    let models: Vec<Model> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    fs.unmount().unwrap();
    image::assert_clean(&device);

    let fs = image::mount(&device);
    for (id, model) in models.iter().enumerate() {
        worker::check(&fs, id as u64, model).unwrap();
    }
}
