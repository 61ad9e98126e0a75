//! Read errors in a commit: the commit reads blocks of which it holds parts only. It repeats failed
//! reads and gives up after the third failure, because the transaction cannot be committed without
//! the block.

use crate::image;
use std::sync::Arc;
use uext4::device::{Cause, Fault, Faulty, MemDevice, Operation, When};
use uext4::{Caller, Filesystem, MountOptions, Threads, WriteContext};

const EIO: i32 = 5;

/// Errno of `fsync` if the first `failing` reads of its commit fail, and the number of injected
/// failures.
fn fsync_when_reads_fail(device: &MemDevice, failing: u64) -> (i32, u64) {
    let faulty = Arc::new(Faulty::new(Arc::new(device.snapshot())));
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let options = options.parse("errors=continue,nodelalloc").unwrap();
    let fs = Filesystem::mount(faulty.clone(), options).unwrap();
    let root = fs.root().unwrap();
    let file = fs.lookup(&root, b"file", &Caller::root()).unwrap();
    // The size changes, because the times may be equal within one clock tick.
    fs.write(&file, 0, b"longer", &WriteContext::ROOT).unwrap();
    faulty.arm(Fault {
        operation: Operation::Read,
        when: When::Counted {
            after: 0,
            count: failing,
        },
        cause: Cause::Io,
    });
    let answer = fs.fsync(&file).map_or_else(|error| error.errno(), |()| 0);
    let injected = faulty.injected();
    faulty.disarm();
    let goes_on = fs.check_writable().is_ok();
    assert_eq!(goes_on, answer == 0, "a commit that is given up stops it");
    (answer, injected)
}

#[test]
fn a_commit_repeats_reads_that_fail() {
    for options in [&[][..], &["-O", "^has_journal"]] {
        let device = image::mke2fs(64, options);
        let fs = image::mount(&device);
        let root = fs.root().unwrap();
        let file = fs.create(&root, b"file", 0o644, &Caller::root()).unwrap();
        fs.write(&file, 0, b"old", &WriteContext::ROOT).unwrap();
        drop((file, root));
        fs.unmount().unwrap();
        for (failing, answer) in [(0, 0), (1, 0), (2, 0), (3, EIO)] {
            let found = fsync_when_reads_fail(&device, failing);
            assert_eq!(found, (answer, failing), "{options:?}");
        }
    }
}
