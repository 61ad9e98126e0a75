//! Public interface of the journal.

use crate::background::Background;
use crate::engine::Engine;
use crate::fast::MakeRecords;
use crate::live::Stamp;
use crate::log_space::OpenLog;
use crate::{
    Checksums, Config, Error, FailedWrite, FastCommits, Handle, Image, Log, Start, Stats, Width,
};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Tid};
use uext4_sync::Arc;

/// A journal, or the same engine without a log (commits write home).
pub struct Journal {
    engine: Arc<Engine>,
    /// Ends the threads when the journal is dropped.
    background: Background,
}

impl Journal {
    /// Opens a journal whose log is clean ([`Error::NeedsRecovery`] otherwise).
    pub fn open(config: Config) -> Result<Arc<Journal>, Error> {
        let log = config.log.as_ref().map(|log| {
            open_log(
                log,
                &config.home,
                config.block_size,
                config.checksums,
                config.width,
                config.fast_commits,
            )
        });
        let start = config.start;
        let engine = Arc::new(Engine::new(config, log.transpose()?));
        let background = Background::new(&engine);
        let journal = Journal { engine, background };
        match start {
            Start::Open => journal.background.start(),
            Start::Quiet => journal.engine.gate.pause(),
        }
        Ok(Arc::new(journal))
    }

