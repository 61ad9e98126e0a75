//! Tells the user of a transfer: progress, failures and the result.
//!
//! A failure of one file is printed at once, and the transfer continues. The final exit status is
//! the most severe: damage precedes all others.

use super::progress::Progress;
use crate::failure::{self, Cause, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::numbers::readable_size;
use crate::show;
use std::ops::ControlFlow;
use uext4_tree::{Damage, Error, Event, Summary};

/// Whether the first failure ends the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failures {
    GoOn,
    Stop,
}

/// The messages of one transfer.
pub(crate) struct Console<'a> {
    image: &'a ImageArgs,
    failures: Failures,
    progress: Progress,
    failed: u64,
    exit: Exit,
}

impl<'a> Console<'a> {
    /// `total_bytes` is called if progress is visible.
    pub(crate) fn new(
        image: &'a ImageArgs,
        failures: Failures,
        total_bytes: impl FnOnce() -> u64,
    ) -> Self {
        Self {
            image,
            failures,
            progress: Progress::new(total_bytes),
            failed: 0,
            exit: Exit::Failed,
        }
    }

    /// Takes an event; after an interrupt the transfer ends.
    pub(crate) fn take(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::File(path) => self.progress.at(path),
            Event::Bytes(bytes) => self.progress.add(bytes),
            Event::Failed(_) if self.failures == Failures::Stop => return ControlFlow::Break(()),
            Event::Failed(error) => {
                self.fail(&self.failure(error));
                return ControlFlow::Continue(());
            }
            Event::NotPrivileged(path, kind) => {
                let (at, kind) = (self.image.name_of(path), show::kind(kind));
                failure::info(format_args!("{at}: only the superuser can make a {kind}"));
            }
            Event::Socket(path) => {
                let at = self.image.name_of(path);
                failure::info(format_args!("{at}: a socket, which no archive can hold"));
            }
            Event::Changed(path) => {
                let at = self.image.name_of(path);
                failure::info(format_args!("{at}: changed while it was copied"));
            }
            _ => {}
        }
        if uext4_fuse::is_interrupted() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Prints the failure of one file.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        if failure.say() == Exit::Damaged {
            self.exit = Exit::Damaged;
        }
        self.failed += 1;
    }

    /// The failure of an error, at its path.
    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::Host { path, error } => Failure::at(error, path.display()),
            Error::Image(failed) => self.image.failure(failed),
            Error::Attribute { name, error } => {
                let advice = format!("its extended attribute {name} was not accepted");
                self.image.failure(error).hint(&advice)
            }
            Error::Incomplete { offset, error } => {
                let zeroes = format!("the archive has zeroes from byte {offset} of the file on");
                self.image.failure(error).hint(&zeroes)
            }
            Error::Damaged { path, damage } => Failure::at(damage, self.image.name_of(path)),
            other => Failure::new(Exit::Failed, other.to_string()),
        }
    }

    /// Result of the command, with a summary of what was left out.
    pub(crate) fn finish(
        self,
        done: std::result::Result<(), Error>,
        summary: Summary,
    ) -> Result<()> {
        self.progress.end();
        let (files, bytes) = (summary.files, readable_size(summary.bytes));
        if summary.left_out > 0 {
            failure::info(format_args!(
                "{} device nodes were left out",
                summary.left_out
            ));
        }
        if summary.reduced > 0 {
            let reduced = summary.reduced;
            failure::info(format_args!(
                "{reduced} owners or attributes were not kept; run as root to keep all"
            ));
        }
        match (done, self.failed) {
            _ if uext4_fuse::is_interrupted() => {
                let text = format!("interrupted: {files} files with {bytes} were copied");
                Err(Failure::new(Exit::Failed, text))
            }
            (Err(error), _) => Err(self.failure(&error)),
            (Ok(()), 0) => Ok(()),
            (Ok(()), 1) if files == 0 => Err(Failure::said(self.exit)),
            (Ok(()), failed) => {
                let text = format!("{failed} files failed, {files} with {bytes} were copied");
                Err(Failure::new(self.exit, text))
            }
        }
    }
}

impl Cause for Damage {
    fn exit(&self) -> Exit {
        Exit::Damaged
    }

    fn hint(&self) -> Option<&'static str> {
        matches!(self, Damage::SecondName(_)).then_some("`uext4 fsck` repairs it")
    }
}
