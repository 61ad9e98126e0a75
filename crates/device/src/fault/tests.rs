//! Each fault hits the accesses that it names, with its error, and no others.

use super::*;
use crate::{MemDevice, Recorder};

fn device() -> (Arc<MemDevice>, Faulty) {
    let inner = Arc::new(MemDevice::new(1000));
    (inner.clone(), Faulty::new(inner))
}

fn arm(faulty: &Faulty, operation: Operation, when: When, cause: Cause) {
    faulty.arm(Fault {
        operation,
        when,
        cause,
    });
}

fn errno(result: Result<(), Error>) -> Option<i32> {
    match result {
        Ok(()) => None,
        Err(Error::Io { source, .. }) => source.raw_os_error(),
        Err(other) => panic!("not an I/O error: {other}"),
    }
}

const EIO: Option<i32> = Some(5);
const ENOSPC: Option<i32> = Some(28);
const ENODEV: Option<i32> = Some(19);

#[test]
fn the_counted_writes_fail_and_leave_nothing() {
    let (inner, faulty) = device();
    faulty.write_at(0, &[1]).unwrap();
    arm(
        &faulty,
        Operation::Write,
        When::Counted { after: 1, count: 2 },
        Cause::Io,
    );
    let results: Vec<_> = (1..=5).map(|i| errno(faulty.write_at(i, &[1]))).collect();
    assert_eq!(results, [None, EIO, EIO, None, None]);
    assert_eq!(inner.to_bytes()[..6], [1, 1, 0, 0, 1, 1]);
    assert_eq!(faulty.injected(), 2);
    faulty.flush().unwrap();
    faulty.read_at(0, &mut [0]).unwrap();
}

#[test]
fn a_bad_range_fails_every_access_that_touches_it() {
    let (_, faulty) = device();
    arm(
        &faulty,
        Operation::Write,
        When::Touching(100..200),
        Cause::NoSpace,
    );
    arm(
        &faulty,
        Operation::Read,
        When::Touching(150..151),
        Cause::Io,
    );
    assert_eq!(errno(faulty.write_at(90, &[0; 10])), None);
    assert_eq!(errno(faulty.write_at(90, &[0; 11])), ENOSPC);
    assert_eq!(errno(faulty.write_vectored_at(199, &[&[0], &[0]])), ENOSPC);
    assert_eq!(errno(faulty.write_zeroes(0, 1000)), ENOSPC);
    assert_eq!(errno(faulty.write_at(200, &[0])), None);
    assert_eq!(errno(faulty.read_at(140, &mut [0; 10])), None);
    assert_eq!(errno(faulty.read_at(140, &mut [0; 11])), EIO);
    faulty.disarm();
    assert_eq!(errno(faulty.write_at(100, &[0; 100])), None);
}

#[test]
fn flushes_and_discards_fail_on_their_own() {
    let (_, faulty) = device();
    arm(&faulty, Operation::Flush, When::Always, Cause::Io);
    assert_eq!(
        (errno(faulty.flush()), errno(faulty.discard(0, 1))),
        (EIO, None)
    );
    arm(&faulty, Operation::Discard, When::Always, Cause::Io);
    assert_eq!(errno(faulty.discard(0, 1)), EIO);
}

#[test]
fn a_vanished_backing_fails_all_until_it_comes_back() {
    let (_, faulty) = device();
    faulty.vanish();
    assert_eq!(errno(faulty.read_at(0, &mut [0])), ENODEV);
    assert_eq!(errno(faulty.write_at(0, &[0])), ENODEV);
    assert_eq!(
        (errno(faulty.flush()), errno(faulty.discard(0, 1))),
        (ENODEV, ENODEV)
    );
    faulty.disarm();
    assert_eq!(
        errno(faulty.flush()),
        ENODEV,
        "disarming is not coming back"
    );
    faulty.come_back();
    assert_eq!(errno(faulty.flush()), None);
}

#[test]
fn a_dropped_flush_claims_success_and_makes_nothing_durable() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemDevice::new(1000))));
    let faulty = Faulty::new(recorder.clone());
    faulty.write_at(0, &[1]).unwrap();
    faulty.set_flushes(Flushes::Dropped);
    faulty.flush().unwrap();
    faulty.write_durable_at(1, &[1]).unwrap();
    let log = recorder.log();
    assert_eq!(log.pending(log.len()).len(), 2);
    faulty.set_flushes(Flushes::Kept);
    faulty.flush().unwrap();
    let log = recorder.log();
    assert_eq!(log.pending(log.len()).len(), 0);
}

/// A durable write is a write, and then a flush of its own bytes.
#[test]
fn a_durable_write_fails_as_a_write_and_as_a_flush() {
    let cache = Arc::new(crate::VolatileDevice::new(&MemDevice::new(1000)));
    let faulty = Faulty::over_cache(cache.clone());
    let once = When::Counted { after: 0, count: 1 };
    faulty.write_at(0, &[1]).unwrap();
    arm(&faulty, Operation::Write, once.clone(), Cause::NoSpace);
    assert_eq!(errno(faulty.write_durable_at(1, &[2])), ENOSPC);
    arm(&faulty, Operation::Flush, once.clone(), Cause::Io);
    assert_eq!(errno(faulty.write_durable_at(1, &[2])), EIO);
    faulty.write_at(0, &[3]).unwrap();
    arm(&faulty, Operation::Flush, once, Cause::Lie);
    assert_eq!(errno(faulty.write_durable_at(1, &[4])), None);
    faulty.flush().unwrap();
    assert_eq!(cache.durable().to_bytes()[..2], [0, 0], "lost, and a lie");
    faulty.write_durable_at(1, &[5]).unwrap();
    assert_eq!(cache.durable().to_bytes()[..2], [0, 5]);
}

#[test]
fn a_lie_claims_success_for_what_is_not_done() {
    let cache = Arc::new(crate::VolatileDevice::new(&MemDevice::new(1000)));
    let faulty = Faulty::over_cache(cache.clone());
    faulty.write_at(0, &[1; 4]).unwrap();
    faulty.flush().unwrap();
    faulty.write_at(0, &[2]).unwrap();
    let once = When::Counted { after: 0, count: 1 };
    for operation in [Operation::Write, Operation::Read] {
        arm(&faulty, operation, once.clone(), Cause::Lie);
    }
    faulty.write_at(1, &[3]).unwrap();
    let mut seen = [9; 2];
    faulty.read_at(0, &mut seen).unwrap();
    assert_eq!(seen, [9, 9]);
    faulty.read_at(0, &mut seen).unwrap();
    assert_eq!(seen, [2, 1], "the second write is not there");
    arm(&faulty, Operation::Flush, once, Cause::Lie);
    faulty.flush().unwrap();
    faulty.read_at(0, &mut seen).unwrap();
    assert_eq!(seen, [1, 1], "the flush has lost the cache");
    assert_eq!(cache.durable().to_bytes()[..2], [1, 1]);
    assert_eq!(faulty.injected(), 3);
}
