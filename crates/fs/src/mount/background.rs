//! The flusher thread of a mount: writeback of expired delayed data.

use crate::state::engine::Fs;
use crate::state::writeback::{Reach, Work};
use crate::types::options::Threads;
use crate::types::settings::Switch;
use std::time::Duration;
use uext4_sync::{Arc, Weak};

/// Wakeups per expiry time while a file is dirty.
const LOOKS: u32 = 4;
const LOOK_MIN: Duration = Duration::from_millis(10);

impl Fs {
    /// Starts the flusher thread, if the mount uses one.
    pub(crate) fn start_flusher(self: &Arc<Self>, threads: Threads) {
        let background = threads == Threads::Background;
        if background && self.base.settings.has(Switch::Delalloc) && self.base.state.is_writable() {
            self.flusher.start(Arc::downgrade(self));
        }
    }
}

/// The reference is weak: the thread ends with the file system.
impl Work for Weak<Fs> {
    fn nap(&self) -> Option<Option<Duration>> {
        let fs = self.upgrade()?;
        let waits = !fs.delayed.is_empty();
        Some(waits.then(|| (fs.delayed.expire() / LOOKS).max(LOOK_MIN)))
    }

    fn run(&self, reach: Reach) {
        if let Some(fs) = self.upgrade() {
            // Frees orphans first: their data need no writeback.
            fs.try_reap();
            fs.write_out_by_itself(reach);
        }
    }
}