    /// Starts a handle that will log about `credits` blocks. It may wait for a commit; the caller
    /// holds no live object and no other handle.
    pub fn start(&self, credits: u32) -> Result<Handle<'_>, Error> {
        Handle::start(&self.engine, credits)
    }

    /// The number of the running transaction, which open handles belong to.
    pub fn running(&self) -> Tid {
        self.engine.gate.running()
    }

    /// Commits the running transaction and waits until it is durable.
    pub fn commit_running(&self) -> Result<(), Error> {
        self.wait_durable(self.running())
    }

    /// Waits until `tid` is durable; requests its commit if it is running. The caller holds no
    /// handle and no live object. Does not flush data written since: see [`Self::flush_device`].
    pub fn wait_durable(&self, tid: Tid) -> Result<(), Error> {
        self.engine.wait_durable(tid)
    }

    /// Whether [`Self::make_durable`] may write fast commits.
    pub fn writes_fast_commits(&self) -> bool {
        self.engine.records()
    }

    /// Makes a change of a live object and all earlier changes durable: by a fast commit if the
    /// journal writes them and `records` returns records for the objects with these keys
    /// ([`crate::Render::record_key`]), else as [`Self::wait_durable`]. The caller holds no handle
    /// and no live object.
    ///
    /// The newest images of the ascending blocks that `home_first` returns are home before the
    /// first fast commit of a transaction: e2fsck 1.47 replays it over these blocks as they are
    /// before the log.
    pub fn make_durable(
        &self,
        change: Stamp,
        home_first: &dyn Fn() -> Vec<BlockNr>,
        records: MakeRecords<'_>,
    ) -> Result<(), Error> {
        self.engine.make_durable(change, home_first, records)
    }

    /// The newest committed image of a block, else its contents on the device.
    pub fn read_block(&self, nr: BlockNr) -> Result<Image, Error> {
        self.engine.read_block(nr)
    }

    /// Reads a part of [`Self::read_block`]'s result, from byte `offset` of the block on, without
    /// copying the rest. The part lies inside the block.
    pub fn read_part(&self, nr: BlockNr, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        self.engine.read_part(nr, offset, out)
    }

    /// Writes the newest committed image of a block home, for programs that read the device beside
    /// the mount. The caller holds no live object.
    pub fn write_home(&self, nr: BlockNr) -> Result<(), Error> {
        self.engine.write_home(&[nr])
    }

    /// Stops the journal: later calls return [`Error::Aborted`] and nothing more is written.
    pub fn abort(&self, cause: Error) {
        self.engine.abort(cause);
    }

    /// [`Error::Aborted`] when the journal was stopped.
    pub fn check(&self) -> Result<(), Error> {
        self.engine.gate.check()
    }

    /// Quiesces the journal: waits for the open handles, commits, writes everything home and marks
    /// the log clean. New handles wait until [`Self::resume`]; reads and waits for durability
    /// continue. The caller holds no handle and no live object.
    ///
    /// # Errors
    /// The first failure; it stops the journal, as [`Self::abort`].
    pub fn quiesce(&self) -> Result<(), Error> {
        self.engine.gate.pause();
        self.commit_and_clean()
            .inspect_err(|cause| self.engine.abort(cause.clone()))
    }

    /// Works while no commit writes, so that the log ends with a whole one. Handles go on; commits
    /// wait.
    pub fn between_commits<T>(&self, work: impl FnOnce() -> T) -> T {
        let _one = self.engine.one_commit.lock();
        work()
    }

    fn commit_and_clean(&self) -> Result<(), Error> {
        let _one = self.engine.one_commit.lock();
        self.engine.commit_locked()?;
        match self.engine.log.get() {
            Some(log) => self.engine.clean_log(log),
            None => self.engine.barrier().flush(&*self.engine.home.device),
        }
    }

    /// Attaches a log to a journal that was opened quiet and without one; a journal that has a log
    /// keeps it. `checksums`, `width` and `fast_commits` as in [`Config`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn attach(
        &self,
        log: &Log,
        checksums: Checksums,
        width: Width,
        fast_commits: FastCommits,
    ) -> Result<(), Error> {
        let engine = &self.engine;
        let _one = engine.one_commit.lock();
        if engine.log.get().is_none() {
            let home = &engine.home;
            let (device, block_size) = (&home.device, home.block_size);
            let log = open_log(log, device, block_size, checksums, width, fast_commits)?;
            engine.attach(log);
        }
        Ok(())
    }

    /// Continues the quiesced journal behind a transaction that
    /// [`commit_to_clean`](crate::recovery::commit_to_clean) wrote into its log meanwhile, if it
    /// has one.
    ///
    /// # Errors
    /// [`Error::NeedsRecovery`] if the log is not clean; those of the device.
    pub fn skip_foreign(&self) -> Result<(), Error> {
        let _one = self.engine.one_commit.lock();
        if let Some(log) = self.engine.log.get() {
            self.engine.begin_with(log.read_next()?);
        }
        Ok(())
    }

    /// Lets handles start again after [`Self::quiesce`], or for the first time ([`Start::Quiet`]).
    pub fn resume(&self) {
        self.background.start();
        self.engine.gate.release();
    }

    /// Sets the reaction to failed writes from now on.
    pub fn set_failed_write(&self, failed_write: FailedWrite) {
        self.engine.unwritten.set(failed_write);
    }

    /// Sets the commit interval: the longest wait of a change for its commit.
    pub fn set_commit_interval(&self, interval: std::time::Duration) {
        self.engine.set_commit_interval(interval);
    }

    /// Sets the longest time for which a commit waits for further callers.
    pub fn set_max_batch(&self, max: std::time::Duration) {
        self.engine.progress.lock().gathering().set_max(max);
    }

    /// Commits, writes everything home, marks the log clean. Later calls return [`Error::Closed`];
    /// changes logged after the commit are lost. Dropping a journal without closing it equals a
    /// crash: uncommitted changes are lost and the log needs recovery.
    ///
    /// Behind it nothing of the journal writes to the device, also after an error.
    ///
    /// # Errors
    /// The first failure; it stops the journal, as [`Self::stop`].
    pub fn close(&self) -> Result<(), Error> {
        let closed = self.close_log();
        match &closed {
            Ok(()) => self.engine.wake_all(),
            Err(cause) => self.engine.abort(cause.clone()),
        }
        self.background.end();
        closed
    }

    fn close_log(&self) -> Result<(), Error> {
        self.commit_running()?;
        let _one_commit = self.engine.one_commit.lock();
        // A change since that commit may be in a fast commit, which ends with the log.
        self.engine.commit_locked()?;
        match self.engine.log.get() {
            Some(log) => self.engine.clean_log(log)?,
            None => self.engine.barrier().flush(&*self.engine.home.device)?,
        }
        self.engine.gate.stop(Error::Closed);
        Ok(())
    }

    /// Stops the journal, as [`Self::abort`], and waits for the writes that its threads have begun.
    pub fn stop(&self, cause: Error) {
        self.engine.abort(cause);
        self.background.end();
    }

    /// Flushes the file system's device.
    ///
    /// # Errors
    /// Also of an earlier flush by any user of the device: data written before it may be lost. An
    /// error stops the journal, as [`Self::abort`]. A journal with [`FailedWrite::Continue`] and
    /// without a log continues and returns [`Error::Unwritten`].
    pub fn flush_device(&self) -> Result<(), Error> {
        self.engine.flush_device()
    }

    /// Whether its threads have ended.
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.background.is_over()
    }

    /// Kind of the next commit, if a caller waits for it.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn next_commit(&self) -> Option<crate::progress::CommitKind> {
        self.engine.progress.lock().next()
    }

    /// Counters since the journal was opened.
    pub fn stats(&self) -> Stats {
        let (engine, log) = (&self.engine, self.engine.log.get());
        Stats {
            handles: engine.gate.handles(),
            transaction_limit_blocks: engine.gate.limit(),
            log_len_blocks: log.map_or(0, OpenLog::len_blocks),
            log_free_blocks: log.map_or(0, OpenLog::free_blocks),
            waiting_blocks: engine.images.len(),
            ..engine.times.snapshot()
        }
    }
}

fn open_log(
    log: &Log,
    home: &Arc<dyn BlockDevice>,
    block_size: u32,
    checksums: Checksums,
    width: Width,
    fast_commits: FastCommits,
) -> Result<OpenLog, Error> {
    let is_external = Arc::as_ptr(&log.device).addr() != Arc::as_ptr(home).addr();
    OpenLog::open(log, block_size, checksums, width, fast_commits, is_external)
}
