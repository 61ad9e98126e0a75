//! The journal as its users see it.

use crate::background::Background;
use crate::engine::Engine;
use crate::log_space::OpenLog;
use crate::{Config, Error, Handle, Image, Stats};
use std::sync::Arc;
use uext4_format::{BlockNr, Tid};

/// A journal, or the same engine without a log.
pub struct Journal {
    engine: Arc<Engine>,
    /// Ends the threads when the journal is dropped.
    background: Background,
}

impl Journal {
    /// Opens a journal whose log is clean ([`Error::NeedsRecovery`] otherwise).
    pub fn open(config: Config) -> Result<Arc<Journal>, Error> {
        let log = config.log.as_ref().map(|log| {
            let is_external = Arc::as_ptr(&log.device).addr() != Arc::as_ptr(&config.home).addr();
            let (checksums, width) = (config.checksums, config.width);
            OpenLog::open(log, config.block_size, checksums, width, is_external)
        });
        let engine = Arc::new(Engine::new(config, log.transpose()?));
        let background = Background::start(&engine);
        Ok(Arc::new(Journal { engine, background }))
    }

    /// Starts a handle that will log about `credits` objects' blocks. May wait for a commit; the
    /// caller holds no live object and no other handle.
    pub fn start(&self, credits: u32) -> Result<Handle<'_>, Error> {
        Handle::start(&self.engine, credits)
    }

    /// The running transaction.
    pub fn running(&self) -> Tid {
        self.engine.gate.running()
    }

    /// Commits what is running now and waits until it is durable.
    pub fn commit_running(&self) -> Result<(), Error> {
        self.wait_durable(self.running())
    }

    /// Waits until `tid` is durable; asks for its commit when it is running. The caller holds no
    /// handle and no live object. Does not flush data written since: see [`Self::flush_device`].
    pub fn wait_durable(&self, tid: Tid) -> Result<(), Error> {
        self.engine.wait_durable(tid)
    }

    /// The newest committed image of a block, else what the device holds.
    pub fn read_block(&self, nr: BlockNr) -> Result<Image, Error> {
        self.engine.read_block(nr)
    }

    /// Part of what [`Self::read_block`] answers: from byte `offset` of the block on, which lies
    /// inside the block as a whole. Spares whoever needs little the copy of the rest.
    pub fn read_part(&self, nr: BlockNr, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        self.engine.read_part(nr, offset, out)
    }

    /// Stops the journal: everything later answers [`Error::Aborted`], nothing more is written.
    pub fn abort(&self, cause: Error) {
        self.engine.abort(cause);
    }

    /// [`Error::Aborted`] when the journal was stopped.
    pub fn check(&self) -> Result<(), Error> {
        self.engine.gate.check()
    }

    /// Commits, writes everything home, marks the log clean. Later calls answer
    /// [`Error::Closed`]; what a handle logs after the commit is lost. Dropping a journal without
    /// closing it is as a crash: what was not committed is lost, the log needs recovery.
    pub fn close(&self) -> Result<(), Error> {
        self.commit_running()?;
        let one_commit = self.engine.one_commit.lock();
        match &self.engine.log {
            Some(log) => self.engine.clean_log(log)?,
            None => self.engine.home.flush()?,
        }
        self.engine.gate.stop(Error::Closed);
        drop(one_commit);
        self.background.end();
        Ok(())
    }

    /// Flushes the file system's device.
    pub fn flush_device(&self) -> Result<(), Error> {
        self.engine.home.flush()
    }

    /// What happened since it was opened.
    pub fn stats(&self) -> Stats {
        self.engine
            .times
            .snapshot(self.engine.gate.handles(), self.engine.gate.limit())
    }
}
