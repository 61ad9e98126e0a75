//! Failing devices: operations return the right errors, nothing is written afterwards, and the next
//! mount finds all durable data.

use crate::{crashed, image};
use std::sync::Arc;
use uext4::device::{
    BlockDevice, Cause, Event, Fault, Faulty, MemDevice, Operation, Recorder, When,
};
use uext4::format::{BlockNr, GroupNr};
use uext4::{
    Caller, Error, Filesystem, InodeRef, MountOptions, Reading, Threads, Tuning, WriteContext,
};

/// Linux' `EIO` and `EROFS`.
const EIO: i32 = 5;
const EROFS: i32 = 30;

/// A mount of a fresh file system with one durable file, on a device with fault injection.
struct Rig {
    device: Arc<MemDevice>,
    recorder: Arc<Recorder>,
    faulty: Arc<Faulty>,
    fs: Filesystem,
    durable: InodeRef,
}

impl Rig {
    fn new() -> Self {
        let device = image::ext4(64);
        let recorder = Arc::new(Recorder::new(device.clone()));
        let faulty = Arc::new(Faulty::new(recorder.clone()));
        let fs = Filesystem::mount(faulty.clone(), crashed::options()).unwrap();
        let root = fs.root().unwrap();
        let durable = fs
            .create(&root, b"durable", 0o644, &Caller::root())
            .unwrap();
        fs.write(&durable, 0, b"promised", &WriteContext::ROOT)
            .unwrap();
        fs.fsync(&durable).unwrap();
        Self {
            device,
            recorder,
            faulty,
            fs,
            durable,
        }
    }

    fn fail(&self, operation: Operation, when: When) {
        self.faulty.arm(Fault {
            operation,
            when,
            cause: Cause::Io,
        });
    }

    /// Creates files and syncs until a call fails. Returns its errno.
    fn provoke(&self) -> i32 {
        let root = self.fs.root().unwrap();
        for nr in 0..10_000 {
            let name = format!("file {nr}");
            let made = self
                .fs
                .create(&root, name.as_bytes(), 0o644, &Caller::root());
            if let Err(error) = made.and_then(|file| self.fs.fsync(&file)) {
                return error.errno();
            }
        }
        panic!("the fault was never met");
    }

    /// After the failure: the reason is known, reads work, changes are refused, and nothing is
    /// written.
    fn assert_stopped(&self) {
        assert!(
            matches!(self.fs.failure(), Some(Error::Journal(_))),
            "{:?}",
            self.fs.failure()
        );
        self.faulty.disarm();
        let written = self.writes();
        let (root, caller) = (self.fs.root().unwrap(), Caller::root());
        let made = self.fs.create(&root, b"late", 0o644, &caller);
        assert!(matches!(made, Err(Error::ReadOnly)), "{made:?}");
        assert!(matches!(
            self.fs
                .write(&self.durable, 0, b"late", &WriteContext::ROOT),
            Err(Error::ReadOnly)
        ));
        assert!(matches!(
            self.fs.unlink(&root, b"durable", &caller),
            Err(Error::ReadOnly)
        ));
        assert_eq!(self.fs.fsync(&self.durable).unwrap_err().errno(), EROFS);
        let mut data = [0; 8];
        assert_eq!(self.fs.read(&self.durable, 0, &mut data).unwrap(), 8);
        assert_eq!(&data, b"promised");
        assert_eq!(
            self.writes(),
            written,
            "something was written after the failure"
        );
        assert!(self.fs.unmount().is_err());
        let stopped = |met: &uext4::Incident| matches!(met, uext4::Incident::Stopped(_));
        let incidents = self.fs.incidents();
        assert_eq!(incidents.iter().filter(|met| stopped(met)).count(), 1);
        self.assert_noted(written);
    }

    fn writes(&self) -> usize {
        let log = self.recorder.log();
        log.events()
            .iter()
            .filter(|event| matches!(event, Event::Change { .. }))
            .count()
    }

