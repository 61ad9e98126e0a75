//! Progress of a build, and the callback that may end it.

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of contents taken so far, without holes.
    pub bytes: u64,
    /// Files whose contents are complete.
    pub files: u64,
    /// All files with contents; known after the last entry.
    pub total_files: Option<u64>,
}

/// A callback that learns of progress and may end the build.
pub(crate) type Watch = Box<dyn FnMut(Progress) -> ControlFlow<()> + Send>;

/// Counts progress, and passes it to the callback.
pub(crate) struct Reporter {
    pub(crate) progress: Progress,
    pub(crate) watch: Option<Watch>,
}

impl Reporter {
    /// Nothing is done yet, and there is no callback.
    pub(crate) fn new() -> Reporter {
        Reporter {
            progress: Progress {
                bytes: 0,
                files: 0,
                total_files: None,
            },
            watch: None,
        }
    }

    /// Calls the callback.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if it returns `Break`.
    pub(crate) fn report(&mut self) -> Result<()> {
        let progress = self.progress;
        match self.watch.as_mut().map(|watch| watch(progress)) {
            Some(ControlFlow::Break(())) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}
