//! The end of a session by signals: unmounts, or closes the image of a mount in use.

use crate::error::{Error, Result};
use crate::log::{Log, Severity};
use crate::mount_point::Lazy;
use crate::privileged::Privileged;
use crate::server::Server;
use crate::signals::{self, Caught};
use std::time::Duration;
use uext4_sync::{Arc, Weak};

/// Between two looks at a mount that is covered by another one.
const COVERED_PAUSE: Duration = Duration::from_millis(500);

/// Ends a session from another thread.
pub(crate) struct Stopper {
    /// It may be gone: the image's lock goes with it.
    server: Weak<Server>,
    privileged: Privileged,
    log: Arc<Log>,
}

/// What a signal to end has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    /// The kernel knows that the mount ends.
    Told,
    /// Another mount is in the way.
    Covered,
}

impl Stopper {
    /// Ends the service of `server`, for a mount that `privileged` made.
    pub(crate) fn new(server: &Arc<Server>, privileged: Privileged, log: Arc<Log>) -> Self {
        Self {
            server: Arc::downgrade(server),
            privileged,
            log,
        }
    }

    /// The first signal unmounts, as soon as no other mount is in the way; the second closes the
    /// image at once.
    pub(crate) fn unmount_on(self, mut caught: Caught) -> Result<()> {
        let name = "uext4-fuse-signals".to_owned();
        let thread = uext4_sync::thread::Builder::new()
            .name(name)
            .spawn(move || {
                if !caught.comes_within(None) {
                    return;
                }
                let mut stopping = self.unmount();
                while stopping == Stopping::Covered {
                    if caught.comes_within(Some(COVERED_PAUSE)) {
                        self.close_and_exit();
                    }
                    stopping = self.unmount_uncovered();
                }
                if caught.comes_within(None) {
                    self.close_and_exit();
                }
            });
        thread.map(drop).map_err(signals::failed())
    }

    /// Unmounts; detaches when the mount is in use, and says so. What another mount covers cannot
    /// be taken off before that: then [`Self::unmount_uncovered`] tries again.
    fn unmount(&self) -> Stopping {
        // The kernel sends what it holds before it lets go, which must not wait for a thaw.
        if let Some(server) = self.server.upgrade() {
            server.end_freezes();
        }
        let stopping = self.unmount_uncovered();
        if stopping == Stopping::Covered {
            let text = "covered by another mount: it is unmounted when that is gone; a second \
                        signal closes the image now";
            self.log.say(Severity::Warning, text);
        }
        stopping
    }

    /// As [`Self::unmount`], for a mount that was covered.
    fn unmount_uncovered(&self) -> Stopping {
        let vanishes = |how| {
            let text = format!("{how}; it vanishes with its last user");
            self.log.say(Severity::Notice, &text);
        };
        match self.privileged.detach(Lazy::No) {
            Err(Error::Covered { .. }) => return Stopping::Covered,
            Err(Error::Busy { .. }) => {
                vanishes("in use");
                let _ = self.privileged.detach(Lazy::Yes);
            }
            Err(Error::NotMounted { .. }) => vanishes("detached"),
            Err(error) => self.log.say(Severity::Error, &error.to_string()),
            Ok(()) => {}
        }
        Stopping::Told
    }

    /// Closes the image, even of a mount in use, and ends the process.
    fn close_and_exit(&self) -> ! {
        let closed = self.server.upgrade().map(|server| {
            server.end_fetches();
            server.close()
        });
        let code = match closed {
            None | Some(Ok(())) => 0,
            Some(Err(error)) => {
                self.log.say(Severity::Critical, &error.to_string());
                1
            }
        };
        std::process::exit(code)
    }
}
