//! Progress of the work that follows when the file system is complete.

use std::ops::ControlFlow;

use crate::{Error, Result};

/// How far the end of a container is. It counts the bytes of the image once for a hash tree and
/// once for a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done so far.
    pub bytes: u64,
    /// Bytes to do in all.
    pub total_bytes: u64,
}

/// Counts the bytes that are done, and asks whether to go on.
pub(crate) struct Meter<'a> {
    progress: Progress,
    watch: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(
        total_bytes: u64,
        watch: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Meter<'a> {
        let progress = Progress {
            bytes: 0,
            total_bytes,
        };
        Meter { progress, watch }
    }

    /// Counts more bytes.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn add(&mut self, bytes: u64) -> Result<()> {
        self.progress.bytes += bytes;
        match (self.watch)(self.progress) {
            ControlFlow::Break(()) => Err(Error::Cancelled),
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}
