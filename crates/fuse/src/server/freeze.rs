//! Operations that run while requests that change something are parked ([`crate::freeze_gate`]).

use super::Server;
use crate::freeze_gate::Unmounting;
use uext4::resize::{NewSize, Plan};

impl Server {
    /// As [`uext4::Filesystem::freeze`]; requests that change something wait outside.
    pub(crate) fn freeze(&self) -> uext4::Result<()> {
        self.with_changes_stopped(|server| server.filesystem().freeze())
    }

    /// As [`uext4::Filesystem::thaw`].
    pub(crate) fn thaw(&self) -> uext4::Result<()> {
        self.with_changes_stopped(|server| server.filesystem().thaw())
    }

    /// As [`uext4::Filesystem::shutdown`]; what waits outside is answered then.
    pub(crate) fn shutdown(&self, flush: uext4::Flush) -> uext4::Result<()> {
        self.with_changes_stopped(|server| server.filesystem().shutdown(flush))
    }

    /// As [`uext4::Filesystem::grow`]; requests that change something wait outside.
    pub(crate) fn grow(&self, wanted: NewSize) -> uext4::Result<Plan> {
        self.with_changes_stopped(|server| server.filesystem().grow(wanted))
    }

    /// As [`uext4::Filesystem::remount`].
    pub(crate) fn remount(&self, list: &str) -> uext4::Result<()> {
        self.with_changes_stopped(|server| server.filesystem().remount(list))
    }

    /// Works while changes are parked; they go on unless the file system is frozen then.
    ///
    /// # Errors
    /// Those of `work`; [`uext4::Error::Busy`] once the mount ends.
    fn with_changes_stopped<T>(
        &self,
        work: impl FnOnce(&Self) -> uext4::Result<T>,
    ) -> uext4::Result<T> {
        let turn = self.freeze_gate().take_turn(Unmounting::No)?;
        turn.close();
        let done = work(self);
        if !self.filesystem().is_frozen() {
            turn.resume();
        }
        done
    }

    /// Thaws for good, since the mount ends: all parked requests go on, and later calls of
    /// [`Self::freeze`] and its like are refused.
    pub(crate) fn end_freezes(&self) {
        let Ok(turn) = self.freeze_gate().take_turn(Unmounting::Yes) else {
            return;
        };
        // Most are not frozen. A failure of the device is reported when the image is closed.
        let _ = self.filesystem().thaw();
        turn.resume();
    }
}
