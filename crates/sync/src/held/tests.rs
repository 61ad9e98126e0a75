//! Each violation panics in debug builds; each legal order does not.

use crate::{Condvar, Mutex, Rank, RwLock, RwLockWriteGuard, handle_point, io_point, scope};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message that `work` panics with; none when it does not panic.
fn violation(work: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(
        *panic
            .downcast::<String>()
            .expect("the checks panic with a formatted message"),
    )
}

#[test]
fn rising_ranks_pass_and_a_release_is_forgotten() {
    let (outer, inner) = (
        RwLock::new(Rank::InodeIo, ()),
        Mutex::new(Rank::InodeState, ()),
    );
    let a = outer.read();
    let b = inner.lock();
    drop(a);
    drop(b);
    let b = inner.lock();
    drop(b);
    let _a = outer.write();
}

#[test]
fn falling_ranks_panic_and_name_both_places() {
    let (outer, inner) = (
        RwLock::new(Rank::InodeIo, ()),
        Mutex::new(Rank::InodeState, ()),
    );
    let message = violation(|| {
        let _b = inner.lock();
        let _a = outer.read();
    })
    .expect("InodeIo after InodeState must panic");
    assert!(
        message.contains("InodeIo") && message.contains("InodeState"),
        "{message}"
    );
    assert_eq!(message.matches("held/tests.rs").count(), 2, "{message}");
    assert!(
        violation(|| drop(outer.write())).is_none(),
        "the panic must not leave a rank behind"
    );
}

#[test]
fn release_out_of_order_keeps_the_rest() {
    let (a, b, c) = (
        Mutex::new(Rank::Mount, ()),
        Mutex::new(Rank::Rename, ()),
        Mutex::new(Rank::Mount, ()),
    );
    let held = a.lock();
    let _kept = b.lock();
    drop(held);
    assert!(violation(|| drop(c.lock())).is_some());
}

#[test]
fn one_rank_twice_needs_ascending_keys() {
    let (a, b) = (
        RwLock::new(Rank::MetaBlock, ()),
        RwLock::new(Rank::MetaBlock, ()),
    );
    assert!(violation(|| drop((a.write(), b.write()))).is_some());
    assert!(violation(|| drop((a.read(), a.read()))).is_some());
    assert!(violation(|| drop((a.write_ordered(1), b.write_ordered(2)))).is_none());
    assert!(violation(|| drop((a.write_ordered(1), b.read_ordered(2)))).is_none());
    assert!(violation(|| drop((a.write_ordered(2), b.write_ordered(1)))).is_some());
    assert!(violation(|| drop((a.write_ordered(2), b.write_ordered(2)))).is_some());
    assert!(violation(|| drop((a.write(), b.write_ordered(2)))).is_some());
    assert!(violation(|| drop((a.write(), b.write_nested()))).is_none());
    assert!(violation(|| drop((a.write_nested(), b.read_nested()))).is_none());
}

#[test]
fn tries_are_not_checked_but_recorded() {
    let (a, b) = (
        RwLock::new(Rank::MetaBlock, ()),
        RwLock::new(Rank::InodeState, ()),
    );
    assert!(violation(|| drop((a.write(), b.try_write()))).is_none());
    assert!(violation(|| drop((a.try_write(), b.write()))).is_some());
    assert!(violation(|| drop((a.try_read(), b.read()))).is_some());
}

#[test]
fn a_downgraded_guard_is_still_held() {
    let (a, b) = (
        RwLock::new(Rank::MetaBlock, 1),
        RwLock::new(Rank::InodeState, ()),
    );
    let read = RwLockWriteGuard::downgrade(a.write());
    assert_eq!((*read, a.try_read().map(|g| *g)), (1, Some(1)));
    assert!(a.try_write().is_none());
    assert!(violation(|| drop(b.read())).is_some());
    drop(read);
    drop(b.read());
}

#[test]
fn a_handle_comes_before_live_objects_and_after_file_locks() {
    let (io, state) = (
        RwLock::new(Rank::InodeIo, ()),
        RwLock::new(Rank::InodeState, ()),
    );
    let _io = io.write();
    handle_point();
    let handle = scope(Rank::Handle);
    drop(state.write());
    assert!(
        violation(handle_point).is_some(),
        "a handle inside a handle"
    );
    assert!(violation(|| drop(io.try_read())).is_none());
    drop(handle);
    let _state = state.read();
    assert!(
        violation(handle_point).is_some(),
        "a handle inside a live object's lock"
    );
}

#[test]
fn io_is_refused_under_short_locks_only() {
    for rank in Rank::ALL {
        let lock = Mutex::new(rank, ());
        let refused = violation(|| {
            let _guard = lock.lock();
            io_point();
        });
        assert_eq!(refused.is_some(), rank.forbids_io(), "{rank:?}");
    }
}

#[test]
fn waiting_on_a_condition_needs_the_innermost_lock() {
    let (outer, inner) = (
        Mutex::new(Rank::JournalState, ()),
        Mutex::new(Rank::Queue, ()),
    );
    let condition = Condvar::new();
    let message = violation(|| {
        let mut guard = outer.lock();
        let _inner = inner.lock();
        condition.wait(&mut guard);
    });
    assert!(message.is_some_and(|m| m.contains("condition")));
}

#[test]
fn ranks_belong_to_one_thread() {
    let (outer, inner) = (Mutex::new(Rank::Mount, ()), Mutex::new(Rank::Device, ()));
    let _inner = inner.lock();
    std::thread::scope(|s| {
        s.spawn(|| drop(outer.lock()))
            .join()
            .expect("another thread holds nothing");
    });
}
