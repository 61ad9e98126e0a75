//! Files: windows, locks, holes, vectors; and the errors.

use super::*;
use std::os::unix::fs::MetadataExt;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for the test's image")
}

#[test]
fn bytes_come_back_and_the_file_keeps_its_size() {
    let dir = scratch();
    let device = FileDevice::create(dir.path().join("image"), 1 << 20).unwrap();
    device.write_at(1000, b"hello").unwrap();
    device
        .write_vectored_at(2000, &[b"", b"ab", b"", b"cde", b""])
        .unwrap();
    device.flush().unwrap();
    let mut buf = [0; 5];
    device.read_at(1000, &mut buf).unwrap();
    assert_eq!(&buf, b"hello");
    device.read_at(2000, &mut buf).unwrap();
    assert_eq!(&buf, b"abcde");
    assert_eq!(device.path().metadata().unwrap().len(), 1 << 20);
    assert!(matches!(
        device.write_at((1 << 20) - 1, b"xx"),
        Err(Error::OutOfRange { .. })
    ));
}

#[test]
fn a_vector_longer_than_one_call_takes_is_written_whole() {
    let dir = scratch();
    let device = FileDevice::create(dir.path().join("image"), 1 << 16).unwrap();
    let bytes: Vec<u8> = (0..3 * SEGMENTS_MAX).map(|i| i as u8).collect();
    let bufs: Vec<&[u8]> = bytes.chunks(1).collect();
    device.write_vectored_at(7, &bufs).unwrap();
    let mut back = vec![0; bytes.len()];
    device.read_at(7, &mut back).unwrap();
    assert!(back == bytes);
}

#[test]
fn windows_tell_where_their_bytes_stand() {
    let dir = scratch();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 1 << 20).unwrap();
    device.write_at(30_000, b"hello").unwrap();
    drop(device);
    let file = FileDevice::open_window(&path, Access::ReadOnly, 4096, None).unwrap();
    let device = crate::Window::new(std::sync::Arc::new(file), 8192, 65_536).unwrap();
    let place = device.backing(30_000 - 4096 - 8192, 5).unwrap();
    assert_eq!(place.offset, 30_000);
    let mut buf = [0; 5];
    let file = File::from(place.file.try_clone_to_owned().unwrap());
    file.read_exact_at(&mut buf, place.offset).unwrap();
    assert_eq!(&buf, b"hello");
    assert!(device.backing(65_532, 5).is_none() && device.backing(u64::MAX, 1).is_none());
    assert!(crate::MemDevice::new(4096).backing(0, 1).is_none());
}

#[test]
fn a_second_writer_is_refused_and_told_why() {
    let dir = scratch();
    let path = dir.path().join("image");
    let first = FileDevice::create(&path, 4096).unwrap();
    first.write_at(0, b"kept").unwrap();
    let error = FileDevice::open(&path, Access::ReadWrite)
        .err()
        .expect("must be refused");
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(matches!(
        FileDevice::create(&path, 1),
        Err(Error::Busy { .. })
    ));
    let reader = FileDevice::open(&path, Access::ReadOnly).unwrap();
    let mut buf = [0; 4];
    reader.read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"kept");
    drop(first);
    FileDevice::open(&path, Access::ReadWrite).unwrap();
}

#[test]
fn read_only_refuses_every_change() {
    let dir = scratch();
    let path = dir.path().join("image");
    drop(FileDevice::create(&path, 4096).unwrap());
    let device = FileDevice::open(&path, Access::ReadOnly).unwrap();
    assert!(device.is_read_only());
    assert!(matches!(device.write_at(0, b"x"), Err(Error::ReadOnly)));
    assert!(matches!(
        device.write_vectored_at(0, &[b"x"]),
        Err(Error::ReadOnly)
    ));
    assert!(matches!(device.discard(0, 1), Err(Error::ReadOnly)));
    assert!(matches!(device.write_zeroes(0, 1), Err(Error::ReadOnly)));
    device.flush().unwrap();
}

