//! After the unmount clones answer one error, and the image is free for the next mount.

use crate::image;
use std::sync::Arc;
use uext4::device::{Access, BlockDevice, Error as DeviceError, FileDevice};
use uext4::path::PathError;
use uext4::{Caller, Error, Filesystem, MountOptions};
use uext4_testkit::oracle;

fn assert_unmounted<T>(answer: Result<T, impl Into<Error>>, what: &str) {
    match answer.map_err(Into::into) {
        Err(Error::Unmounted) => {}
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what} is answered"),
    }
}

fn assert_busy(opened: Result<FileDevice, DeviceError>) {
    let busy = matches!(opened, Err(DeviceError::Busy { .. }));
    assert!(busy, "{:?}", opened.map(|_| "opened"));
}

#[test]
fn an_image_is_free_although_clones_of_its_mount_live() {
    let (_dir, path) = image::on_disk(&image::ext4(16));
    let open = || FileDevice::open(&path, Access::ReadWrite);
    let mount = || Filesystem::mount(Arc::new(open().unwrap()), MountOptions::default()).unwrap();
    let fs = mount();
    let (clone, paths) = (fs.clone(), fs.paths());
    paths.write("/file", b"data").unwrap();
    let (inode, root) = (paths.inode("/file").unwrap(), fs.root().unwrap());
    let file = paths.open("/file").unwrap();
    assert_busy(open());
    fs.unmount().unwrap();

    let again = mount();
    let mut bytes = [0; 4];
    assert_unmounted(clone.read(&inode, 0, &mut bytes), "read");
    assert_unmounted(clone.lookup(&root, b"file", &Caller::root()), "lookup");
    assert_unmounted(
        clone.create(&root, b"new", 0o644, &Caller::root()),
        "create",
    );
    assert_unmounted(clone.sync(), "sync");
    assert_unmounted(clone.freeze(), "freeze");
    assert_unmounted(clone.remount("ro"), "remount");
    assert_unmounted::<()>(paths.write("/file", b"more"), "write by path");
    assert_unmounted::<Vec<u8>>(paths.read("/file"), "read by path");
    assert_unmounted::<usize>(file.read_at(0, &mut bytes), "read of an open file");
    let refused: PathError = paths.read("/file").unwrap_err();
    assert!(refused.to_string().contains("the file system is unmounted"));

    // The end of the clones takes nothing from the new mount.
    again.paths().write("/other", b"other").unwrap();
    clone.unmount().unwrap();
    drop((inode, root, file, paths, clone, fs));
    assert_busy(open());
    again.unmount().unwrap();
    drop(again);
    oracle::assert_clean(&path);
    let last = mount();
    assert_eq!(last.paths().read("/file").unwrap(), b"data");
    assert_eq!(last.paths().read("/other").unwrap(), b"other");
}

/// Tools mount a device several times, and work on it in between.
#[test]
fn a_device_that_its_opener_keeps_stays_claimed() {
    let (_dir, path) = image::on_disk(&image::ext4(16));
    let open = || FileDevice::open(&path, Access::ReadWrite);
    let kept: Arc<dyn BlockDevice> = Arc::new(open().unwrap());
    for _ in 0..2 {
        let fs = Filesystem::mount(kept.clone(), MountOptions::default()).unwrap();
        fs.unmount().unwrap();
        assert_busy(open());
    }
    drop(kept);
    drop(open().unwrap());
}
