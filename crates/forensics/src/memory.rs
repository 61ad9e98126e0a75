//! Counted memory: what an image makes a reader keep.

use crate::{Error, Result};
use std::cell::Cell;

/// Memory that may be taken, and what was taken of it.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: u64,
    taken_bytes: Cell<u64>,
}

impl Memory {
    /// At most this many bytes.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            taken_bytes: Cell::new(0),
        }
    }

    /// The limit.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What was taken and not given back.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.get()
    }

    /// Counts memory that is about to be allocated.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is more than is left.
    pub fn take(&self, bytes: u64) -> Result<()> {
        let taken = self.taken_bytes.get().saturating_add(bytes);
        if taken > self.limit_bytes {
            return Err(Error::Memory {
                limit_bytes: self.limit_bytes,
            });
        }
        self.taken_bytes.set(taken);
        Ok(())
    }

    /// Counts memory that was freed.
    pub fn give_back(&self, bytes: u64) {
        self.taken_bytes
            .set(self.taken_bytes.get().saturating_sub(bytes));
    }
}
