//! Counts of a transfer, and its callback.

use crate::{Error, Result};
use std::ops::ControlFlow;
use uext4::FileType;

/// What a transfer tells its callback. Paths are those in the image.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// The copy of this file begins.
    File(&'e [u8]),
    /// So many bytes more are copied.
    Bytes(u64),
    /// A file was not copied, or not completely.
    Failed(&'e Error),
    /// A device node was not made for lack of privilege.
    NotPrivileged(&'e [u8], FileType),
    /// A socket is not in an archive.
    Socket(&'e [u8]),
    /// A file of the host changed while it was copied.
    Changed(&'e [u8]),
}

/// What a transfer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files copied, directories included.
    pub files: u64,
    /// Bytes of data copied.
    pub bytes: u64,
    /// The number of files that failed and were left out.
    pub failed: u64,
    /// Device nodes that were left out as [`crate::Devices::Leave`] says.
    pub left_out: u64,
    /// Sockets, which are not in an archive.
    pub sockets: u64,
    /// Owners and attributes that the host did not take.
    pub reduced: u64,
}

/// A callback of a transfer, which may end it.
pub(crate) type Callback<'a> = Box<dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a>;

/// Counts of a transfer, its callback, and whether that cancelled it.
#[derive(Default)]
pub(crate) struct Monitor<'a> {
    pub(crate) callback: Option<Callback<'a>>,
    pub(crate) summary: Summary,
    pub(crate) is_cancelled: bool,
}

impl Monitor<'_> {
    /// Calls the callback; its `Break` cancels the transfer.
    pub(crate) fn report(&mut self, event: Event<'_>) {
        if let Some(callback) = &mut self.callback {
            self.is_cancelled |= callback(event).is_break();
        }
    }

    /// Tells that a file begins.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn begin(&mut self, path: &[u8]) -> Result<()> {
        self.report(Event::File(path));
        self.check()
    }

    /// [`Error::Cancelled`] if it is.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.summary.bytes += bytes;
        self.report(Event::Bytes(bytes));
    }

    /// Tells that a file changed while it was copied.
    pub(crate) fn changed(&mut self, path: &[u8]) {
        self.report(Event::Changed(path));
    }

    /// Counts a file that was copied or failed.
    ///
    /// # Errors
    /// The error that ends the transfer.
    pub(crate) fn finish(&mut self, done: Result<()>) -> Result<()> {
        let Err(error) = done else {
            self.summary.files += 1;
            return Ok(());
        };
        if error.is_final() {
            return Err(error);
        }
        self.summary.failed += 1;
        let go_on = match &mut self.callback {
            Some(callback) => callback(Event::Failed(&error)),
            None => ControlFlow::Break(()),
        };
        match go_on {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(error),
        }
    }
}
