//! Checks and copies of running mounts; e2fsck judges the copies.

use crate::rig::{Rig, bytes};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use uext4::device::{BlockDevice, Error, SnapshotEnd};
use uext4_fuse::{Continued, Remote, SnapshotPurpose, SnapshotWanted};
use uext4_testkit::oracle;
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::{skip, wait};

const WRITERS: usize = 4;

/// A background mount on `mnt`, unmounted on drop.
pub(crate) struct Mounted(pub(crate) Rig);

impl Mounted {
    /// `None` without FUSE.
    pub(crate) fn new(options: &str) -> Option<Self> {
        if !skip::fuse_or_skip("snapshots") {
            return None;
        }
        let rig = Rig::new(&["-b", "4096"]);
        fs::create_dir(rig.path("mnt")).expect("it is new");
        rig.ok(&["mount", "disk.img", "mnt", "-o", options]);
        Some(Self(rig))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::write(&path, bytes).expect("there is room");
        let file = fs::File::open(&path).expect("it is there");
        file.sync_all().expect("it is sound");
    }

    pub(crate) fn snapshots(&self) -> Value {
        self.0.json(&["stats", "mnt", "--json"])["snapshots"].take()
    }

    /// Takes a snapshot that this process reads.
    fn take(&self, memory_bytes: u64, spill: Option<&fs::File>) -> Remote {
        let wanted = SnapshotWanted {
            purpose: SnapshotPurpose::Backup,
            pid: std::process::id(),
            memory_bytes,
            spill_bytes: spill.map(|_| 1 << 30),
            continues: Continued::Never,
            since: None,
        };
        Remote::take(&self.path("mnt"), &wanted, spill).expect("a snapshot")
    }

    /// Takes a snapshot for this purpose; old contents are kept in memory.
    pub(crate) fn take_for(&self, purpose: SnapshotPurpose) -> Remote {
        let wanted = SnapshotWanted {
            purpose,
            pid: std::process::id(),
            memory_bytes: 1 << 20,
            spill_bytes: None,
            continues: Continued::Never,
            since: None,
        };
        Remote::take(&self.path("mnt"), &wanted, None).expect("a snapshot")
    }

    pub(crate) fn umount(self) {
        self.0.ok(&["umount", "mnt"]);
        self.0.assert_clean();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.0.run(&["umount", "--lazy", "mnt"]);
    }
}

fn bytes_of(device: &dyn BlockDevice) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; device.size_bytes() as usize];
    device.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Writes files until `done`; returns how many.
pub(crate) fn work(mounted: &Mounted, id: usize, done: &AtomicBool) -> usize {
    let dir = mounted.path(&format!("mnt/{id}"));
    fs::create_dir(&dir).expect("it is new");
    let mut count = 0;
    while !done.load(Ordering::Relaxed) {
        let path = dir.join(format!("{}", count % 40));
        fs::write(&path, vec![count as u8; 20_000 + count % 7 * 9000]).expect("there is room");
        if count % 5 == 0 {
            let file = fs::File::open(&path).expect("it is there");
            file.sync_data().expect("it is sound");
        }
        if count % 3 == 0 {
            fs::remove_file(&path).expect("it is there");
        }
        count += 1;
    }
    count
}

