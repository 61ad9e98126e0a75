//! Shutdown of a mount: what it still writes, and what the next mount recovers.

use crate::image;
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4::{Caller, Error, Filesystem, Flush, WriteContext};

const SYNCED: &[u8] = b"synced";
const LATE: &[u8] = b"late";

/// A mount with one synced file and one that was only created and written.
fn begun(device: &Arc<MemDevice>) -> Filesystem {
    let fs = image::mount(device);
    let root = fs.root().unwrap();
    for name in [SYNCED, LATE] {
        let file = fs.create(&root, name, 0o644, &Caller::root()).unwrap();
        fs.write(&file, 0, name, &WriteContext::ROOT).unwrap();
        if name == SYNCED {
            fs.fsync(&file).unwrap();
        }
    }
    fs
}

fn assert_shut(fs: &Filesystem) {
    let root = fs.root();
    let shut = |done: uext4::Result<()>| assert!(matches!(done, Err(Error::Shutdown)), "{done:?}");
    shut(
        root.and_then(|root| fs.lookup(&root, LATE, &Caller::root()))
            .map(drop),
    );
    shut(fs.sync());
    shut(fs.freeze());
    shut(fs.remount("ro"));
}

#[test]
fn each_kind_writes_what_it_promises_and_nothing_later() {
    for options in [&[][..], &["-O", "^has_journal"]] {
        for flush in [Flush::Everything, Flush::Log, Flush::Nothing] {
            for frozen in [false, true] {
                let what = format!("{options:?} {flush:?} frozen {frozen}");
                let device = image::mke2fs(32, options);
                let fs = begun(&device);
                if frozen {
                    fs.freeze().unwrap();
                }
                let before = device.to_bytes();
                fs.shutdown(flush).unwrap();
                if flush == Flush::Nothing || frozen {
                    assert!(device.to_bytes() == before, "{what}");
                }
                assert_shut(&fs);
                let left = device.to_bytes();
                fs.shutdown(Flush::Everything).unwrap();
                let is_clean = flush == Flush::Everything || frozen;
                assert_eq!(fs.unmount().is_ok(), is_clean, "{what}");
                drop(fs);
                assert!(
                    device.to_bytes() == left,
                    "{what}: nothing is written after it"
                );
                if is_clean {
                    image::assert_clean(&device);
                }
                if options.is_empty() || is_clean {
                    assert_recovered(&device, (flush, frozen), &what);
                }
            }
        }
    }
}

fn assert_recovered(device: &Arc<MemDevice>, (flush, frozen): (Flush, bool), what: &str) {
    let fs = image::mount(device);
    let read = |name: &[u8]| fs.paths().read(name).ok();
    assert_eq!(read(SYNCED).as_deref(), Some(SYNCED), "{what}");
    match flush {
        _ if frozen => assert_eq!(read(LATE).as_deref(), Some(LATE), "{what}"),
        Flush::Everything => assert_eq!(read(LATE).as_deref(), Some(LATE), "{what}"),
        Flush::Log => assert_eq!(read(LATE), Some(Vec::new()), "{what}: delayed data"),
        Flush::Nothing => assert_eq!(read(LATE), None, "{what}"),
    }
    fs.unmount().unwrap();
    image::assert_clean(device);
}

/// A mount that reads only, and one that is no more.
#[test]
fn mounts_that_write_nothing_are_shut_down_as_well() {
    let device = image::ext4(16);
    let before = device.to_bytes();
    let fs = image::mount_with(&device, "ro").unwrap();
    fs.shutdown(Flush::Everything).unwrap();
    assert_shut(&fs);
    fs.unmount().unwrap();
    let refused = fs.shutdown(Flush::Log);
    assert!(matches!(refused, Err(Error::Unmounted)), "{refused:?}");
    assert!(device.to_bytes() == before);
}
