//! The ranks that the calling thread holds, and the lock order checks. Debug builds only.
//!
//! Invariants: a blocking acquisition of rank R needs every held rank to be below R. An equal rank
//! passes only with a key above every held key of that rank, or nested (see [`Order`]). An
//! acquisition that cannot block cannot deadlock by itself: it is recorded and not checked.
//! In release builds [`Held`] is empty and every function here compiles to nothing.

use crate::Rank;
use std::marker::PhantomData;

/// Relation of an acquisition to held locks of the same rank.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(debug_assertions),
    expect(dead_code, reason = "read by the debug checks only")
)]
pub(crate) enum Order {
    /// None of that rank is held.
    Rising,
    /// Those held have smaller keys.
    Key(u64),
    /// An outer exclusive lock covers both.
    Nested,
    /// It does not wait.
    Try,
}

/// The record of one held rank; dropping it forgets the rank.
pub(crate) struct Held {
    #[cfg(debug_assertions)]
    entry: stack::Entry,
}

impl Held {
    #[cfg(debug_assertions)]
    #[track_caller]
    pub(crate) fn enter(rank: Rank, order: Order) -> Self {
        let entry = stack::Entry::new(rank, order);
        if !matches!(order, Order::Try) {
            stack::check(&entry, order);
        }
        stack::push(entry);
        Self { entry }
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(crate) fn enter(_rank: Rank, _order: Order) -> Self {
        Self {}
    }

    /// Checks that the lock of a condition variable is the innermost one held: taking it again
    /// after the wait would break the order otherwise.
    #[cfg_attr(debug_assertions, track_caller)]
    #[inline(always)]
    pub(crate) fn check_innermost(&self) {
        #[cfg(debug_assertions)]
        stack::check_innermost(&self.entry);
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        stack::pop(&self.entry);
    }
}

/// A rank that is held without a lock, until dropped; see [`scope`].
#[must_use = "the rank is held only as long as the scope lives"]
pub struct Scope {
    _held: Held,
    /// Ranks belong to a thread, so the scope stays in it (as a guard of `std` does).
    _thread: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

/// Enters `rank` as if it were a lock; meant for [`Rank::Handle`], which locks nothing but may
/// wait for a commit and must not enclose locks that stand before it.
///
/// # Panics
/// In debug builds, when the calling thread holds this rank or a later one.
#[cfg_attr(debug_assertions, track_caller)]
#[inline]
pub fn scope(rank: Rank) -> Scope {
    Scope {
        _held: Held::enter(rank, Order::Rising),
        _thread: PhantomData,
    }
}

/// Asserts that a handle may be started here, which may wait for a commit; records nothing.
///
/// # Panics
/// In debug builds, when the calling thread holds [`Rank::Handle`] or a later rank.
#[cfg_attr(debug_assertions, track_caller)]
#[inline]
pub fn handle_point() {
    drop(Held::enter(Rank::Handle, Order::Rising));
}

/// Asserts that this thread may do I/O or wait for a device; every device calls it.
///
/// # Panics
/// In debug builds, when the calling thread holds a rank that [forbids I/O](Rank::forbids_io).
#[cfg_attr(debug_assertions, track_caller)]
#[inline]
pub fn io_point() {
    #[cfg(debug_assertions)]
    stack::check_io();
}

#[cfg(debug_assertions)]
mod stack {
    //! The thread's stack of held ranks.

    use super::Order;
    use crate::Rank;
    use std::cell::RefCell;
    use std::panic::Location;

    #[derive(Clone, Copy)]
    pub(super) struct Entry {
        rank: Rank,
        key: Option<u64>,
        nested: bool,
        taken_at: &'static Location<'static>,
    }

    crate::backend::thread_local! {
        static HELD: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    }

    impl Entry {
        #[track_caller]
        pub(super) fn new(rank: Rank, order: Order) -> Self {
            let key = match order {
                Order::Key(key) => Some(key),
                Order::Rising | Order::Nested | Order::Try => None,
            };
            let nested = matches!(order, Order::Nested);
            Self {
                rank,
                key,
                nested,
                taken_at: Location::caller(),
            }
        }

        fn is(&self, other: &Self) -> bool {
            (self.rank, self.key, self.nested) == (other.rank, other.key, other.nested)
        }

        /// True when `self` may be held while `next` is taken by waiting.
        fn admits(&self, next: &Self, order: Order) -> bool {
            self.rank < next.rank
                || self.rank == next.rank
                    && match order {
                        Order::Key(key) => self.key.is_some_and(|held| held < key),
                        Order::Nested => true,
                        Order::Rising | Order::Try => false,
                    }
        }
    }

    /// Runs `look` on the held ranks. Skipped at the end of a thread, and while it panics: a second
    /// panic would hide the first.
    fn inspect(look: impl FnOnce(&[Entry])) {
        if !std::thread::panicking() {
            let _ = HELD.try_with(|held| look(&held.borrow()));
        }
    }

    #[track_caller]
    pub(super) fn check(next: &Entry, order: Order) {
        inspect(|held| {
            if let Some(bad) = held.iter().find(|entry| !entry.admits(next, order)) {
                panic!(
                    "lock order: {:?} ({order:?}) is taken at {} while {:?} (key {:?}) is held \
                     since {}",
                    next.rank, next.taken_at, bad.rank, bad.key, bad.taken_at
                );
            }
        });
    }

    pub(super) fn check_innermost(entry: &Entry) {
        inspect(|held| {
            if let Some(bad) = held.iter().find(|other| other.rank > entry.rank) {
                panic!(
                    "lock order: waiting on a condition releases {:?} while {:?} is held since {}",
                    entry.rank, bad.rank, bad.taken_at
                );
            }
        });
    }

    #[track_caller]
    pub(super) fn check_io() {
        inspect(|held| {
            if let Some(bad) = held.iter().find(|entry| entry.rank.forbids_io()) {
                panic!("I/O while {:?} is held since {}", bad.rank, bad.taken_at);
            }
        });
    }

    pub(super) fn push(entry: Entry) {
        let _ = HELD.try_with(|held| held.borrow_mut().push(entry));
    }

    pub(super) fn pop(entry: &Entry) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|other| other.is(entry)) {
                held.remove(at);
            }
        });
    }
}

#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests;