#[test]
fn a_window_sees_its_part_only() {
    let dir = scratch();
    let path = dir.path().join("image");
    FileDevice::create(&path, 4096)
        .unwrap()
        .write_at(1024, b"inside")
        .unwrap();
    let window = FileDevice::open_window(&path, Access::ReadWrite, 1024, Some(512)).unwrap();
    assert_eq!(window.size_bytes(), 512);
    let mut buf = [0; 6];
    window.read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"inside");
    assert!(window.write_at(511, b"xx").is_err());
    drop(window);
    assert!(FileDevice::open_window(&path, Access::ReadOnly, 4000, Some(97)).is_err());
    assert!(FileDevice::open_window(&path, Access::ReadOnly, 5000, None).is_err());
}

#[test]
fn holes_give_memory_back_and_read_as_zero() {
    let dir = scratch();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 1 << 20).unwrap();
    device.write_at(0, &vec![7; 1 << 20]).unwrap();
    let full = path.metadata().unwrap().blocks();
    device.discard(0, 1 << 19).unwrap();
    assert!(path.metadata().unwrap().blocks() < full);
    device.write_zeroes(600_001, 100_000).unwrap();
    let mut buf = vec![1; 100_002];
    device.read_at(600_000, &mut buf).unwrap();
    assert!(buf[0] == 7 && buf[100_001] == 7 && buf[1..100_001].iter().all(|b| *b == 0));
    assert_eq!(path.metadata().unwrap().len(), 1 << 20);
}

#[test]
fn a_backing_that_shrank_is_an_error_and_not_a_panic() {
    let dir = scratch();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 4096).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(100)
        .unwrap();
    assert!(matches!(
        device.read_at(0, &mut [0; 200]),
        Err(Error::Io { op: "read", .. })
    ));
}

/// As a process that is started at the wrong moment holds a descriptor.
#[test]
fn a_copied_descriptor_does_not_keep_the_lock() {
    let dir = scratch();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 4096).unwrap();
    let copy = device.file.try_clone().unwrap();
    drop(device);
    FileDevice::open(&path, Access::ReadWrite).unwrap();
    drop(copy);
}

#[test]
fn a_block_device_has_its_size_and_one_writer() {
    let dir = scratch();
    let path = dir.path().join("image");
    drop(FileDevice::create(&path, 1 << 20).unwrap());
    let Some(node) = crate::loop_device::LoopDevice::attach(&path) else {
        return;
    };
    let device = FileDevice::open(node.path(), Access::ReadWrite).unwrap();
    assert_eq!(device.size_bytes(), 1 << 20);
    assert!(matches!(
        FileDevice::open(node.path(), Access::ReadWrite),
        Err(Error::Busy { .. })
    ));
    device.write_at(1000, &[7; 5000]).unwrap();
    device.write_zeroes(2048, 1024).unwrap();
    device.write_zeroes(5001, 7).unwrap();
    device.discard(8192, 4096).unwrap();
    device.flush().unwrap();
    let mut buf = [0; 5002];
    device.read_at(999, &mut buf).unwrap();
    for (at, byte) in (999u64..).zip(buf) {
        let zero =
            !(1000..6000).contains(&at) || (2048..3072).contains(&at) || (5001..5008).contains(&at);
        assert_eq!(byte, if zero { 0 } else { 7 }, "byte {at}");
    }
}

#[test]
fn a_write_protected_device_is_refused_before_a_write_is() {
    let dir = scratch();
    let path = dir.path().join("image");
    drop(FileDevice::create(&path, 1 << 20).unwrap());
    let Some(node) = crate::loop_device::LoopDevice::attach_protected(&path) else {
        return;
    };
    let refused = |got| assert!(matches!(got, Err(Error::WriteProtected)), "{got:?}");
    refused(FileDevice::open(node.path(), Access::ReadWrite).map(|_| ()));
    let device = FileDevice::open(node.path(), Access::ReadOnly).unwrap();
    refused(device.begin_writing());
}

