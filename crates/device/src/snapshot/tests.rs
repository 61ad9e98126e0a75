use super::*;
use crate::{Cause, Fault, Faulty, MemDevice, Operation, When};
use uext4_num::clamp_usize;
use uext4_sync::Rng;
use uext4_sync::atomic::{AtomicBool, Ordering};

const SIZE: u64 = (4 << 20) + 1000;

fn layered(inner: Arc<dyn BlockDevice>) -> SnapshotDevice {
    SnapshotDevice::new(inner)
}

fn filled() -> Arc<MemDevice> {
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at / 512 % 251) as u8 + 1).collect();
    Arc::new(MemDevice::from_bytes(&bytes))
}

fn take(device: &SnapshotDevice, limits: SnapshotLimits) -> Arc<Snapshot> {
    let taken = Snapshots::take(&[device.snapshots().clone()], limits);
    taken.expect("no write is in progress").snapshots.remove(0)
}

fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; clamp_usize(device.size_bytes())];
    device.read_at(0, &mut bytes).expect("it is readable");
    bytes
}

fn spilled() -> SnapshotLimits {
    SnapshotLimits {
        memory_bytes: 256 << 10,
        spill: Some(tempfile::tempfile().expect("there is room")),
        spill_bytes: 8 << 20,
        ..SnapshotLimits::default()
    }
}

/// One of the changes that a device knows.
fn change(device: &dyn BlockDevice, rng: &mut Rng) {
    let offset = rng.below(SIZE - 1);
    let len = (1 + rng.below(40_000)).min(SIZE - offset);
    let data = vec![rng.below(256) as u8; clamp_usize(len)];
    let done = match rng.below(7) {
        0 => device.write_at(offset, &data),
        1 => device.write_vectored_at(offset, &[&data[..1], &data[1..]]),
        2 => device.write_durable_at(offset, &data),
        3 => device.discard(offset, len),
        4 => device.write_zeroes(offset, len),
        5 => device.write_hole(offset, len),
        _ => device.write_past_cache_at(offset, &data),
    };
    done.expect("the device has no faults");
}

#[test]
fn each_way_to_write_leaves_the_snapshot_as_it_was() {
    for limits in [SnapshotLimits::default(), spilled()] {
        let device = layered(filled());
        let before = bytes_of(&device);
        let snapshot = take(&device, limits);
        let mut rng = Rng::new(7);
        for _ in 0..300 {
            change(&device, &mut rng);
        }
        assert_ne!(bytes_of(&device), before);
        assert!(bytes_of(&*snapshot) == before);
        // Parts of grains, and across stripes.
        for _ in 0..300 {
            let offset = rng.below(SIZE - 1);
            let len = (1 + rng.below(9000)).min(SIZE - offset);
            let mut part = vec![0; clamp_usize(len)];
            snapshot.read_at(offset, &mut part).expect("it is readable");
            let start = clamp_usize(offset);
            assert_eq!(part, before[start..start + part.len()]);
        }
    }
}

#[test]
fn the_file_takes_what_memory_does_not() {
    let device = layered(filled());
    let snapshot = take(&device, spilled());
    device.write_at(0, &vec![9; 2 << 20]).expect("it is sound");
    let usage = snapshot.usage();
    assert!(usage.memory_bytes <= 256 << 10, "{usage:?}");
    assert!(usage.spilled_bytes > 1 << 20, "{usage:?}");
}

/// The index has memory of its own, so that all of the file can be used.
#[test]
fn the_whole_file_can_be_used() {
    let device = layered(Arc::new(MemDevice::from_bytes(&vec![7; 16 << 20])));
    let limits = SnapshotLimits {
        memory_bytes: 64 << 10,
        spill_bytes: 16 << 20,
        ..spilled()
    };
    let snapshot = take(&device, limits);
    device.write_at(0, &vec![9; 16 << 20]).expect("it is sound");
    assert_eq!(snapshot.ended(), None);
    assert!(bytes_of(&*snapshot) == vec![7; 16 << 20]);
}

/// Keeping old contents may take longer than a lease lasts.
#[test]
fn a_lease_is_checked_once_the_old_content_is_kept() {
    let device = layered(filled());
    let before = bytes_of(&device);
    let own = 8192..12_288;
    device.snapshots().set_lease(own, || Err(Error::ReadOnly));
    device.write_at(0, &[7]).expect("nothing is kept");
    device.write_at(0, &before[..1]).expect("nothing is kept");
    let snapshot = take(&device, SnapshotLimits::default());
    assert!(matches!(device.write_at(0, &[9]), Err(Error::ReadOnly)));
    device.write_at(8192, &[9; 4096]).expect("it is the lease");
    assert!(bytes_of(&*snapshot) == before && bytes_of(&device)[0] == before[0]);
    assert!(snapshot.usage().memory_bytes >= 8192, "it was kept first");
}

