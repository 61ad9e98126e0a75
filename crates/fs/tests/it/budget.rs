//! Limits of one operation: `operation_bytes` and `operation_seconds`.

use crate::image;
use std::sync::Arc;
use std::time::Duration;
use uext4::device::{BlockDevice, MemDevice};
use uext4::{Error, Filesystem, MountOptions};

const NAMES: usize = 1500;
const BLOCK_BYTES: u64 = 1024;

/// An image with an unindexed directory of more than 300 blocks.
fn device() -> Arc<MemDevice> {
    let made = ["-b", "1024", "-O", "^dir_index"];
    let device = image::mke2fs(32, &made);
    let fs = image::mount(&device);
    let paths = fs.paths();
    paths.create_dir("/dir").expect("makes it");
    for nr in 0..NAMES {
        let name = format!("/dir/{nr:0200}");
        paths.write(&name, "").expect("makes it");
    }
    paths.write("/file", "text").expect("makes it");
    fs.unmount().expect("unmounts");
    device
}

fn mounted(device: &Arc<MemDevice>, options: MountOptions) -> Filesystem {
    let device: Arc<dyn BlockDevice> = device.clone();
    Filesystem::mount(device, options).expect("mounts")
}

/// True for a damage error whose message contains `word`.
fn is_told(error: &Error, word: &str) -> bool {
    matches!(error, Error::Corrupt(_)) && error.to_string().contains(word)
}

#[test]
fn what_looks_at_too_much_ends() {
    let device = device();
    let list = format!("operation_bytes={}", 100 * BLOCK_BYTES);
    let options = MountOptions::read_only().parse(&list).expect("options");
    let fs = mounted(&device, options);
    let paths = fs.paths();
    for _ in 0..3 {
        let error = paths.metadata("/dir/absent").expect_err("it is far");
        assert!(is_told(error.error(), "operation_bytes"), "{error}");
        // Each operation has its own budget.
        assert_eq!(paths.read("/file").expect("reads"), b"text");
        paths
            .metadata(format!("/dir/{:0200}", 3))
            .expect("it is near");
    }
    fs.unmount().expect("unmounts");
    // Each block of the directory is charged once.
    let enough = format!("operation_bytes={}", 500 * BLOCK_BYTES);
    for list in ["operation_bytes=0", "", &enough] {
        let options = MountOptions::read_only().parse(list).expect("options");
        let fs = mounted(&device, options);
        let error = fs
            .paths()
            .metadata("/dir/absent")
            .expect_err("it is not there");
        assert!(matches!(error.error(), Error::NotFound), "{list}: {error}");
    }
}

#[test]
fn what_takes_too_long_ends() {
    let options = MountOptions {
        operation_time: Some(Duration::ZERO),
        ..MountOptions::read_only()
    };
    let fs = mounted(&device(), options);
    let error = fs
        .paths()
        .metadata("/dir/absent")
        .expect_err("it takes time");
    assert!(is_told(error.error(), "operation_seconds"), "{error}");
    assert!(
        MountOptions::default()
            .parse("operation_seconds=x")
            .is_err()
    );
}

#[test]
fn a_bound_stays_while_mounted() {
    let fs = mounted(&device(), MountOptions::default());
    let error = fs.remount("operation_bytes=5").expect_err("it is fixed");
    assert!(error.to_string().contains("operation_bytes="), "{error}");
}
