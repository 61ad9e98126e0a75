//! Fast commits: make a transaction durable by records of its changes, and keep it running.
//!
//! Layout: the area behind the log, one fast commit after the other (`uext4_format::fast_commit`).
//! They belong to the running transaction; the full commit of the transaction makes them stale, and
//! the next one starts at the front of the area.
//!
//! Protocol: close the gate, drain, take the keys of the changed objects, let the caller make their
//! records, begin the next round, open the gate; then flush, write the records, flush. So handles
//! do not wait for the device. `one_commit` is held throughout, so a fast commit of a transaction
//! starts only when the commit before it is durable. Callers that come meanwhile share the next
//! one (`group_commit`).
//!
//! After the full commit the front of the area is overwritten. e2fsck 1.47 discards the whole log
//! if it finds the HEAD of another transaction there; Linux and uext4 ignore that.
//!
//! Not here: the choice of records (`fs`).

use crate::engine::Engine;
use crate::fast_area::FastArea;
use crate::gate::Round;
use crate::group_commit::Flushed;
use crate::live::Stamp;
use crate::log_space::OpenLog;
use crate::reasons::Reasons;
use crate::stats::Times;
use crate::{Error, FullReason};
use uext4_format::fast_commit::{Record, Turn, begins_area, blocks_max, encode};
use uext4_format::{BlockNr, Tid};
use uext4_num::{clamp_u32, u64_of, usize_of};
use uext4_sync::atomic::Ordering::Relaxed;

/// Makes the records of the objects with these keys, which changed in the transaction since its
/// last fast commit. No handle is open meanwhile.
pub type MakeRecords<'a> = &'a mut dyn FnMut(Tid, Vec<u64>) -> Result<Vec<Record>, FullReason>;

/// What a caller brings for a fast commit.
pub(crate) struct Fast<'a> {
    log: &'a OpenLog,
    /// Ascending blocks that are written home before the first fast commit of a transaction.
    home_first: &'a dyn Fn() -> Vec<BlockNr>,
    records: MakeRecords<'a>,
}

impl Engine {
    /// Whether changes are noted for fast commits.
    pub(crate) fn records(&self) -> bool {
        self.records.load(Relaxed)
    }

    /// Makes a change durable: see [`crate::Journal::make_durable`].
    pub(crate) fn make_durable(
        &self,
        change: Stamp,
        home_first: &dyn Fn() -> Vec<BlockNr>,
        records: MakeRecords<'_>,
    ) -> Result<(), Error> {
        let Some(log) = self.log.get().filter(|_| self.records()) else {
            return self.wait_durable(change.tid);
        };
        let fast = Fast {
            log,
            home_first,
            records,
        };
        let flushed = self.wait_commit(change, Some(fast))?;
        let is_committed = { self.progress.lock().is_committed(change) };
        match flushed {
            // A full commit renders the object of the change, which was dirty at the call, before
            // it flushes.
            _ if is_committed => Ok(()),
            Flushed::Since => Ok(()),
            // The data of this caller may be newer than the last flush.
            Flushed::Before => self.flush_device(),
        }
    }

    /// Returns false if the transaction needs a full commit.
    pub(crate) fn fast_commit(
        &self,
        area: &mut FastArea,
        fast: &mut Fast<'_>,
    ) -> Result<bool, Error> {
        let (tid, log) = (self.gate.running(), fast.log);
        let reasons = if log.is_in_use() {
            self.gate.reasons()
        } else {
            Reasons::one(FullReason::FirstCommit)
        };
        if !reasons.is_empty() {
            self.times.count_full(reasons);
            return Ok(false);
        }
        if area.tid != Some(tid) {
            self.write_home(&(fast.home_first)())?;
            *area = FastArea {
                tid: Some(tid),
                used_blocks: 0,
            };
        }
        let free_blocks = log.fast_len_blocks() - area.used_blocks;
        match self.take_round(tid, free_blocks, &mut *fast.records) {
            Err(reasons) => {
                self.times.count_full(reasons);
                Ok(false)
            }
            Ok(records) => {
                self.write_fast(log, area, tid, &records)?;
                let mut progress = self.progress.lock();
                progress.fast = progress.committing;
                self.end_commit(progress);
                Ok(true)
            }
        }
    }