fn beside_writers(options: &str) {
    let Some(mounted) = Mounted::new(options) else {
        return;
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|id| {
                let (mounted, done) = (&mounted, &done);
                scope.spawn(move || work(mounted, id, done))
            })
            .collect();
        for round in 0..3 {
            let said = mounted.0.ok(&["fsck", "mnt"]);
            assert_eq!(said, "mnt: sound\n");
            let name = format!("copy{round}");
            mounted.0.ok(&["backup", "mnt", &name]);
            oracle::assert_clean(&mounted.path(&name));
            let copied = mounted.0.run(&["ls", &name, "/0"]);
            assert!(copied.status.success(), "{copied:?}");
        }
        let as_is = ["backup", "mnt", "crashed", "--as-is"];
        mounted.0.ok(&as_is);
        done.store(true, Ordering::Relaxed);
        for writer in writers {
            assert!(writer.join().expect("no write failed") > 10);
        }
    });
    let snapshots = mounted.snapshots();
    assert_eq!(snapshots["last_check"]["verdict"], "sound");
    assert_eq!(snapshots["last_backup"]["verdict"], "copied");
    for last in ["last_check", "last_backup"] {
        let pause = snapshots[last]["pause_us"].as_u64().expect("a number");
        assert!(pause < 100_000, "{snapshots}");
    }
    assert_eq!(snapshots["running"], Value::Array(Vec::new()));
    mounted.0.ok(&["replay", "crashed"]);
    oracle::assert_clean(&mounted.path("crashed"));
    mounted.umount();
}

#[test]
fn checks_and_copies_beside_writers() {
    beside_writers("sandbox,no_io_uring");
}

#[test]
fn checks_and_copies_beside_writers_over_io_uring() {
    if RingsSwitch::is_available() {
        let _rings = RingsSwitch::on().expect("it is available");
        beside_writers("sandbox,io_uring");
    }
}

/// Nothing writes while the mount is frozen, so the image itself is what the copy must be.
#[test]
fn a_copy_is_the_image_at_that_moment() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    mounted.write("mnt/file", &vec![1; 300_000]);
    mounted.0.ok(&["freeze", "mnt"]);
    mounted.0.ok(&["backup", "mnt", "copy", "--as-is"]);
    mounted.0.ok(&["backup", "mnt", "copy.qcow2", "--json"]);
    let image = bytes(&mounted.0.image());
    assert!(bytes(&mounted.path("copy")) == image);
    let blocks = std::os::unix::fs::MetadataExt::blocks;
    let copied = fs::metadata(mounted.path("copy")).expect("it is there");
    assert!(blocks(&copied) * 512 < 8 << 20, "zeroes take no space");
    let spill = tempfile::tempfile().expect("there is room");
    let snapshot = mounted.take(1 << 20, Some(&spill));
    mounted.0.ok(&["thaw", "mnt"]);
    for round in 0..4 {
        mounted.write("mnt/file", &vec![round; 3_000_000]);
        mounted.write(&format!("mnt/{round}"), &vec![round; 3_000_000]);
    }
    assert!(bytes(&mounted.0.image()) != image);
    assert!(bytes_of(&*snapshot.device()).expect("it is sound") == image);
    let running = mounted.snapshots()["running"].take();
    assert!(
        running[0]["memory_bytes"].as_u64() <= Some(1 << 20),
        "{running}"
    );
    assert_eq!(running[0]["purpose"], "backup", "{running}");
    drop(snapshot);
    mounted.umount();
}

#[test]
fn damage_of_a_mount_is_found() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    mounted.write("mnt/file", &vec![1; 300_000]);
    mounted.0.ok(&["freeze", "mnt"]);
    let image = fs::File::options().write(true).open(mounted.0.image());
    let image = image.expect("it is there");
    let at = mounted.0.debugfs("imap /file");
    let numbers = at.rsplit_once("block ").expect("its place").1;
    let (block, offset) = numbers.split_once(", offset 0x").expect("two numbers");
    let block: u64 = block.parse().expect("a number");
    let offset = u64::from_str_radix(offset.trim(), 16).expect("a number");
    image
        .write_all_at(&[0xff; 64], block * 4096 + offset)
        .expect("the image is writable");
    let found = mounted.0.run(&["fsck", "mnt", "-n"]);
    assert_eq!(found.status.code(), Some(4), "{found:?}");
    mounted.0.ok(&["backup", "mnt", "copy", "--as-is"]);
    let verdict = oracle::e2fsck(&mounted.path("copy")).expect("e2fsck runs");
    assert!(!verdict.is_clean(), "{verdict}");
    let last = mounted.snapshots()["last_check"].take();
    assert_eq!(last["verdict"], "damaged");
    assert!(last["findings"].as_u64() > Some(0));
    mounted.0.run(&["thaw", "mnt"]);
}

