//! Snapshots of a file system in use; e2fsck judges their copies.

use crate::worker::Worker;
use crate::{crashed, image, threads};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use uext4::check::{self, Limits};
use uext4::device::{Access, BlockDevice, FileDevice, MemDevice, SnapshotLimits};
use uext4::format::Feature;
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, Error, Filesystem, MountOptions, Snapshot, WriteContext, repair};
use uext4_testkit::oracle;

const THREADS: u64 = 8;
const SNAPSHOTS: u64 = 4;

fn limits() -> SnapshotLimits {
    SnapshotLimits {
        memory_bytes: 512 << 20,
        ..SnapshotLimits::default()
    }
}

fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.size_bytes() as usize];
    device.read_at(0, &mut bytes).expect("it is readable");
    bytes
}

/// What our check says of the snapshot itself.
#[track_caller]
fn assert_sound(snapshot: &Snapshot) {
    let options = MountOptions {
        journal_device: snapshot.journal_device(),
        ..MountOptions::default()
    };
    let report = check::check(snapshot.device.clone(), options, &Limits::default());
    let report = report.expect("it can be read");
    assert!(report.is_clean() && report.n_inodes >= 3, "{report:#?}");
}

/// The copy is clean after a recovery, and e2fsck says so.
#[track_caller]
fn assert_copy_recovers(path: &Path, copy: &[u8]) {
    std::fs::write(path, copy).expect("there is room");
    let device = FileDevice::open(path, Access::ReadWrite).expect("it is there");
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    repair::recover(&device, &MountOptions::default()).expect("it recovers");
    drop(device);
    oracle::assert_clean(path);
}

fn beside_writers(options: &MkfsOptions) {
    let device = image::fresh(96, options);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).expect("mount"));
    let done = Arc::new(AtomicBool::new(false));
    let run = |id| {
        let (worker, done) = (Worker::new(&fs, id, id).expect("a worker"), done.clone());
        thread::spawn(move || worker.work(|_| !done.load(Ordering::SeqCst)).0)
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    let dir = oracle::scratch_dir().expect("there is room");
    for nr in 0..SNAPSHOTS {
        let root = fs.root().expect("the root");
        let name = format!("round {nr}").into_bytes();
        let file = fs.create(&root, &name, 0o644, &Caller::root());
        let file = file.expect("a file");
        let data = fs.write(&file, 0, &name, &WriteContext::ROOT);
        data.expect("there is room");
        let snapshot = fs.snapshot(limits()).expect("a snapshot");
        assert_eq!(snapshot.unwritten.as_ref().map(Error::errno), None);
        let copy = bytes_of(&*snapshot.device);
        let disk = uext4::read_superblock(&*snapshot.device, None).expect("it is there");
        let valid = uext4::format::superblock::state::VALID;
        assert_eq!(disk.state & valid, valid, "also without a log");
        assert_sound(&snapshot);
        assert!(bytes_of(&*snapshot.device) == copy, "it does not change");
        drop(snapshot);
        let path = dir.path().join("copy");
        assert_copy_recovers(&path, &copy);
        let copied = Filesystem::mount(crashed::open(&path), crashed::options()).expect("mount");
        for earlier in 0..=nr {
            let name = format!("round {earlier}");
            let read = copied.paths().read(format!("/{name}")).expect("a file");
            assert_eq!(read, name.as_bytes());
        }
        copied.unmount().expect("it closes");
    }
    done.store(true, Ordering::SeqCst);
    threads::finish(workers, &fs, &device);
}

#[test]
fn a_snapshot_beside_writers_is_sound() {
    beside_writers(&MkfsOptions::new(Preset::Ext4));
}

#[test]
fn a_snapshot_beside_fast_commits_is_sound() {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.insert(Feature::FAST_COMMIT);
    beside_writers(&options);
}

#[test]
fn a_snapshot_without_a_journal_is_sound() {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.remove(Feature::HAS_JOURNAL);
    options.features.remove(Feature::ORPHAN_FILE);
    beside_writers(&options);
}

