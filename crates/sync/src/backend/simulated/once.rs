//! A cell that is written once.

use super::current::{Me, touch};
use super::line::Access::{Load, Update};
use std::panic::Location;
use std::time::Duration;

/// As that of `std`. Threads that need the value while another makes it wait in virtual time: they
/// look again after [`AGAIN`].
#[derive(Debug)]
#[repr(transparent)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

const AGAIN: Duration = Duration::from_nanos(200);

impl<T> OnceLock<T> {
    /// A cell without a value.
    pub const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }
    /// The value, if one was stored; counts as a load.
    #[track_caller]
    pub fn get(&self) -> Option<&T> {
        touch(self, Load, Location::caller());
        self.0.get()
    }
    /// The value, mutable; no access is counted.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }
    /// Stores `value`, or returns it if the cell is full.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        touch(self, Update, Location::caller());
        self.0.set(value)
    }
    /// Takes the stored value out.
    pub fn take(&mut self) -> Option<T> {
        self.0.take()
    }
    /// The stored value; stores the result of `make` first if the cell is empty.
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let Some(me) = Me::observed() else {
            return self.0.get_or_init(make);
        };
        let address = super::current::address(self);
        while !me.world.state().making.insert(address) {
            super::threads::sleep(AGAIN);
        }
        let value = match self.0.get() {
            Some(value) => value,
            None => {
                let made = make();
                touch(self, Update, Location::caller());
                self.0.get_or_init(|| made)
            }
        };
        me.world.state().making.remove(&address);
        value
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        Self(value.into())
    }
}