    /// The unmount wrote the superblock once, with the error recorded, and nothing else.
    fn assert_noted(&self, written: usize) {
        let log = self.recorder.log();
        let changes = log.events().iter().filter_map(|event| match event {
            Event::Change { change, .. } => Some(change),
            _ => None,
        });
        let late: Vec<_> = changes.skip(written).collect();
        let [
            uext4::device::Change::Write {
                offset: 1024,
                bytes,
            },
        ] = late[..]
        else {
            panic!("more was written after the failure: {late:?}");
        };
        assert_eq!(bytes.len(), 1024);
        let noted = uext4::read_superblock(&*self.device, None).unwrap();
        assert_eq!((noted.error_count, noted.state & 2), (1, 2));
    }

    /// The next mount finds the durable data, and e2fsck finds no damage.
    fn assert_recovers(self) {
        let Self {
            device,
            fs,
            durable,
            ..
        } = self;
        drop((durable, fs));
        let fs = image::mount(&device);
        assert!(fs.failure().is_none());
        let found = fs
            .lookup(&fs.root().unwrap(), b"durable", &Caller::root())
            .unwrap();
        let mut data = [0; 8];
        assert_eq!(fs.read(&found, 0, &mut data).unwrap(), 8);
        assert_eq!(&data, b"promised");
        drop(found);
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

/// Each of the writes and flushes of a commit fails once.
#[test]
fn a_failed_commit_stops_everything() {
    for operation in [Operation::Write, Operation::Flush] {
        for after in 0..3 {
            let rig = Rig::new();
            rig.fail(operation, When::Counted { after, count: 1 });
            assert_eq!(rig.provoke(), EIO);
            rig.assert_stopped();
            rig.assert_recovers();
        }
    }
}

#[test]
fn a_device_that_goes_away_stops_everything() {
    let rig = Rig::new();
    rig.faulty.vanish();
    assert!(rig.provoke() > 0);
    rig.faulty.come_back();
    rig.assert_stopped();
    rig.assert_recovers();
}

/// A checkpoint writes metadata back long after its commit, when the log fills up.
#[test]
fn a_failed_checkpoint_stops_everything() {
    let rig = Rig::new();
    rig.fail(Operation::Write, When::Touching(cold_inodes(&*rig.device)));
    assert_eq!(rig.provoke(), EIO);
    rig.assert_stopped();
    rig.assert_recovers();
}

/// Byte range of an inode table block that few commits log, so that only a checkpoint writes it.
fn cold_inodes(device: &dyn BlockDevice) -> std::ops::Range<u64> {
    let geometry = uext4::read_superblock(device, None)
        .unwrap()
        .geometry()
        .unwrap();
    let size = u64::from(geometry.block_size());
    let (block, offset) = geometry.descriptor_location(GroupNr(0));
    let mut low = [0; 4];
    device
        .read_at(block.0 * size + u64::from(offset) + 8, &mut low)
        .unwrap();
    let table = BlockNr(u64::from(u32::from_le_bytes(low)));
    let (block, _) = geometry.inode_location(table, 30);
    block.0 * size..(block.0 + 1) * size
}

/// As in Linux with `data_err=ignore`: the write returns the error, and the file system continues.
#[test]
fn a_failed_data_write_is_told_to_the_writer() {
    let rig = Rig::new();
    rig.fail(Operation::Write, When::Counted { after: 0, count: 1 });
    let data = vec![7; 100_000];
    assert_eq!(
        rig.fs
            .write(&rig.durable, 4096, &data, &WriteContext::ROOT)
            .unwrap_err()
            .errno(),
        EIO
    );
    assert!(rig.fs.failure().is_none());
    let written = rig
        .fs
        .write(&rig.durable, 4096, &data, &WriteContext::ROOT)
        .unwrap();
    assert_eq!(written.len_bytes, data.len());
    rig.fs.fsync(&rig.durable).unwrap();
    let mut found = vec![0; data.len()];
    rig.fs.read(&rig.durable, 4096, &mut found).unwrap();
    assert!(found == data);
    rig.fs.unmount().unwrap();
    image::assert_clean(&rig.device);
}

/// The kernel records a journal abort in the on-disk superblock outside the log; the log may
/// contain an older superblock.
#[test]
fn errors_noted_past_the_log_outlive_its_replay() {
    let rig = Rig::new();
    let label = Tuning {
        label: Some(b"from the log".to_vec()),
        ..Tuning::default()
    };
    rig.fs.tune(&label).unwrap();
    let crashed = rig.device.to_bytes();
    drop(rig);
    let copy = || Arc::new(MemDevice::from_bytes(&crashed));

    let device = copy();
    let mut noted = uext4::read_superblock(&*device, None).unwrap();
    // Represents a superblock written before the one in the log.
    noted.volume_name = Default::default();
    (noted.error_count, noted.last_error_time) = (3, 1_700_000_000);
    (noted.first_error_time, noted.first_error_line) = (1_600_000_000, 77);
    (noted.last_error_ino, noted.last_error_errcode) = (11, 2);
    noted.state |= 2;
    let bytes: [u8; 1024] = noted.to_bytes();
    device.write_at(1024, &bytes).unwrap();
    let crashed = device.to_bytes();

    let in_memory = image::Sealed::new(Arc::new(MemDevice::from_bytes(&crashed)));
    let fs = Filesystem::mount(in_memory, crashed::options()).unwrap();
    let readings: std::collections::BTreeMap<_, _> = fs.readings().into_iter().collect();
    assert_eq!(readings["errors_count"], Reading::Number(3));
    assert_eq!(readings["first_error_line"], Reading::Number(77));
    drop(fs);

    image::mount(&device).unmount().unwrap();
    let kept = uext4::read_superblock(&*device, None).unwrap();
    assert_eq!(&kept.volume_name[..12], b"from the log");
    assert_eq!((kept.error_count, kept.state & 2), (3, 2));
    let first = (kept.first_error_time, kept.first_error_line);
    let last = (kept.last_error_ino, kept.last_error_errcode);
    assert_eq!((first, last), ((1_600_000_000, 77), (11, 2)));
}

/// Failed writes stay in memory and are repeated after the device works again.
#[test]
fn without_a_journal_errors_continue_goes_on() {
    for threads in [Threads::Inline, Threads::Background] {
        goes_on(threads);
    }
}

fn refuse_writes(faulty: &Faulty) {
    faulty.arm(Fault {
        operation: Operation::Write,
        when: When::Always,
        cause: Cause::Io,
    });
}

fn goes_on(threads: Threads) {
    let device = image::mke2fs(64, &["-O", "^has_journal"]);
    let faulty = Arc::new(Faulty::new(device.clone()));
    let options = MountOptions {
        threads,
        ..MountOptions::default()
    };
    let options = options.parse("errors=continue").unwrap();
    let fs = Filesystem::mount(faulty.clone(), options).unwrap();
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    refuse_writes(&faulty);
    for nr in 0..20 {
        let name = format!("dir {nr}");
        let dir = fs.mkdir(&root, name.as_bytes(), 0o755, &caller).unwrap();
        fs.create(&dir, b"inside", 0o644, &caller).unwrap();
        assert_eq!(fs.fsync(&dir).unwrap_err().errno(), EIO, "{name}");
        assert_eq!(fs.sync().unwrap_err().errno(), EIO, "{name}");
    }
    // A block that waits for its rewrite may be freed.
    let gone = fs.lookup(&root, b"dir 3", &caller).unwrap();
    fs.unlink(&gone, b"inside", &caller).unwrap();
    drop(gone);
    fs.rmdir(&root, b"dir 3", &caller).unwrap();
    assert!(fs.failure().is_none());
    faulty.disarm();
    // Without new changes the waiting blocks are still written.
    fs.sync().unwrap();
    fs.fsync(&root).unwrap();
    drop(root);
    fs.unmount().unwrap();

    let noted = uext4::read_superblock(&*device, None).unwrap();
    assert!(noted.error_count > 0 && noted.state & 2 != 0);
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    for nr in (0..20).filter(|nr| *nr != 3) {
        let name = format!("dir {nr}");
        let dir = fs.lookup(&root, name.as_bytes(), &caller).unwrap();
        fs.lookup(&dir, b"inside", &caller).unwrap();
    }
    drop(root);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn without_a_journal_a_failed_write_stops_elsewhere() {
    let device = image::mke2fs(64, &["-O", "^has_journal"]);
    let faulty = Arc::new(Faulty::new(device));
    let options = crashed::options().parse("errors=remount-ro").unwrap();
    let fs = Filesystem::mount(faulty.clone(), options).unwrap();
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    refuse_writes(&faulty);
    fs.create(&root, b"file", 0o644, &caller).unwrap();
    assert_eq!(fs.fsync(&root).unwrap_err().errno(), EIO);
    let made = fs.create(&root, b"late", 0o644, &caller);
    assert!(matches!(made, Err(Error::ReadOnly)), "{made:?}");
}

#[test]
fn the_journal_remembers_the_error_until_the_next_mount() {
    let rig = Rig::new();
    rig.fail(Operation::Flush, When::Counted { after: 0, count: 1 });
    assert_eq!(rig.provoke(), EIO);
    let Rig {
        device,
        fs,
        durable,
        ..
    } = rig;
    drop((durable, fs));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, device.to_bytes()).unwrap();
    let header = uext4_testkit::oracle::dumpe2fs(&path).unwrap();
    assert_eq!(header.text("Journal errno").unwrap(), "-5");
    let fs = image::mount(&device);
    fs.unmount().unwrap();
    std::fs::write(&path, device.to_bytes()).unwrap();
    let header = uext4_testkit::oracle::dumpe2fs(&path).unwrap();
    assert!(
        header
            .text("Filesystem state")
            .unwrap()
            .contains("with errors")
    );
    assert!(header.text("Journal errno").is_err());
    assert_eq!(header.number("FS Error count").unwrap(), 1);
    let noted = ["First error function", "First error err", "Last error err"];
    let noted = noted.map(|label| header.text(label).unwrap());
    assert_eq!(noted, ["journal", "EIO", "EIO"]);
}

/// A read of the root, or of the given file.
type Access<'a> = &'a dyn Fn(&Filesystem, &InodeRef, &InodeRef) -> uext4::Result<()>;

/// A read does not fail because of its access time, when a commit failed in the background.
#[test]
fn a_read_does_not_fail_after_a_commit_that_failed() {
    let reads: [Access<'_>; 3] = [
        &|fs, root, _| fs.read_dir(root, 0, &mut |_| uext4::Visit::Continue),
        &|fs, root, _| {
            let link = fs.lookup(root, b"link", &Caller::root())?;
            fs.read_link(&link).map(drop)
        },
        &|fs, _, file| fs.read(file, 0, &mut [0; 4]).map(drop),
    ];
    for read in reads {
        let faulty = Arc::new(Faulty::new(image::ext4(16)));
        let options = MountOptions::default()
            .parse("commit=1,strictatime")
            .unwrap();
        let fs = Filesystem::mount(faulty.clone(), options).unwrap();
        let (root, caller) = (fs.root().unwrap(), Caller::root());
        let file = fs.create(&root, b"file", 0o644, &caller).unwrap();
        let link = fs.symlink(&root, b"link", b"there", &caller).unwrap();
        fs.write(&file, 0, b"data", &WriteContext::ROOT).unwrap();
        fs.sync().unwrap();
        faulty.arm(Fault {
            operation: Operation::Write,
            when: When::Counted { after: 0, count: 1 },
            cause: Cause::Io,
        });
        fs.create(&root, b"lost", 0o644, &caller).unwrap();
        let stopped = |met: &uext4::Incident| matches!(met, uext4::Incident::Stopped(_));
        uext4_testkit::wait::until_true("the failed commit", || fs.incidents().iter().any(stopped));
        read(&fs, &root, &file).expect("a read");
        drop((file, link, root));
        fs.unmount().expect_err("the journal stopped");
    }
}
