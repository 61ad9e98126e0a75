//! Snapshots of a device beside its writers: each one is one moment, and does not change.

use crate::explore::explore;
use crate::rig::join;
use std::sync::Arc;
use uext4_device::{BlockDevice, MemDevice, SnapshotDevice, SnapshotLimits, Snapshots};
use uext4_sync::thread;

/// Two writers of one grain, and a third thread that takes a snapshot and reads it twice.
fn meet() {
    let device = Arc::new(SnapshotDevice::new(Arc::new(MemDevice::new(8192))));
    let writers = [0u64, 8].map(|at| {
        let device = device.clone();
        thread::spawn(move || {
            for round in 1..=2u8 {
                device.write_at(at, &[round]).expect("it is sound");
                device.write_at(4096 + at, &[round]).expect("it is sound");
            }
        })
    });
    let layers = [device.snapshots().clone()];
    let taken = Snapshots::take(&layers, SnapshotLimits::default());
    let snapshot = taken.expect("writes end").snapshots.remove(0);
    let read = || {
        let mut bytes = [0; 8192];
        snapshot.read_at(0, &mut bytes).expect("it is readable");
        [0, 8].map(|at| (bytes[at], bytes[4096 + at]))
    };
    let first = read();
    join(writers);
    assert_eq!(read(), first);
    for (ahead, behind) in first {
        assert!(ahead == behind || ahead == behind + 1, "{first:?}");
    }
}

#[test]
fn a_snapshot_is_one_moment() {
    explore(500, meet);
}
