//! Lazily allocated buffer: most of the many inodes in memory have no delayed data.

use super::Buffer;
use std::ops::{Deref, DerefMut};

static NOTHING: Buffer = Buffer::NOTHING;

/// A [`Buffer`] that is allocated by the first change, and freed by [`Self::rest`].
#[derive(Default)]
pub(crate) struct LazyBuffer(Option<Box<Buffer>>);

impl LazyBuffer {
    /// Whether the buffer equals that of a new file.
    pub(crate) fn is_unused(&self) -> bool {
        self.0.as_ref().is_none_or(|buffer| buffer.is_unused())
    }

    /// Frees the memory if the buffer is unused.
    pub(crate) fn rest(&mut self) {
        if self.is_unused() {
            self.0 = None;
        }
    }
}

impl Deref for LazyBuffer {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for LazyBuffer {
    fn deref_mut(&mut self) -> &mut Buffer {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::error::Error;

    #[test]
    fn memory_is_taken_while_something_is_in_it() {
        let mut waiting = LazyBuffer::default();
        assert!(waiting.is_unused() && waiting.is_empty() && waiting.0.is_none());
        waiting.insert(3, vec![1].into());
        assert_eq!(waiting.get(3), Some(&[1][..]));
        waiting.rest();
        assert!(!waiting.is_unused() && !waiting.is_empty());
        waiting.remove(0..9);
        waiting.error = Some(Error::NoSpace);
        waiting.rest();
        assert!(waiting.error.take().is_some());
        assert!(waiting.0.is_some());
        waiting.rest();
        assert!(waiting.0.is_none());
    }
}