    /// Ends a round of the transaction `tid`, and returns its records.
    fn take_round(
        &self,
        tid: Tid,
        free_blocks: u32,
        make: MakeRecords<'_>,
    ) -> Result<Vec<Record>, Reasons> {
        Times::time(&self.times.drain_ns, || self.gate.close());
        let made = match self.gate.reasons() {
            none if none.is_empty() => {
                let keys = self
                    .logged
                    .iter()
                    .flat_map(|shard| shard.lock().take_records())
                    .collect();
                make(tid, keys).map_err(Reasons::one)
            }
            reasons => Err(reasons),
        };
        let made = made.and_then(|records| {
            if self.fits_area(&records, free_blocks) {
                Ok(records)
            } else {
                Err(Reasons::one(FullReason::AreaFull))
            }
        });
        match &made {
            Ok(_) => {
                let round = self.gate.now().round;
                {
                    let mut progress = self.progress.lock();
                    progress.close(self.now());
                    progress.committing = Some(Stamp { tid, round });
                }
                self.gate.open_round(Round::Next);
            }
            Err(reasons) => {
                // What was taken is noted nowhere now: only a full commit has it.
                self.gate.require_full(*reasons);
                self.gate.open_round(Round::Same);
            }
        }
        made
    }

    fn fits_area(&self, records: &[Record], free_blocks: u32) -> bool {
        let lens = records.iter().map(Record::encoded_bytes);
        let (bytes, longest) = (lens.clone().sum(), lens.max().unwrap_or(0));
        let block_size = usize_of(self.home.block_size);
        blocks_max(block_size, bytes, longest) <= usize_of(free_blocks)
    }

    fn write_fast(
        &self,
        log: &OpenLog,
        area: &mut FastArea,
        tid: Tid,
        records: &[Record],
    ) -> Result<(), Error> {
        let turn = match area.used_blocks {
            0 => Turn::First,
            _ => Turn::Later,
        };
        let block_size = usize_of(self.home.block_size);
        let bytes = encode(block_size, tid, turn, records);
        let blocks: Vec<&[u8]> = bytes.chunks_exact(block_size).collect();
        Times::time(&self.times.fast_ns, || {
            self.has_fast.store(true, Relaxed);
            self.write_durable(log, log.fast_start() + area.used_blocks, &blocks)
        })?;
        area.used_blocks += clamp_u32(blocks.len());
        self.times.count_fast(u64_of(blocks.len()), records);
        Ok(())
    }

    /// Overwrites fast commits of an earlier use of the log, before it is used again. The caller
    /// holds `one_commit`.
    pub(crate) fn clear_old_fast(&self, log: &OpenLog) -> Result<(), Error> {
        if !self.records() || log.is_in_use() {
            return Ok(());
        }
        let mut block = vec![0; usize_of(self.home.block_size)];
        log.file.read(log.fast_start(), &mut block)?;
        if begins_area(&block) {
            self.clear_front(log)
        } else {
            Ok(())
        }
    }

    /// Overwrites the fast commits of a transaction that is in the log now. The caller holds
    /// `one_commit`.
    pub(crate) fn clear_fast(&self) -> Result<(), Error> {
        match self
            .log
            .get()
            .filter(|_| self.has_fast.swap(false, Relaxed))
        {
            Some(log) => self.clear_front(log),
            None => Ok(()),
        }
    }

    fn clear_front(&self, log: &OpenLog) -> Result<(), Error> {
        let zeroes = vec![0; usize_of(self.home.block_size)];
        log.file.write(log.fast_start(), &[&zeroes])?;
        log.file.flush()
    }

    /// Writes blocks of the log that must be durable after all earlier writes, and durable at the
    /// return.
    fn write_durable(&self, log: &OpenLog, start: u32, blocks: &[&[u8]]) -> Result<(), Error> {
        if log.is_external {
            self.home.flush()?;
        }
        log.file.flush()?;
        self.gate.check()?;
        match blocks {
            [block] => log.file.write_durable(start, block),
            _ => {
                log.file.write(start, blocks)?;
                log.file.flush()
            }
        }
    }
}
