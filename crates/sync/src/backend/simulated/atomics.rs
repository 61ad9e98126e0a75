//! Atomics that report their accesses.

use super::current::touch;
use super::line::Access::{Load, Store, Update};
use std::fmt;
use std::panic::Location;
use std::sync::atomic as raw;

pub use std::sync::atomic::{Ordering, compiler_fence, fence};

/// The operations that integers and booleans have.
macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// See `std`.
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(raw::$name);

        impl $name {
            /// See `std`.
            pub const fn new(value: $value) -> Self {
                Self(raw::$name::new(value))
            }
            /// See `std`.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
            /// See `std`.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
            /// See `std`.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                touch(self, Load, Location::caller());
                self.0.load(order)
            }
            /// See `std`.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                touch(self, Store, Location::caller());
                self.0.store(value, order);
            }
            /// See `std`.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                touch(self, Update, Location::caller());
                self.0.swap(value, order)
            }
            /// See `std`.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                touch(self, Update, Location::caller());
                self.0.compare_exchange(old, new, success, failure)
            }
            /// See `std`.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                // Never fails spuriously, so that runs repeat.
                self.compare_exchange(old, new, success, failure)
            }
            /// See `std`.
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut next: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut old = self.load(failure);
                while let Some(new) = next(old) {
                    match self.compare_exchange(old, new, success, failure) {
                        Err(other) => old = other,
                        done => return done,
                    }
                }
                Err(old)
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! updates {
    ($name:ident, $value:ty, $($operation:ident),+) => {
        impl $name {
            $(
                /// See `std`.
                #[track_caller]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    touch(self, Update, Location::caller());
                    self.0.$operation(value, order)
                }
            )+
        }
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);
        updates!(
            $name, $value, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max,
            fetch_min
        );
    };
}

atomic!(AtomicBool, bool);
updates!(AtomicBool, bool, fetch_and, fetch_or, fetch_xor);
integer!(AtomicU8, u8);
integer!(AtomicU16, u16);
integer!(AtomicU32, u32);
integer!(AtomicU64, u64);
integer!(AtomicUsize, usize);
integer!(AtomicI32, i32);
integer!(AtomicI64, i64);
