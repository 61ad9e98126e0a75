//! Outcome of a transfer: counts, failures, and whether to continue.
//!
//! A failure of one file is printed at once, and the transfer continues. The final exit status is
//! the most severe: damage precedes all others.

use crate::failure::{Exit, Failure, Result};
use crate::numbers::readable_size;
use rustix::io::Errno;

/// A failure and its scope.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Ends this file only.
    File(Failure),
    /// Ends the transfer.
    All(Failure),
}

/// Result of a step of a transfer.
pub(crate) type Step<T> = std::result::Result<T, Ended>;

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Ended::File(failure)
    }
}

/// Converts an error into [`Ended`] at a place.
pub(crate) trait Place<T> {
    /// `place` is evaluated only for an error.
    fn of(self, place: impl FnOnce() -> String) -> Step<T>;
}

impl<T> Place<T> for std::result::Result<T, Errno> {
    fn of(self, place: impl FnOnce() -> String) -> Step<T> {
        self.map_err(|error| {
            let failure = Failure::at(&error, place());
            match error {
                Errno::NOSPC | Errno::DQUOT | Errno::ROFS => Ended::All(failure),
                _ => Ended::File(failure),
            }
        })
    }
}

impl<T> Place<T> for std::io::Result<T> {
    fn of(self, place: impl FnOnce() -> String) -> Step<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => match Errno::from_io_error(&error) {
                Some(errno) => Err(errno).of(place),
                None => Err(Ended::File(Failure::at(&error, place()))),
            },
        }
    }
}

impl<T> Place<T> for uext4::Result<T> {
    fn of(self, place: impl FnOnce() -> String) -> Step<T> {
        use uext4::Error;
        self.map_err(|error| {
            let failure = Failure::at(&error, place());
            match error {
                Error::NoSpace | Error::NoInodes | Error::ReadOnly | Error::Journal(_) => {
                    Ended::All(failure)
                }
                _ => Ended::File(failure),
            }
        })
    }
}

impl<T> Place<T> for uext4::path::Result<T> {
    fn of(self, place: impl FnOnce() -> String) -> Step<T> {
        self.map_err(uext4::Error::from).of(place)
    }
}

/// Whether the first failure ends the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failures {
    GoOn,
    Stop,
}

/// Counts of a transfer.
#[derive(Debug)]
pub(crate) struct Outcome {
    failures: Failures,
    files: u64,
    bytes: u64,
    failed: u64,
    exit: Exit,
}

impl Outcome {
    pub(crate) fn new(failures: Failures) -> Self {
        Self {
            failures,
            files: 0,
            bytes: 0,
            failed: 0,
            exit: Exit::Failed,
        }
    }

    /// Counts copied bytes.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts a copied file, or prints the failure.
    ///
    /// The failure that ends the transfer.
    pub(crate) fn note(&mut self, done: Step<()>) -> Result<()> {
        match done {
            Ok(()) => {
                self.files += 1;
                Ok(())
            }
            Err(Ended::All(failure)) => Err(failure),
            Err(Ended::File(failure)) if self.failures == Failures::Stop => Err(failure),
            Err(Ended::File(failure)) => {
                if failure.say() == Exit::Damaged {
                    self.exit = Exit::Damaged;
                }
                self.failed += 1;
                Ok(())
            }
        }
    }

    /// True after an interrupt: the transfer ends before the next file.
    pub(crate) fn is_interrupted(&self) -> bool {
        uext4_fuse::is_interrupted()
    }

    /// Result of the command.
    pub(crate) fn finish(&self) -> Result<()> {
        let (files, bytes) = (self.files, readable_size(self.bytes));
        if self.is_interrupted() {
            let text = format!("interrupted: {files} files with {bytes} were copied");
            return Err(Failure::new(Exit::Failed, text));
        }
        match self.failed {
            0 => Ok(()),
            1 if files == 0 => Err(Failure::said(self.exit)),
            failed => {
                let text = format!("{failed} files failed, {files} with {bytes} were copied");
                Err(Failure::new(self.exit, text))
            }
        }
    }
}
