//! A small file system in flat memory, mounted inside a scenario, and its checks.

use crate::explore::{number, once};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use uext4::mkfs::{self, DeviceContents, MkfsOptions, Preset};
use uext4::{Caller, Filesystem, InodeRef, MountOptions, Visit};
use uext4_device::{BlockDevice, Error};
use uext4_sync::{ManualClock, WallTime, thread};

/// 4 MiB of blocks of 1 KiB: directories split early, and a copy is cheap.
const IMAGE_BYTES: usize = 4 << 20;
/// e2fsck checks one image in this many.
const JUDGED: u64 = 16;

/// A device whose accesses are atomic; other threads run during an access.
pub(crate) struct Flat(Mutex<Vec<u8>>);

impl Flat {
    pub(crate) fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(bytes.to_vec())))
    }

    /// The bytes that a crash at this moment leaves.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no access panicked").clone()
    }
}

impl BlockDevice for Flat {
    fn size_bytes(&self) -> u64 {
        self.0.lock().expect("no access panicked").len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        uext4_sync::io_point();
        thread::yield_now();
        let at = offset as usize;
        buf.copy_from_slice(&self.0.lock().expect("no access panicked")[at..at + buf.len()]);
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        uext4_sync::io_point();
        thread::yield_now();
        let at = offset as usize;
        self.0.lock().expect("no access panicked")[at..at + buf.len()].copy_from_slice(buf);
        Ok(())
    }
    fn flush(&self) -> Result<(), Error> {
        thread::yield_now();
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        "flat memory".into()
    }
}

/// A file system populated by `fill`.
pub(crate) fn image(fill: fn(&Filesystem)) -> Arc<Vec<u8>> {
    image_with("", fill)
}

/// As [`image`], with more features.
pub(crate) fn image_with(features: &'static str, fill: fn(&Filesystem)) -> Arc<Vec<u8>> {
    let made = Arc::new(Mutex::new(Vec::new()));
    let keep = made.clone();
    once(move || {
        let device = Flat::new(&vec![0; IMAGE_BYTES]);
        let mut options = MkfsOptions {
            block_size: Some(1024),
            hash_seed: Some([7; 16]),
            uuid: Some([8; 16]),
            orphan_file_blocks: Some(2),
            contents: DeviceContents::Zeroed,
            ..MkfsOptions::new(Preset::Ext4)
        };
        let known = options.features.apply_list(features);
        known.expect("features that are known");
        mkfs::format(&*device, &options).expect("makes a file system");
        let fs = mount(&device, "");
        fill(&fs);
        fs.unmount().expect("unmounts");
        *keep.lock().expect("no thread panicked") = device.bytes();
    });
    let made = std::mem::take(&mut *made.lock().expect("no thread panicked"));
    Arc::new(made)
}

/// Mounts with these options, on a stopped clock.
pub(crate) fn mount(device: &Arc<Flat>, list: &str) -> Filesystem {
    let options = MountOptions {
        clock: Arc::new(ManualClock::new(WallTime {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        })),
        seed: Some(1),
        ..MountOptions::default()
    };
    let options = options.parse(list).expect("good options");
    Filesystem::mount(device.clone(), options).expect("mounts")
}

/// Recovers the device of a crash by a mount; `look` checks the contents.
pub(crate) fn recover(bytes: &[u8], look: impl FnOnce(&Filesystem)) {
    let device = Flat::new(bytes);
    let fs = mount(&device, "");
    look(&fs);
    fs.unmount().expect("unmounts");
    judge(&device);
}

/// Unmounts, and lets e2fsck check some of the images.
pub(crate) fn unmount(device: &Arc<Flat>, fs: &Filesystem) {
    fs.unmount().expect("unmounts");
    judge(device);
}

fn judge(device: &Flat) {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    if !SEEN.fetch_add(1, Relaxed).is_multiple_of(JUDGED) {
        return;
    }
    let name = format!("uext4-schedule-{}-{:p}", std::process::id(), device);
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, device.bytes()).expect("room for an image");
    let verdict = e2fsck(&path);
    std::fs::remove_file(&path).expect("the image was there");
    assert!(verdict.is_empty(), "{verdict}");
}

/// The complaints of e2fsck; empty if there are none.
fn e2fsck(path: &Path) -> String {
    let out = Command::new("e2fsck").arg("-fn").arg(path).output();
    let out = out.expect("e2fsck is installed");
    if out.status.success() {
        String::new()
    } else {
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

/// The names in a directory, except "." and "..".
pub(crate) fn names(fs: &Filesystem, dir: &InodeRef) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    fs.read_dir(dir, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        Visit::Continue
    })
    .expect("a listing");
    names
}

/// The directory of this name in the root.
pub(crate) fn dir(fs: &Filesystem, name: &[u8]) -> InodeRef {
    let root = fs.root().expect("a root");
    fs.lookup(&root, name, &Caller::root()).expect("a name")
}

/// An image with an empty directory `d`.
pub(crate) fn image_with_directory() -> Arc<Vec<u8>> {
    image(make_directory)
}

/// Makes the directory `d`.
pub(crate) fn make_directory(fs: &Filesystem) {
    let root = fs.root().expect("a root");
    let made = fs.mkdir(&root, b"d", 0o755, &Caller::root());
    made.expect("a directory");
}

/// Runs a thread for each of `works` in the file system, until all are done.
pub(crate) fn together<const N: usize>(fs: &Arc<Filesystem>, works: [fn(&Filesystem); N]) {
    join(works.map(|work| {
        let fs = fs.clone();
        thread::spawn(move || work(&fs))
    }));
}

/// Waits for all threads.
pub(crate) fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("no thread panics"));
}

/// Lets other threads run for a random number of steps. Threads that begin together proceed at the
/// same rate under a random walk, so the one with more work never comes first.
pub(crate) fn fall_behind() {
    (0..number() % 150).for_each(|_| thread::yield_now());
}
