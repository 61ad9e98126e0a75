//! The public handle of a mount, and the frame of one operation.

use crate::parts::quota_files;
use crate::state::engine::Fs;
use crate::state::incidents::{Incident, Listener};
use crate::types::error::{Error, Result};
use uext4_sync::{Arc, Pass};

/// A mounted file system. Cloning is cheap; the last clone that goes away unmounts.
#[derive(Clone)]
pub struct Filesystem {
    pub(crate) fs: Arc<Fs>,
    /// Unmounts with the last clone. Threads of the mount have references to `fs`, too.
    _last: Arc<UnmountOnDrop>,
}

/// Runs the unmount of a module above when it is dropped.
struct UnmountOnDrop {
    fs: Arc<Fs>,
    unmount: fn(&Fs) -> Result<()>,
}

impl Drop for UnmountOnDrop {
    fn drop(&mut self) {
        // An explicit unmount reports its error.
        let _ = (self.unmount)(&self.fs);
    }
}

impl Filesystem {
    /// The first handle of a mount, which `unmount` ends.
    pub(crate) fn new(fs: Arc<Fs>, unmount: fn(&Fs) -> Result<()>) -> Self {
        let last = UnmountOnDrop {
            fs: fs.clone(),
            unmount,
        };
        let _last = Arc::new(last);
        Self { fs, _last }
    }

    /// Runs one read-only operation: records damage in the superblock, then frees unused orphans.
    /// While the file system is frozen both are postponed.
    pub(crate) fn run<T>(&self, operation: impl FnOnce(&Fs) -> Result<T>) -> Result<T> {
        self.fs.base.state.check_open()?;
        let _spending = self.fs.base.begin_operation();
        let answer = operation(&self.fs);
        let failed = matches!(answer, Err(Error::Corrupt(_) | Error::Journal(_)));
        if !failed && !self.fs.inodes.evictions.has_own_work() {
            return answer;
        }
        match self.fs.base.changes.try_enter() {
            Some(_pass) => self.fs.finish(answer),
            None => self.fs.base.record_result_later(answer),
        }
    }

    /// Runs one modifying operation; waits while the file system is frozen.
    pub(crate) fn change<T>(&self, operation: impl FnOnce(&Fs) -> Result<T>) -> Result<T> {
        let pass = self.fs.base.changes.enter();
        self.change_inside(&pass, operation)
    }

    /// As [`Self::change`]; `None` if the file system is frozen. Waits while a freeze or remount is
    /// in progress.
    pub(crate) fn change_unless_frozen<T>(
        &self,
        operation: impl FnOnce(&Fs) -> Result<T>,
    ) -> Option<Result<T>> {
        let pass = self.fs.base.changes.enter_or_rest()?;
        Some(self.change_inside(&pass, operation))
    }

    pub(crate) fn change_inside<T>(
        &self,
        _pass: &Pass<'_>,
        operation: impl FnOnce(&Fs) -> Result<T>,
    ) -> Result<T> {
        self.fs.base.state.check_open()?;
        let _spending = self.fs.base.begin_operation();
        self.fs.finish(operation(&self.fs))
    }

    /// Registers `listener`, which replaces an earlier one. It gets the incidents since the mount
    /// began, and later ones as they happen, each damaged place and failed access once.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.fs.base.incidents.listen(listener);
    }

    /// Incidents since the mount began, oldest first.
    pub fn incidents(&self) -> Vec<Incident> {
        self.fs.base.incidents.list()
    }
}

impl Fs {
    /// Ends an operation inside the freeze barrier. Errors of the housekeeping are recorded and do
    /// not change the answer.
    fn finish<T>(&self, answer: Result<T>) -> Result<T> {
        let answer = self.base.record_result(answer);
        self.record_survey_error();
        let _recorded = self.base.record_result(self.reap_own());
        let _recorded = self
            .base
            .record_result(quota_files::add_missing_entries(self));
        let _recorded = self.base.record_result(self.shrink_directories());
        answer
    }

    /// Records an error that the prefetch of bitmaps met, and applies `errors=`.
    pub(crate) fn record_survey_error(&self) {
        if let Some(error) = self.space.take_survey_error() {
            let _recorded = self.base.record_result::<()>(Err(error));
        }
    }
}