/// No thread writes while the snapshot is taken, so a copy of the device is what it must be.
#[test]
fn a_snapshot_has_the_bytes_of_the_device() {
    let device = image::ext4(64);
    let fs = image::mount(&device);
    let paths = fs.paths();
    paths.write("/before", vec![1; 300_000]).expect("room");
    let snapshot = fs.snapshot(limits()).expect("a snapshot");
    let before = device.to_bytes();
    for nr in 0..50u8 {
        paths
            .write(format!("/{nr}"), vec![nr; 100_000])
            .expect("room");
    }
    paths.write("/before", vec![2; 200_000]).expect("room");
    paths.remove_file("/3").expect("it is there");
    fs.sync().expect("it is written");
    fs.trim(0..u64::MAX, 0).expect("it is trimmed");
    assert!(device.to_bytes() != before);
    assert!(bytes_of(&*snapshot.device) == before);
    fs.unmount().expect("it closes");
    let ended = snapshot.device.read_at(0, &mut [0]);
    assert!(ended.is_err(), "others may write the device now");
    image::assert_clean(&device);
}

/// An open file without a name is an orphan of the snapshot, and no damage.
#[test]
fn files_without_a_name_are_no_damage() {
    let device = image::ext4(64);
    let fs = image::mount(&device);
    let root = fs.root().expect("the root");
    let mut open = Vec::new();
    for nr in 0..20 {
        let name = format!("file{nr}").into_bytes();
        let file = fs.create(&root, &name, 0o644, &Caller::root());
        let file = file.expect("a file");
        let data = fs.write(&file, 0, &[nr; 5000], &WriteContext::ROOT);
        data.expect("there is room");
        fs.unlink(&root, &name, &Caller::root())
            .expect("it is there");
        open.push(file);
    }
    let snapshot = fs.snapshot(limits()).expect("a snapshot");
    assert_sound(&snapshot);
    let dir = oracle::scratch_dir().expect("there is room");
    assert_copy_recovers(&dir.path().join("copy"), &bytes_of(&*snapshot.device));
}

/// The claim of the mount means nothing in its snapshot.
#[test]
fn a_claimed_file_system_is_checked() {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.insert(Feature::MMP);
    let device = image::fresh(64, &options);
    let fs = image::mount(&device);
    let snapshot = fs.snapshot(limits()).expect("a snapshot");
    let start = std::time::Instant::now();
    assert_sound(&snapshot);
    assert!(start.elapsed().as_secs() < 5, "it waited for another host");
    drop(snapshot);
    fs.unmount().expect("it closes");
}

#[test]
fn damage_under_a_mount_is_found() {
    let device = image::ext4(64);
    let fs = image::mount(&device);
    let root = fs.root().expect("the root");
    fs.create(&root, b"victim", 0o644, &Caller::root())
        .expect("a file");
    fs.sync().expect("it is written");
    let snapshot = fs.snapshot(limits()).expect("a snapshot");
    assert_sound(&snapshot);
    drop(snapshot);
    // Below the mount, while the log is empty: a replay would repair it.
    fs.freeze().expect("it freezes");
    let superblock = uext4::read_superblock(&*device, None).expect("it is there");
    let geometry = superblock.geometry().expect("it is sound");
    let mut descriptor = [0; 8];
    let table = u64::from(geometry.first_data_block) + 1;
    let at = table * u64::from(geometry.block_size());
    device.read_at(at, &mut descriptor).expect("it is readable");
    let bitmap = u32::from_le_bytes(descriptor[..4].try_into().expect("4 bytes"));
    let at = u64::from(bitmap) * u64::from(geometry.block_size());
    let mut byte = [0];
    device.read_at(at + 100, &mut byte).expect("it is readable");
    device.write_at(at + 100, &[!byte[0]]).expect("it is sound");
    let snapshot = fs.snapshot(limits()).expect("a snapshot");
    let report = check::check(
        snapshot.device.clone(),
        MountOptions::default(),
        &Limits::default(),
    );
    assert!(!report.expect("it can be read").is_clean());
}