#[test]
fn zeroes_and_holes_in_a_window_stay_in_their_place() {
    let dir = scratch();
    let path = dir.path().join("image");
    FileDevice::create(&path, 1 << 16)
        .unwrap()
        .write_at(0, &[7; 1 << 16])
        .unwrap();
    let window = FileDevice::open_window(&path, Access::ReadWrite, 8192, Some(16384)).unwrap();
    window.write_zeroes(4096, 4096).unwrap();
    window.discard(10_000, 5000).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for (at, byte) in bytes.into_iter().enumerate() {
        let zero = (12_288..16_384).contains(&at) || (18_192..23_192).contains(&at);
        assert_eq!(byte, if zero { 0 } else { 7 }, "byte {at}");
    }
}

#[test]
fn a_device_opened_to_read_takes_writes_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, [7; 100]).unwrap();
    let device = FileDevice::open_window(&path, Access::ReadOnly, 10, Some(20)).unwrap();
    assert!(matches!(device.write_at(0, &[1]), Err(Error::ReadOnly)));
    // By then its name may stand for another file.
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    std::fs::write(&path, [0; 100]).unwrap();
    let other = FileDevice::open(dir.path().join("moved"), Access::ReadWrite).unwrap();
    assert!(matches!(device.begin_writing(), Err(Error::Busy { .. })));
    drop(other);
    device.begin_writing().unwrap();
    device.write_at(0, &[1]).unwrap();
    device.flush().unwrap();
    assert_eq!(
        std::fs::read(dir.path().join("moved")).unwrap()[9..12],
        [7, 1, 7]
    );
    let other = FileDevice::open(dir.path().join("moved"), Access::ReadWrite);
    assert!(matches!(other, Err(Error::Busy { .. })));
}

/// The kernel lets the owner of a disk set its attributes.
#[test]
fn a_disk_that_turns_is_known_and_reading_ahead_changes_nothing() {
    let dir = scratch();
    let path = dir.path().join("image");
    FileDevice::create(&path, 1 << 20)
        .unwrap()
        .write_at(5000, b"bytes")
        .unwrap();
    let Some(node) = crate::loop_device::LoopDevice::attach(&path) else {
        return;
    };
    let name = node.path().file_name().unwrap().to_owned();
    let rotational = Path::new("/sys/block").join(name).join("queue/rotational");
    for (said, turns) in [("1", true), ("0", false)] {
        std::fs::write(&rotational, said).unwrap();
        let device = FileDevice::open(node.path(), Access::ReadOnly).unwrap();
        assert_eq!(device.is_rotational(), turns);
        for (offset, len) in [(4096, 8192), (0, 0), (1 << 20, 1), (u64::MAX, u64::MAX)] {
            device.read_ahead(offset, len);
        }
        let mut buf = [0; 5];
        device.read_at(5000, &mut buf).unwrap();
        assert_eq!(&buf, b"bytes");
    }
}

#[test]
fn an_opener_that_writes_no_more_lets_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 4096).unwrap();
    device.claim_for(Claimant::Mount).unwrap();
    let other = || FileDevice::open(&path, Access::ReadWrite);
    assert!(matches!(other(), Err(Error::Busy { .. })));
    device.claim_for(Claimant::None).unwrap();
    other().unwrap();
}

#[test]
fn one_claim_on_a_block_device() {
    let dir = scratch();
    let path = dir.path().join("image");
    FileDevice::create(&path, 1 << 20).unwrap();
    let Some(node) = crate::loop_device::LoopDevice::attach(&path) else {
        return;
    };
    let device = FileDevice::open(node.path(), Access::ReadWrite).unwrap();
    // As the kernel claims it for a mount, without a lock.
    let claim = || opening::claim(node.path());
    assert!(matches!(claim(), Err(Error::Busy { .. })));
    device.claim_for(Claimant::Mount).unwrap();
    // Other processes that look for a free loop device claim each one for a moment.
    let mount = uext4_testkit::wait::until("a claim", || claim().ok());
    device.write_at(0, b"bytes").unwrap();
    let error = device.claim_for(Claimant::Opener).unwrap_err();
    assert!(error.to_string().contains("/dev/loop"), "{error}");
    drop(mount);
    device.claim_for(Claimant::Opener).unwrap();
    device.claim_for(Claimant::Opener).unwrap();
    assert!(claim().is_err());
}
