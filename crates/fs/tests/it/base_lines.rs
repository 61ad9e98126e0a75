//! Earlier designs, which experiments compare with the present ones: each is as correct, and each
//! does what its name says.

use crate::image;
use crate::threads::finish;
use crate::worker::Worker;
use std::sync::Arc;
use std::thread;
use uext4::device::MemDevice;
use uext4::{Allocator, BaseLines, Caller, Filesystem, MountOptions, WriteContext};

const ROOT: Caller = Caller::root();

/// Every design alone.
fn all() -> Vec<(&'static str, BaseLines)> {
    let mut all: Vec<(&str, BaseLines)> = Vec::new();
    let mut add = |name, set: &dyn Fn(&mut BaseLines)| {
        let mut base_lines = BaseLines::default();
        set(&mut base_lines);
        all.push((name, base_lines));
    };
    add("blocking groups", &|base| base.blocking_groups = true);
    add("locked goal", &|base| base.locked_goal = true);
    add("cold groups", &|base| base.cold_groups = true);
    add("locked orphans", &|base| base.locked_orphans = true);
    add("sorted shrinker", &|base| base.sorted_shrinker = true);
    add("scanned checkpoints", &|base| {
        base.scanned_checkpoints = true
    });
    add("racing inodes", &|base| base.racing_inodes = true);
    all
}

fn mount(device: &Arc<MemDevice>, base_lines: BaseLines) -> Arc<Filesystem> {
    let options = MountOptions {
        allocator: Allocator::Linear,
        extent_cache_bytes: 4096,
        base_lines,
        ..MountOptions::default()
    };
    Arc::new(Filesystem::mount(device.clone(), options).unwrap())
}

#[test]
fn threads_on_earlier_designs_agree_with_their_models() {
    const THREADS: u64 = 8;
    for (name, base_lines) in all() {
        eprintln!("{name}");
        let device = image::ext4(64);
        let fs = mount(&device, base_lines);
        let run = |id| {
            let worker = Worker::new(&fs, id, id).unwrap();
            thread::spawn(move || worker.work(|done| done < 300).0)
        };
        let workers: Vec<_> = (0..THREADS).map(run).collect();
        for _ in 0..20 {
            fs.sync().unwrap();
            fs.reclaim_memory();
        }
        finish(workers, &fs, &device);
    }
}

/// A fresh mount, and the numbers of files that two threads create in one directory.
fn inodes_of_two_threads(base_lines: BaseLines) -> (u32, u32) {
    let device = image::ext4(64);
    let fs = mount(&device, base_lines);
    let create = |name: &str| {
        let root = fs.root().unwrap();
        let file = fs.create(&root, name.as_bytes(), 0o644, &ROOT).unwrap();
        fs.attr(&file).ino.0
    };
    let one = create("one");
    let two = thread::scope(|scope| scope.spawn(|| create("two")).join().unwrap());
    fs.unmount().unwrap();
    image::assert_clean(&device);
    (one, two)
}

#[test]
fn all_threads_begin_at_one_inode() {
    let racing_inodes = BaseLines {
        racing_inodes: true,
        ..BaseLines::default()
    };
    let (one, two) = inodes_of_two_threads(racing_inodes);
    assert_eq!(two, one + 1);
    let (one, two) = inodes_of_two_threads(BaseLines::default());
    assert!(
        two.abs_diff(one) > 100,
        "{one} and {two}: each its own line"
    );
}

/// Head of the orphan list on the device while an open file has no name.
fn head_of_list(base_lines: BaseLines) -> u32 {
    let device = image::mke2fs(64, &["-O", "orphan_file"]);
    let fs = mount(&device, base_lines);
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
    fs.unlink(&root, b"file", &ROOT).unwrap();
    fs.truncate(&file, 1).unwrap();
    fs.truncate(&file, 0).unwrap();
    fs.freeze().unwrap();
    let head = uext4::read_superblock(&*device, None).unwrap().last_orphan;
    fs.thaw().unwrap();
    drop((file, root));
    fs.unmount().unwrap();
    image::assert_clean(&device);
    head
}

#[test]
fn the_locked_list_is_used_in_place_of_the_orphan_file() {
    let locked_orphans = BaseLines {
        locked_orphans: true,
        ..BaseLines::default()
    };
    assert_ne!(head_of_list(locked_orphans), 0);
    assert_eq!(head_of_list(BaseLines::default()), 0);
}

/// Calls of the shrinker that drop a quarter of the extents of two files, all of them used; and the
/// fewest that could, with 64 extents each.
fn calls_of_shrinker(base_lines: BaseLines) -> (u64, u64) {
    const EXTENTS: u64 = 100;
    let device = image::ext4(64);
    let options = MountOptions {
        delalloc: Some(false),
        base_lines,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device.clone(), options).unwrap();
    let root = fs.root().unwrap();
    for name in [b"a", b"b"] {
        let file = fs.create(&root, name, 0o644, &ROOT).unwrap();
        for at in (0..EXTENTS).map(|nr| nr * 8192) {
            fs.write(&file, at, &[7; 4096], &WriteContext::ROOT)
                .unwrap();
        }
        for at in (0..2 * EXTENTS).map(|nr| nr % EXTENTS * 8192) {
            fs.read(&file, at, &mut [0; 4096]).unwrap();
        }
    }
    let fewest = fs.stats().extent_status.entries.div_ceil(4).div_ceil(64);
    fs.reclaim_memory();
    let calls = fs.stats().extent_status.shrinker_calls;
    drop(root);
    fs.unmount().unwrap();
    image::assert_clean(&device);
    (calls, fewest)
}

#[test]
fn the_sorted_shrinker_drops_what_was_used_as_well() {
    let sorted_shrinker = BaseLines {
        sorted_shrinker: true,
        ..BaseLines::default()
    };
    let (calls, fewest) = calls_of_shrinker(sorted_shrinker);
    assert_eq!(calls, fewest);
    let (calls, fewest) = calls_of_shrinker(BaseLines::default());
    assert!(
        calls > fewest,
        "{calls}: the first round spares what was used"
    );
}

/// Everything durable is there after a crash.
#[test]
fn crashes_of_earlier_designs_lose_nothing() {
    for (name, base_lines) in all() {
        let device = image::ext4(64);
        let fs = mount(&device, base_lines);
        let root = fs.root().unwrap();
        let open = fs.create(&root, b"open", 0o644, &ROOT).unwrap();
        let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
        for at in (0..64).map(|nr| nr * 8192) {
            fs.write(&file, at, &[7; 4096], &WriteContext::ROOT)
                .unwrap();
        }
        fs.write(&open, 0, &[7; 100_000], &WriteContext::ROOT)
            .unwrap();
        fs.unlink(&root, b"open", &ROOT).unwrap();
        fs.truncate(&file, 400_000).unwrap();
        fs.sync().unwrap();
        fs.abandon();
        drop((file, open, root, fs));
        let fs = image::mount(&device);
        let root = fs.root().unwrap();
        let file = fs.lookup(&root, b"file", &ROOT).unwrap();
        assert_eq!(fs.attr(&file).size_bytes, 400_000, "{name}");
        let mut read = [0; 4096];
        fs.read(&file, 8192, &mut read).unwrap();
        assert_eq!(read, [7; 4096], "{name}");
        drop((file, root));
        fs.unmount().unwrap();
        drop(fs);
        image::assert_clean(&device);
    }
}