#[test]
fn a_snapshot_ends_with_its_reader_with_an_abort_and_at_its_limit() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let gone = mounted.take(1 << 20, None);
    let device = gone.device();
    assert_eq!(
        mounted.snapshots()["running"].as_array().map(Vec::len),
        Some(1)
    );
    drop((gone, device));
    wait::until_true("the snapshot has ended", || {
        mounted.snapshots()["running"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    assert_eq!(mounted.snapshots()["last_backup"]["verdict"], "interrupted");

    let (aborted, quiet) = (mounted.take(1 << 20, None), mounted.take(1 << 20, None));
    assert_eq!(mounted.0.ok(&["fsck", "--abort", "mnt"]), "mnt: ended: 2\n");
    let error = bytes_of(&*aborted.device()).expect_err("it was aborted");
    assert!(matches!(error, Error::SnapshotEnded(SnapshotEnd::Aborted)));
    // An ended one is not ended again, and takes no place.
    assert_eq!(mounted.0.ok(&["fsck", "--abort", "mnt"]), "mnt: ended: 0\n");
    let four: Vec<Remote> = (0..4).map(|_| mounted.take(1 << 20, None)).collect();
    let fifth = mounted.0.run(&["backup", "mnt", "copy"]);
    assert_eq!(fifth.status.code(), Some(5), "{fifth:?}");
    let said = String::from_utf8_lossy(&fifth.stderr);
    assert!(said.contains("4 snapshots"), "{said}");
    drop(four);
    // The client learns the reason although the connection is closed by then.
    wait::until_true("its connection is closed", || {
        mounted.snapshots()["running"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    let error = bytes_of(&*quiet.device()).expect_err("it was aborted");
    assert!(matches!(error, Error::SnapshotEnded(SnapshotEnd::Aborted)));
    drop((aborted, quiet));

    let small = mounted.take(16 << 10, None);
    mounted.write("mnt/file", &vec![1; 5_000_000]);
    mounted.write("mnt/file", &vec![2; 5_000_000]);
    let error = bytes_of(&*small.device()).expect_err("it is too large");
    let full = matches!(error, Error::SnapshotEnded(SnapshotEnd::MemoryFull { .. }));
    assert!(full, "{error}");
    drop(small);
    mounted.umount();
}

/// A server that is killed loses nothing that was durable, and its reader learns of it.
#[test]
fn a_killed_server_loses_nothing() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let spill = tempfile::tempfile().expect("there is room");
    let snapshot = mounted.take(64 << 10, Some(&spill));
    mounted.write("mnt/file", &vec![1; 2_000_000]);
    mounted.write("mnt/file", &vec![2; 3_000_000]);
    let info = mounted.0.json(&["info", "mnt", "--json"]);
    let pid = info["pid"].as_u64().expect("a number");
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("it runs");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    let error = bytes_of(&*snapshot.device()).expect_err("the server is gone");
    assert!(
        matches!(error, Error::SnapshotEnded(SnapshotEnd::Closed)),
        "{error}"
    );
    assert!(snapshot.ended().is_some());
    let _ = mounted.0.run(&["umount", "--lazy", "mnt"]);
    wait::until_true("the image is free", || {
        mounted.0.run(&["replay", "disk.img"]).status.success()
    });
    mounted.0.assert_clean();
    mounted.0.ok(&["get", "disk.img", "/file", "got"]);
    assert!(bytes(&mounted.path("got")) == vec![2; 3_000_000]);
}

/// Checks repeat until the mount ends.
#[test]
fn checks_repeat_until_the_mount_ends() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let every = ["fsck", "mnt", "--every", "1s", "--spill", "none"];
    let mut child = mounted.0.start(&every, std::process::Stdio::null());
    let mut starts = std::collections::HashSet::new();
    wait::until_true("there were three checks", || {
        let last = mounted.snapshots()["last_check"].take();
        assert!(last.is_null() || last["verdict"] == "sound", "{last}");
        starts.extend(last["started"].as_u64());
        starts.len() >= 3
    });
    let text = mounted.0.ok(&["stats", "mnt"]);
    assert!(
        text.contains("last check, 2") && text.contains(": sound"),
        "{text}"
    );
    mounted.umount();
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(8));
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    for change in ["-p", "-y"] {
        mounted
            .0
            .fails(16, "not repaired", &["fsck", change, "mnt"]);
    }
    let own = ["fsck", "mnt", "--spill", "mnt"];
    mounted.0.fails(8, "on the mount itself", &own);
    let missing = ["fsck", "mnt", "--spill", "missing"];
    mounted.0.fails(8, "missing", &missing);
    mounted
        .0
        .fails(16, "for a mount", &["fsck", "-n", "--abort", "disk.img"]);
    mounted
        .0
        .fails(1, "disk.img", &["backup", "disk.img", "copy"]);
    let empty = Rig::empty();
    empty.fails(8, "not", &["fsck", "."]);
    mounted.0.ok(&["backup", "mnt", "copy"]);
    mounted.0.fails(1, "--force", &["backup", "mnt", "copy"]);
    let wide = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(mounted.path("copy"), wide).expect("it is there");
    mounted.0.ok(&["backup", "mnt", "copy", "--force"]);
    let own = ["backup", "mnt", "disk.img", "--force"];
    mounted.0.fails(5, "disk.img", &own);
    oracle::assert_clean(&mounted.path("copy"));
    let mode = fs::metadata(mounted.path("copy")).expect("it is there");
    let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions());
    assert_eq!(mode & 0o077, 0, "others may not read it");
    mounted.umount();
}

/// The mount uses its journal, so a copy that named it would need it, or write to it.
#[test]
fn a_copy_needs_no_external_journal() {
    if !skip::fuse_or_skip("snapshots") {
        return;
    }
    let rig = Rig::new(&["-b", "4096"]);
    let journal = ["-b", "4096", "-O", "journal_dev"];
    oracle::mke2fs(&rig.path("log.img"), 16 << 20, &journal).expect("mke2fs");
    rig.ok(&["tune", "disk.img", "-J", "device=log.img"]);
    fs::create_dir(rig.path("mnt")).expect("it is new");
    rig.ok(&["mount", "disk.img", "mnt", "-o", "journal_path=log.img"]);
    let mounted = Mounted(rig);
    mounted.write("mnt/file", &vec![1; 300_000]);
    let as_is = ["backup", "mnt", "copy", "--as-is"];
    mounted.0.fails(2, "external journal", &as_is);
    mounted.0.ok(&["backup", "mnt", "copy"]);
    oracle::assert_clean(&mounted.path("copy"));
    mounted.0.ok(&["get", "copy", "/file", "got"]);
    assert!(bytes(&mounted.path("got")) == vec![1; 300_000]);
    mounted.0.ok(&["umount", "mnt"]);
}

#[test]
fn a_block_device_takes_a_copy_that_fits() {
    if !skip::root_or_skip("snapshots") {
        return;
    }
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    mounted.write("mnt/file", &vec![1; 300_000]);
    let size = bytes(&mounted.0.image()).len() as u64;
    for (name, len) in [("small", size / 2), ("large", size + 4096)] {
        let path = mounted.path(name);
        fs::write(&path, vec![7; len as usize]).expect("there is room");
        let device = oracle::LoopDevice::attach(&path).expect("a loop device");
        let copy = ["backup", "mnt", device.path(), "--force"];
        if len < size {
            mounted.0.fails(1, "do not fit", &copy);
        } else {
            mounted.0.ok(&copy);
        }
        drop(device);
        if len < size {
            assert!(
                bytes(&path).iter().all(|byte| *byte == 7),
                "nothing is written"
            );
        } else {
            oracle::assert_clean(&path);
        }
    }
    mounted.umount();
}
