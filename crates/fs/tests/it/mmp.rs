//! Multiple mount protection between mounts of one device, and on an overlay.

use crate::image::{self, Sealed};
use std::sync::Arc;
use uext4::device::{
    Access, BlockDevice, Error as DeviceError, FileDevice, MemDevice, Recorder, SnapshotEnd,
    SnapshotLimits, User,
};
use uext4::format::mmp::{MMP_SEQ_CLEAN, Mmp};
use uext4::format::{BlockNr, Feature};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{
    Caller, Error, Filesystem, InternalJournal, Journal, MountOptions, WriteContext, set_journal,
};
use uext4_testkit::{oracle, wait};

/// Generous time limit for noticing a lost claim.
fn fresh() -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.insert(Feature::MMP);
    image::fresh(32, &options)
}

/// The MMP block and its byte offset.
fn block(device: &dyn BlockDevice) -> (Mmp, u64) {
    let superblock = uext4::read_superblock(device, None).unwrap();
    let block_size = u64::from(superblock.geometry().unwrap().block_size());
    let at = superblock.mmp_block * block_size;
    let mut bytes = [0; 1024];
    device.read_at(at, &mut bytes).unwrap();
    let nr = BlockNr(superblock.mmp_block);
    (Mmp::parse(&bytes, nr, &superblock.checksums()).unwrap(), at)
}

fn take_over(device: &dyn BlockDevice) {
    let (mut mmp, at) = block(device);
    mmp.sequence = 4711;
    mmp.node_name[..9].copy_from_slice(b"elsewhere");
    let superblock = uext4::read_superblock(device, None).unwrap();
    let mut bytes = [0; 1024];
    mmp.write_to(&mut bytes, &superblock.checksums());
    device.write_at(at, &bytes).unwrap();
}

fn write(fs: &Filesystem, name: &[u8]) -> uext4::Result<()> {
    let file = fs.create(&fs.root()?, name, 0o644, &Caller::root())?;
    fs.write(&file, 0, b"data", &WriteContext::ROOT)?;
    fs.fsync(&file)
}

fn mount(device: Arc<dyn BlockDevice>) -> uext4::Result<Filesystem> {
    Filesystem::mount(device, MountOptions::default())
}

fn assert_busy(answer: uext4::Result<()>) {
    let is_busy = |user: &User| matches!(user, User::Host { node, .. } if !node.is_empty());
    match answer {
        Err(Error::Device(DeviceError::Busy { user, .. })) if is_busy(&user) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mount_that_lost_its_claim_writes_nothing_more() {
    let device = fresh();
    let fs = mount(device.clone()).unwrap();
    write(&fs, b"before").unwrap();
    assert_ne!(block(&*device).0.sequence, MMP_SEQ_CLEAN);
    // The renewed sequence is noticed.
    assert_busy(mount(device.clone()).map(drop));
    let shared: Arc<dyn BlockDevice> = device.clone();
    assert_busy(uext4::refuse_other_hosts(&shared));
    write(&fs, b"still").unwrap();
    take_over(&*device);
    let failure = wait::until("the loss is noticed", || fs.failure());
    let said = failure.to_string();
    assert!(said.contains("elsewhere"), "{said}");
    let before = device.to_bytes();
    assert!(write(&fs, b"late").is_err());
    assert!(fs.unmount().is_err());
    drop(fs);
    assert!(device.to_bytes() == before, "another host's, and written");
}

/// A journal is added by writes between mounts, which no claim would stop.
#[test]
fn no_journal_is_added_beside_another_host() {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.apply_features("mmp,^has_journal").unwrap();
    let device = image::fresh(32, &options);
    let user = mount(device.clone()).unwrap();
    let recorder = Arc::new(Recorder::new(device.clone()));
    let shared: Arc<dyn BlockDevice> = recorder.clone();
    let wanted = Journal::Internal(InternalJournal::default());
    assert_busy(set_journal(&shared, &MountOptions::default(), wanted));
    assert_eq!(recorder.log().len(), 0, "written");
    user.unmount().unwrap();
    image::assert_clean(&device);
}

/// The mount becomes writable after a journal replay in memory.
#[test]
fn a_claim_beside_an_overlay_is_on_the_device() {
    let device = fresh();
    let fs = mount(device.clone()).unwrap();
    write(&fs, b"durable").unwrap();
    fs.abandon();
    drop(fs);
    let mount_sealed = || {
        let sealed = Sealed::new(device.clone());
        Filesystem::mount(sealed, MountOptions::read_only()).unwrap()
    };
    let (first, second) = (mount_sealed(), mount_sealed());
    let left = block(&*device).0;
    std::thread::scope(|scope| {
        // The claim waits twice and writes its sequence in between.
        let remount = scope.spawn(|| first.remount("rw"));
        wait::until_true("the claim is on the device", || block(&*device).0 != left);
        take_over(&*device);
        assert_busy(remount.join().unwrap());
    });
    drop(first);
    assert_eq!(block(&*device).0.sequence, 4711, "settled over");
    second.remount("rw").unwrap();
    let claimed = block(&*device).0;
    assert!(
        ![4711, MMP_SEQ_CLEAN].contains(&claimed.sequence),
        "settled over"
    );
    write(&second, b"more").unwrap();
    second.unmount().unwrap();
    assert_eq!(block(&*device).0.sequence, MMP_SEQ_CLEAN);
    image::assert_clean(&device);
}

/// A read-only mount reads the superblock past the cache, and a writable one writes the claim so.
#[test]
fn a_read_only_mount_of_a_file_becomes_writable() {
    let dir = oracle::scratch_dir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, fresh().to_bytes()).unwrap();
    let device = Arc::new(FileDevice::open(&path, Access::ReadOnly).unwrap());
    let fs = Filesystem::mount(device.clone(), MountOptions::read_only()).unwrap();
    fs.remount("rw").unwrap();
    assert_ne!(block(&*device).0.sequence, MMP_SEQ_CLEAN);
    write(&fs, b"file").unwrap();
    fs.unmount().unwrap();
    assert_eq!(block(&*device).0.sequence, MMP_SEQ_CLEAN);
    drop((fs, device));
    oracle::assert_clean(&path);
}

/// A read-only mount gives up its claim, so that a snapshot of it may become torn.
#[test]
fn a_snapshot_ends_with_the_claim() {
    let device = fresh();
    let fs = mount(device.clone()).expect("mount");
    write(&fs, b"file").expect("there is room");
    let snapshot = fs.snapshot(SnapshotLimits::default());
    let snapshot = snapshot.expect("a snapshot");
    snapshot.device.read_at(0, &mut [0]).expect("it goes on");
    fs.remount("ro").expect("nothing is open");
    assert_eq!(snapshot.device.ended(), Some(SnapshotEnd::Unclaimed));
    let error = snapshot.device.read_at(0, &mut [0]);
    let error = error.expect_err("another host may have written it");
    assert!(error.to_string().contains("read-only"), "{error}");
    drop(snapshot);
    fs.unmount().expect("unmount");
}
