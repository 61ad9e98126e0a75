//! Concurrent operations on one object while its blocks and inode numbers are freed and reused. The
//! threads' file contents and e2fsck are the judges.
//!
//! `UEXT4_TOGETHER_ROUNDS` sets the rounds of each test. Every round uses a new file system, and
//! its number is the seed of its threads.

mod links;
mod orphans;
mod ranges;
mod xattrs;

use crate::image;
use std::sync::Arc;
use std::thread;
use uext4::device::MemDevice;
use uext4::{Caller, Filesystem, InodeRef, MountOptions};

/// Rounds of a test, unless the environment asks for more.
fn rounds(default: u64) -> u64 {
    let asked = std::env::var("UEXT4_TOGETHER_ROUNDS").ok();
    asked
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(default)
}

/// Mounts with background threads and these options.
fn mount(device: &Arc<MemDevice>, list: &str) -> Arc<Filesystem> {
    let options = MountOptions::default().parse(list).expect("good options");
    Arc::new(Filesystem::mount(device.clone(), options).expect("mounts"))
}

/// Runs `work(0)`, `work(1)`, ... in `count` threads. Returns the results in that order.
fn in_threads<T: Send + 'static>(
    count: u64,
    work: impl Fn(u64) -> T + Send + Clone + 'static,
) -> Vec<T> {
    let start = |id| {
        let work = work.clone();
        thread::spawn(move || work(id))
    };
    let threads: Vec<_> = (0..count).map(start).collect();
    let join = |thread: thread::JoinHandle<T>| thread.join().expect("no thread panics");
    threads.into_iter().map(join).collect()
}

/// A new file in the root.
fn create(fs: &Filesystem, name: &str) -> InodeRef {
    let root = fs.root().expect("a root");
    let made = fs.create(&root, name.as_bytes(), 0o644, &Caller::root());
    made.expect("a new name")
}

/// The file of this name in the root.
fn open(fs: &Filesystem, name: &str) -> InodeRef {
    let root = fs.root().expect("a root");
    let found = fs.lookup(&root, name.as_bytes(), &Caller::root());
    found.expect("a name")
}

/// All bytes of a file.
fn content(fs: &Filesystem, file: &InodeRef) -> Vec<u8> {
    let mut bytes = vec![0; fs.attr(file).size_bytes as usize];
    let len = fs.read(file, 0, &mut bytes).expect("a read");
    bytes.truncate(len);
    bytes
}

/// Unmounts, checks by e2fsck, mounts again, runs `look`, and unmounts.
fn judge(device: &Arc<MemDevice>, fs: &Filesystem, look: impl FnOnce(&Filesystem)) {
    fs.unmount().expect("unmounts");
    image::assert_clean(device);
    let fs = image::mount(device);
    look(&fs);
    fs.unmount().expect("unmounts");
}