/// A discard is a hint, which is not worth a copy of all free space.
#[test]
fn nothing_is_discarded_while_a_snapshot_exists() {
    let device = layered(filled());
    let before = bytes_of(&device);
    let snapshot = take(&device, SnapshotLimits::default());
    device.discard(0, 1 << 20).expect("it is sound");
    assert_eq!(snapshot.usage().memory_bytes, 0);
    assert!(bytes_of(&device) == before);
    drop(snapshot);
    device.discard(0, 1 << 20).expect("it is sound");
    assert!(bytes_of(&device) != before);
}

#[test]
fn snapshots_of_different_moments_live_side_by_side() {
    let device = layered(filled());
    let mut rng = Rng::new(3);
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push((bytes_of(&device), take(&device, SnapshotLimits::default())));
        for _ in 0..20 {
            change(&device, &mut rng);
        }
    }
    taken.remove(1);
    change(&device, &mut rng);
    for (before, snapshot) in taken {
        assert!(bytes_of(&*snapshot) == before);
    }
    assert!(!device.snapshots().is_active());
}

#[test]
fn what_a_snapshot_keeps_from_being_discarded_is_counted() {
    let device = layered(filled());
    let left = || device.snapshots().left_bytes();
    device.discard(0, 4096).expect("it is inside");
    assert_eq!(left(), 0);
    let snapshot = take(&device, SnapshotLimits::default());
    device.discard(8192, 4096).expect("it is inside");
    assert_eq!(left(), 4096);
    drop(snapshot);
    device.discard(8192, 4096).expect("it is inside");
    assert_eq!(left(), 4096);
}

#[test]
fn at_the_limit_the_snapshot_ends_and_writes_go_on() {
    let few = SnapshotLimits {
        memory_bytes: 100_000,
        ..SnapshotLimits::default()
    };
    let small_file = SnapshotLimits {
        spill_bytes: 100_000,
        ..spilled()
    };
    for limits in [few, small_file] {
        let has_file = limits.spill.is_some();
        let device = layered(filled());
        let snapshot = take(&device, limits);
        device
            .write_at(0, &vec![9; 1 << 20])
            .expect("it is written");
        assert_eq!(bytes_of(&device)[..1 << 20], vec![9; 1 << 20]);
        let error = snapshot.read_at(3 << 20, &mut [0]).expect_err("it ended");
        let why = snapshot.ended().expect("it ended");
        assert_eq!(matches!(why, SnapshotEnd::SpillFull { .. }), has_file);
        assert!(matches!(error, Error::SnapshotEnded(end) if end == why));
        assert_eq!(snapshot.usage().memory_bytes, 0);
        device.write_at(2 << 20, &[9]).expect("it is written");
    }
}

#[test]
fn an_old_content_that_cannot_be_read_is_an_error_there_alone() {
    let faulty = Arc::new(Faulty::new(filled()));
    let device = layered(faulty.clone());
    let snapshot = take(&device, SnapshotLimits::default());
    faulty.arm(Fault {
        operation: Operation::Read,
        when: When::Always,
        cause: Cause::Io,
    });
    device.write_at(8192, &[9; 4096]).expect("writes are sound");
    faulty.disarm();
    assert!(snapshot.read_at(8192, &mut [0; 10]).is_err());
    snapshot.read_at(4096, &mut [0; 4096]).expect("a neighbour");
    assert_eq!(snapshot.ended(), None);
}

#[test]
fn a_snapshot_is_read_only_private_and_ends_with_the_device() {
    let device = layered(filled());
    let snapshot = take(&device, SnapshotLimits::default());
    assert!(snapshot.is_read_only() && snapshot.is_private());
    assert!(snapshot.write_at(0, &[1]).is_err() && snapshot.write_zeroes(0, 1).is_err());
    assert!(snapshot.discard(0, 1).is_err());
    let aborted = take(&device, SnapshotLimits::default());
    aborted.end(SnapshotEnd::Aborted);
    let error = aborted.read_at(0, &mut [0]).expect_err("it was aborted");
    assert!(error.to_string().contains("aborted"), "{error}");
    let released = take(&device, SnapshotLimits::default());
    device.release();
    for ended in [&released, &snapshot] {
        assert_eq!(ended.ended(), Some(SnapshotEnd::Closed));
    }
    drop(device);
    let error = snapshot.read_at(0, &mut [0]).expect_err("it is gone");
    assert!(matches!(error, Error::SnapshotEnded(SnapshotEnd::Closed)));
}

