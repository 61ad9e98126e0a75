//! Shutting a mounted file system down, as `EXT4_IOC_SHUTDOWN` does: from then on nothing is read
//! or written, until it is unmounted.
//!
//! Invariants: the order is "nobody gets in any more", then what is still written, then the journal
//! stops; but with [`Flush::Everything`] changes wait until everything is home.

use crate::{Error, Filesystem, Result};
use serde::{Deserialize, Serialize};

/// What still reaches the device when a file system is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flush {
    /// Everything (`EXT4_GOING_FLAGS_DEFAULT`): the device is clean.
    #[serde(rename = "all")]
    Everything,
    /// What has happened to names and inodes (`EXT4_GOING_FLAGS_LOGFLUSH`). Data that wait for
    /// their blocks are lost; the next mount replays the log.
    Log,
    /// Nothing (`EXT4_GOING_FLAGS_NOLOGFLUSH`), as if power were cut.
    #[serde(rename = "none")]
    Nothing,
}

impl Filesystem {
    /// Shuts down. Operations answer [`Error::Shutdown`]; doing it again does nothing.
    ///
    /// # Errors
    /// What kept it from coming to rest, or the log from being written: it is shut down then, but
    /// the next mount has to recover it. [`Error::ReadOnly`] when it was unmounted.
    pub fn shutdown(&self, flush: Flush) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        if fs.state.is_closed() {
            return Err(Error::ReadOnly);
        }
        if fs.state.is_shut() {
            return Ok(());
        }
        let was_frozen = std::mem::take(&mut life.is_frozen);
        if flush == Flush::Everything && !was_frozen {
            fs.changes.close();
        }
        // A frozen one is at rest.
        let done = match flush {
            _ if was_frozen || fs.writable().is_err() => Ok(()),
            Flush::Everything => fs.write_out_all().and_then(|()| fs.rest()),
            Flush::Log | Flush::Nothing => Err(Error::Shutdown),
        };
        fs.state.shut_down(done.as_ref().err());
        let logged = match flush {
            Flush::Log if done.is_err() => fs.journal.commit_running().map_err(Error::from),
            _ => Ok(()),
        };
        fs.journal.abort(uext4_journal::Error::Closed);
        if flush == Flush::Everything || was_frozen {
            fs.changes.open();
        }
        match done {
            Err(Error::Shutdown) => logged,
            done => done,
        }
    }
}
