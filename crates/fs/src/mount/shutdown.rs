//! Shutdown of a mounted file system (`EXT4_IOC_SHUTDOWN`): from then on nothing is read or written
//! until the unmount.
//!
//! Invariants: new operations are refused first, then the last writes are made, then the journal
//! stops. With [`Flush::Everything`], changes wait until everything is home.

use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Writes that still reach the device at a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flush {
    /// All of them (`EXT4_GOING_FLAGS_DEFAULT`): the device is clean.
    #[serde(rename = "all")]
    Everything,
    /// The log: changes of names and inodes (`EXT4_GOING_FLAGS_LOGFLUSH`). Delayed data are lost;
    /// the next mount replays the log.
    Log,
    /// None (`EXT4_GOING_FLAGS_NOLOGFLUSH`), as if power were cut.
    #[serde(rename = "none")]
    Nothing,
}

impl Filesystem {
    /// Shuts down. Operations return [`Error::Shutdown`]; a second call does nothing.
    ///
    /// # Errors
    /// The error that kept it from becoming clean, or the log from being written: it is shut down,
    /// but the next mount must recover it. [`Error::Unmounted`] after the unmount.
    pub fn shutdown(&self, flush: Flush) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        match fs.base.state.check_open() {
            Err(Error::Shutdown) => return Ok(()),
            state => state?,
        }
        let was_frozen = std::mem::take(&mut life.is_frozen);
        if flush == Flush::Everything && !was_frozen {
            fs.base.changes.close();
        }
        // A frozen file system is clean already.
        let done = match flush {
            _ if was_frozen || fs.writable().is_err() => Ok(()),
            Flush::Everything => fs.write_out_all().and_then(|()| fs.rest()),
            Flush::Log | Flush::Nothing => Err(Error::Shutdown),
        };
        fs.base.state.shut_down(done.as_ref().err());
        let logged = match flush {
            Flush::Log if done.is_err() => fs.base.journal.commit_running().map_err(Error::from),
            _ => Ok(()),
        };
        fs.base.journal.abort(uext4_journal::Error::Closed);
        if flush == Flush::Everything || was_frozen {
            fs.base.changes.open();
        }
        match done {
            Err(Error::Shutdown) => logged,
            done => done,
        }
    }
}
