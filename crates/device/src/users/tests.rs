//! A file and the loop devices over it, opened in every order.

use super::*;
use crate::loop_device::LoopDevice;
use crate::{Access, BlockDevice, FileDevice};

const IMAGE_BYTES: u64 = 1 << 20;

fn image() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory for the test's image");
    let path = dir.path().join("image");
    drop(FileDevice::create(&path, IMAGE_BYTES).expect("it is fresh"));
    (dir, path)
}

fn write(path: &Path) -> Result<FileDevice, Error> {
    FileDevice::open(path, Access::ReadWrite)
}

/// Opens what has no writer. A program that searches a free loop device claims each for a moment.
#[track_caller]
fn opened(path: &Path) -> FileDevice {
    uext4_testkit::wait::until("a path without a writer", || match write(path) {
        Err(Error::Busy { .. }) => None,
        device => Some(device.unwrap()),
    })
}

#[track_caller]
fn refused(opened: Result<FileDevice, Error>) -> String {
    match opened {
        Err(error @ Error::Busy { .. }) => error.to_string(),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("a second writer"),
    }
}

#[test]
fn a_file_below_a_loop_device_has_one_writer() {
    let (dir, path) = image();
    let Some(node) = LoopDevice::attach(&path) else {
        return;
    };
    // The loop device is idle: the file can be written, and the device is kept.
    let file = opened(&path);
    refused(write(node.path()));
    drop(file);
    let device = opened(node.path());
    for other in ["image", "linked", "moved"] {
        match other {
            "linked" => std::fs::hard_link(&path, dir.path().join(other)).unwrap(),
            "moved" => std::fs::rename(&path, dir.path().join(other)).unwrap(),
            _ => {}
        }
        refused(write(&dir.path().join(other)));
        refused(FileDevice::create(dir.path().join(other), 1));
        let reader = FileDevice::open(dir.path().join(other), Access::ReadOnly).unwrap();
        refused(reader.begin_writing().map(|()| reader));
    }
    let said = refused(write(&dir.path().join("moved")));
    let me = format!("process {} (", std::process::id());
    assert!(said.contains(&me), "{said}");
    drop(device);
    let moved = dir.path().join("moved");
    assert_eq!(opened(&moved).size_bytes(), IMAGE_BYTES);
}

#[test]
fn two_loop_devices_over_one_file_have_one_writer() {
    let (_dir, path) = image();
    let (Some(one), Some(two)) = (LoopDevice::attach(&path), LoopDevice::attach(&path)) else {
        return;
    };
    let device = opened(one.path());
    refused(write(two.path()));
    drop(device);
    // Also without a path to the file.
    std::fs::remove_file(&path).unwrap();
    let device = opened(two.path());
    refused(write(one.path()));
    drop(device);
    opened(one.path());
}

#[test]
fn a_loop_device_over_a_loop_device_is_found() {
    let (_dir, path) = image();
    let Some(lower) = LoopDevice::attach(&path) else {
        return;
    };
    let upper = LoopDevice::attach(lower.path()).expect("as the first");
    let device = opened(upper.path());
    refused(write(lower.path()));
    refused(write(&path));
    drop(device);
    let file = opened(&path);
    refused(write(upper.path()));
    drop(file);
    opened(lower.path());
}

#[test]
fn an_exclusive_opener_of_a_loop_device_uses_the_file() {
    let (_dir, path) = image();
    let Some(node) = LoopDevice::attach(&path) else {
        return;
    };
    let claim = open(node.path(), OFlags::EXCL).unwrap();
    let said = refused(write(&path));
    assert!(said.contains(&node.path().display().to_string()), "{said}");
    refused(FileDevice::create(&path, 1));
    drop(claim);
    let device = opened(&path);
    assert_eq!(open(node.path(), OFlags::EXCL).err(), Some(Errno::BUSY));
    drop(device);
    open(node.path(), OFlags::EXCL).unwrap();
}

#[test]
fn the_servers_of_two_partitions_share_the_file() {
    let (_dir, path) = image();
    let Some(node) = LoopDevice::attach(&path) else {
        return;
    };
    let part = |nr: u32| PathBuf::from(format!("{}p{nr}", node.path().display()));
    for (nr, start) in [("1", "64"), ("2", "1088")] {
        let mut add = std::process::Command::new("addpart");
        let added = add.arg(node.path()).args([nr, start, "900"]).status();
        assert!(added.expect("util-linux is there").success());
    }
    let first = opened(&part(1));
    let second = opened(&part(2));
    refused(write(&path));
    refused(write(node.path()));
    drop(first);
    refused(write(&path));
    drop(second);
    let disk = opened(&path);
    refused(write(&part(1)));
    drop(disk);
}

#[test]
fn a_reader_hears_of_a_writer_and_of_none() {
    let (_dir, path) = image();
    assert_eq!(writer_of(&path), None);
    let writer = opened(&path);
    let pid = std::process::id();
    let found = writer_of(&path);
    assert!(
        matches!(found, Some(User::Process { pid: found, device: None, .. }) if found == pid),
        "{found:?}"
    );
    drop(writer);
    let Some(node) = LoopDevice::attach(&path) else {
        return;
    };
    assert_eq!(writer_of(&path), None);
    let writer = opened(node.path());
    let found = writer_of(&path);
    assert!(
        matches!(&found, Some(User::Process { device: Some(device), .. }) if device == node.path()),
        "{found:?}"
    );
    drop(writer);
    assert_eq!(writer_of(&path), None);
}
