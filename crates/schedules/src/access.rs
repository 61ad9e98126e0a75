//! A read races an explicit change of the access time: in either order the explicit time stays,
//! since it is not due for an update by the read.

use crate::explore::explore;
use crate::rig::{Flat, dir, image_with_directory, mount, unmount};
use std::sync::Arc;
use uext4::{Caller, Filesystem, InodeRef, SetAttr, SetTime, Timestamp};
use uext4_sync::thread;

/// Before every time of the clock, and after.
const PAST: Timestamp = Timestamp::new(1_000, 0);
const FUTURE: Timestamp = Timestamp::new(4_000_000_000, 5);

fn set_access(fs: &Filesystem, file: &InodeRef, at: Timestamp) {
    let set = SetAttr {
        atime: Some(SetTime::At(at)),
        mtime: Some(SetTime::At(PAST)),
        ..SetAttr::default()
    };
    let set = fs.set_attr(file, &set, &Caller::root());
    assert_eq!(set.expect("it is ours").atime, at);
}

fn meet(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    let caller = Caller::root();
    let file = fs.create(&dir(&fs, b"d"), b"file", 0o644, &caller);
    let file = file.expect("a new name");
    set_access(&fs, &file, PAST);
    let reader = {
        let (fs, file) = (fs.clone(), file.clone());
        thread::spawn(move || {
            fs.read(&file, 0, &mut [0; 8]).expect("a read");
        })
    };
    set_access(&fs, &file, FUTURE);
    reader.join().expect("no thread panics");
    assert_eq!(fs.attr(&file).atime, FUTURE);
    drop(file);
    unmount(&device, &fs);
}

#[test]
fn an_access_that_is_not_due_any_more_is_not_noted() {
    let image = image_with_directory();
    explore(200, move || meet(&image));
}