/// Snapshots begin beside writers of the same grains. Each one is what a copy of the device at its
/// start has: the writers count their rounds in every part that they write, in ascending order.
#[test]
fn a_snapshot_beside_writers_is_one_moment() {
    const THREADS: u64 = 4;
    let device = Arc::new(layered(Arc::new(MemDevice::new(1 << 20))));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (device, stop) = (device.clone(), &stop);
            scope.spawn(move || {
                let mut round = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    // Words of all threads are in the same grains.
                    for grain in 0..64 {
                        let at = grain * 4096 + thread * 8;
                        device.write_at(at, &round.to_le_bytes()).expect("sound");
                    }
                }
            });
        }
        for _ in 0..200 {
            let snapshot = take(&device, SnapshotLimits::default());
            let first = bytes_of(&*snapshot);
            std::thread::yield_now();
            assert!(bytes_of(&*snapshot) == first, "it does not change");
            for thread in 0..THREADS {
                let words: Vec<u64> = (0..64)
                    .map(|grain| clamp_usize(grain * 4096 + thread * 8))
                    .map(|at| u64::from_le_bytes(first[at..at + 8].try_into().expect("8 bytes")))
                    .collect();
                // A prefix of the grains has the running round, the rest the one before.
                let falls = words.windows(2).filter(|pair| pair[0] != pair[1]).count();
                assert!(falls <= 1, "{words:?}");
                assert!(words[0] - words[63] <= 1, "{words:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn reasons_reach_other_processes() {
    let reasons = [
        SnapshotEnd::Closed,
        SnapshotEnd::MemoryFull { limit_bytes: 7 },
        SnapshotEnd::SpillFull { limit_bytes: 8 },
        SnapshotEnd::SpillFailed { errno: 28 },
        SnapshotEnd::NeverIdle { seconds: 9 },
        SnapshotEnd::Aborted,
        SnapshotEnd::Silent,
        SnapshotEnd::Malformed,
        SnapshotEnd::Unclaimed,
    ];
    for why in reasons {
        let (kind, value) = why.to_numbers();
        assert_eq!(SnapshotEnd::of_numbers(kind, value), why);
    }
}

/// A write that does not end keeps the start waiting only for the limit.
#[test]
fn a_start_gives_up_and_lets_writers_go_on() {
    use std::time::Duration;
    let device = layered(filled());
    let limits = || SnapshotLimits {
        pause: Duration::from_millis(1),
        patience: Duration::from_millis(30),
        ..SnapshotLimits::default()
    };
    let inside = device.snapshots().clone();
    let written = inside.change(&*device.inner, 0..1, || {
        let layers = [device.snapshots().clone()];
        let failed = Snapshots::take(&layers, limits()).err();
        let why = failed.expect("a write is in progress").to_string();
        assert!(why.contains("no moment"), "{why}");
        Ok(())
    });
    written.expect("it goes on");
    device.write_at(0, &[1]).expect("it is open");
    take(&device, limits());
}

/// What differs between two snapshots is in granules that are marked, whatever changed them.
#[test]
fn granules_that_differ_between_two_snapshots_are_marked() {
    let device = layered(filled());
    device.write_at(0, &[1]).expect("it is sound");
    let changes = device.snapshots().track().expect("it is open");
    let first = take(&device, SnapshotLimits::default());
    let before = bytes_of(&*first);
    drop(first);
    let mut rng = Rng::new(9);
    for round in 0..40 {
        change(&device, &mut rng);
        let snapshot = take(&device, SnapshotLimits::default());
        // Later changes do no harm.
        change(&device, &mut rng);
        let after = bytes_of(&*snapshot);
        let mut bits = vec![0; clamp_usize(changes.bitmap_bytes())];
        assert!(changes.read(0, &mut bits));
        let granule = clamp_usize(changes.granule_bytes());
        let pairs = before.chunks(granule).zip(after.chunks(granule));
        let mut marked = 0;
        for (nr, (old, new)) in pairs.enumerate() {
            let is_marked = bits[nr / 8] >> (nr % 8) & 1 == 1;
            assert!(is_marked || old == new, "round {round}, granule {nr}");
            marked += u64::from(is_marked);
        }
        assert_eq!(changes.changed(), marked);
        if round == 0 {
            assert!(marked < 10, "only what was written: {marked}");
        }
    }
    assert!(!changes.read(changes.bitmap_bytes(), &mut [0]));
    assert!(changes.is_complete());
    device.release();
    assert!(!changes.is_complete(), "later writes are not seen");
}

/// Ranges at the ends of words and of the device, and nonsense.
#[test]
fn exactly_the_granules_of_a_range_are_marked() {
    const GRANULE: u64 = 1 << 16;
    let size = 200 * GRANULE + 5;
    let device = layered(Arc::new(MemDevice::new(size)));
    for (from, to) in [(0, 1), (63, 64), (63, 65), (64, 128), (5, 199), (200, 201)] {
        let changes = device.snapshots().track().expect("it is open");
        let range = from * GRANULE..(to * GRANULE).min(size);
        let len = range.end - range.start;
        device.write_zeroes(range.start, len).expect("it is sound");
        assert_eq!(changes.changed(), to - from, "{from}..{to}");
        changes.mark(u64::MAX);
        changes.mark(1 << 40);
        assert_eq!(changes.changed(), to - from, "{from}..{to}");
    }
}