#[test]
fn a_snapshot_in_each_state_of_a_mount() {
    let device = image::ext4(64);
    let fs = image::mount(&device);
    fs.paths().write("/file", "data").expect("room");
    fs.freeze().expect("it freezes");
    assert_sound(&fs.snapshot(limits()).expect("frozen"));
    fs.thaw().expect("it thaws");
    assert_sound(&fs.snapshot(limits()).expect("thawed"));
    fs.remount("ro").expect("it is idle");
    assert_sound(&fs.snapshot(limits()).expect("read-only"));
    fs.remount("rw").expect("it is idle");
    fs.unmount().expect("it closes");
    assert!(matches!(
        fs.snapshot(limits()).err(),
        Some(Error::Unmounted)
    ));
}

/// The log and the file system are taken at one moment.
#[test]
fn an_external_journal_belongs_to_the_snapshot() {
    let (_dir, image, journal) = crate::journals::external();
    let options = || MountOptions {
        journal_device: Some(crashed::open(&journal)),
        ..MountOptions::default()
    };
    let fs = Arc::new(Filesystem::mount(crashed::open(&image), options()).expect("mount"));
    let done = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|id| {
            let (worker, done) = (Worker::new(&fs, id, id).expect("a worker"), done.clone());
            thread::spawn(move || worker.work(|_| !done.load(Ordering::SeqCst)).0)
        })
        .collect();
    for _ in 0..3 {
        let snapshot = fs.snapshot(limits()).expect("a snapshot");
        assert!(snapshot.journal.is_some());
        assert_sound(&snapshot);
    }
    done.store(true, Ordering::SeqCst);
    workers
        .into_iter()
        .for_each(|worker| drop(worker.join().expect("it ends")));
    fs.unmount().expect("it closes");
}

/// Too little memory ends the snapshot, and nothing else.
#[test]
fn a_snapshot_that_grows_too_large_ends_alone() {
    let device: Arc<MemDevice> = image::ext4(64);
    let fs = image::mount(&device);
    let few = SnapshotLimits {
        memory_bytes: 16 << 10,
        ..SnapshotLimits::default()
    };
    let paths = fs.paths();
    paths.write("/file", vec![1; 2 << 20]).expect("room");
    let snapshot = fs.snapshot(few).expect("a snapshot");
    paths.write("/other", vec![3; 2 << 20]).expect("room");
    fs.sync().expect("the mount goes on");
    paths.write("/file", vec![2; 2 << 20]).expect("room");
    fs.sync().expect("the mount goes on");
    assert!(snapshot.device.ended().is_some());
    let error = snapshot.device.read_at(0, &mut [0]).expect_err("it ended");
    assert!(error.to_string().contains("limit"), "{error}");
    drop(snapshot);
    fs.unmount().expect("it closes");
    image::assert_clean(&device);
}

/// Other programs may write the device of a mount that only reads.
#[test]
fn changes_are_noted_while_the_mount_writes_and_no_longer() {
    let device = image::fresh(32, &MkfsOptions::new(Preset::Ext4));
    let read_only = MountOptions {
        access: uext4::Access::ReadOnly,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device.clone(), read_only).expect("mount");
    assert!(fs.track_changes().expect("it is open").is_none());
    fs.unmount().expect("unmount");
    let fs = Filesystem::mount(device, MountOptions::default()).expect("mount");
    let changes = fs.track_changes().expect("it is open");
    let changes = changes.expect("the mount writes");
    assert!(changes.is_complete());
    fs.remount("ro").expect("nothing is open");
    assert!(!changes.is_complete());
    assert!(fs.track_changes().expect("it is open").is_none());
    fs.remount("rw").expect("nothing has changed");
    assert!(!changes.is_complete(), "what came meanwhile is not known");
    assert!(fs.track_changes().expect("it is open").is_some());
    fs.unmount().expect("unmount");
}
