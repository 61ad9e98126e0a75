//! A journal with many queued blocks: cost of committing some of them again, of checkpointing all
//! of them, and of small commits while the queue grows. The device discards writes and blocks
//! share their bytes, so a million of them fit into memory.

use super::discarding::Discarding;
use crate::collection::Sample;
use crate::experiments::Unit;
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::time::Instant;
use uext4_format::BlockNr;
use uext4_format::jbd2::Superblock;
use uext4_journal::{Config, Image, Journal, Live, Log, Object, Render, Sink, Stats, Tracking};
use uext4_sync::Rank;

const BLOCK_BYTES: u32 = 1024;
/// Blocks of a transaction.
const TRANSACTION: u32 = 1000;
/// Blocks of a small transaction.
pub(crate) const SMALL_TRANSACTION: u32 = 32;
/// Transactions that commit queued blocks again.
const AGAIN: u32 = 100;
/// First home block, after the log.
const HOME: u64 = 1 << 32;

struct State {
    nr: BlockNr,
    image: Image,
}

impl Render for State {
    const RANK: Rank = Rank::MetaBlock;
    fn render(&mut self, out: &mut Sink<'_>) {
        out.image(self.nr, self.image.clone());
    }
}

struct Block(Live<State>);

impl Object for Block {
    type State = State;
    fn live(&self) -> &Live<State> {
        &self.0
    }
}

/// A journal whose checkpoint queue is filled with blocks.
pub(crate) struct Queue {
    journal: Arc<Journal>,
    transaction: u32,
}

/// Samples for a queue of `blocks` blocks.
pub(super) fn run(blocks: u32, tracking: Tracking) -> Result<Vec<Sample>> {
    let queue = Queue::new(blocks, TRANSACTION.min(blocks), tracking)?;
    queue.fill(blocks)?;
    let queued = queue.journal.stats();
    ensure!(
        queued.waiting_blocks == u64::from(blocks),
        "not all blocks are queued"
    );
    for round in 0..AGAIN {
        // A stride that visits all parts of the queue.
        queue
            .commit((0..TRANSACTION.min(blocks)).map(|at| {
                (u64::from(round * TRANSACTION + at) * 7919 % u64::from(blocks)) as u32
            }))?;
    }
    let again = queue.journal.stats();
    ensure!(again.checkpointed_blocks == 0, "blocks went home too early");
    queue.journal.close()?;
    let home = queue.journal.stats();
    ensure!(
        home.checkpointed_blocks == u64::from(blocks),
        "not all blocks went home"
    );
    let committed = Spent::between(&queued, &again, again.image_blocks - queued.image_blocks);
    let written = Spent::between(&again, &home, blocks.into());
    let of = |metric, value| Sample::new(metric, Unit::Nanoseconds, value);
    Ok(vec![
        of("bookkeeping per block committed", committed.bookkeeping_ns),
        of("freeing per block committed", committed.freeing_ns),
        of("bookkeeping per block brought home", written.bookkeeping_ns),
        of("freeing per block brought home", written.freeing_ns),
    ])
}

/// Commits of [`SMALL_TRANSACTION`] blocks until `blocks` are queued.
pub(super) fn run_small(blocks: u32, tracking: Tracking) -> Result<Vec<Sample>> {
    let queue = Queue::new(blocks, SMALL_TRANSACTION, tracking)?;
    let (mut commits, mut worst_us) = (0, 0.0f64);
    let start = Instant::now();
    for first in (0..blocks).step_by(SMALL_TRANSACTION as usize) {
        let began = Instant::now();
        queue.commit(first..blocks.min(first + SMALL_TRANSACTION))?;
        worst_us = worst_us.max(began.elapsed().as_secs_f64() * 1e6);
        commits += 1;
    }
    let mean_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(commits);
    let of = |metric, value| Sample::new(metric, Unit::Microseconds, value);
    Ok(vec![
        of("mean small commit", mean_us),
        of("worst small commit", worst_us),
    ])
}

/// Times per block. Freeing of images is counted separately: queued images are cold in the cache.
struct Spent {
    bookkeeping_ns: f64,
    freeing_ns: f64,
}

impl Spent {
    fn between(before: &Stats, after: &Stats, blocks: u64) -> Self {
        let per_block = |time: std::time::Duration| time.as_nanos() as f64 / blocks as f64;
        Self {
            bookkeeping_ns: per_block(after.bookkeeping - before.bookkeeping),
            freeing_ns: per_block(after.freeing - before.freeing),
        }
    }
}

impl Queue {
    /// An empty queue, for this many blocks and transactions of at most `transaction` blocks.
    pub(crate) fn new(blocks: u32, transaction: u32, tracking: Tracking) -> Result<Self> {
        // The log is never more than half full, so no checkpoint starts by itself.
        let log_blocks = 3 * blocks + 4 * AGAIN * TRANSACTION + 4 * (blocks / transaction);
        let superblock = Superblock::new(BLOCK_BYTES, log_blocks, 1, *b"uext4-lab queue.");
        let device = Arc::new(Discarding::new(1 << 50, &superblock.encode()));
        let mut config = Config::new(device.clone(), BLOCK_BYTES);
        config.log = Some(Log::contiguous(device, 0, log_blocks));
        config.tracking = tracking;
        let journal = Journal::open(config)?;
        Ok(Self {
            journal,
            transaction,
        })
    }

    fn fill(&self, blocks: u32) -> Result<()> {
        let firsts = (0..blocks).step_by(self.transaction as usize);
        { firsts }.try_for_each(|first| self.commit(first..blocks.min(first + self.transaction)))
    }

    /// Runs one transaction that changes these blocks.
    pub(crate) fn commit(&self, blocks: impl Iterator<Item = u32>) -> Result<()> {
        let image: Image = Arc::from(vec![0x5a; BLOCK_BYTES as usize]);
        let handle = self.journal.start(self.transaction)?;
        for nr in blocks {
            let state = State {
                nr: BlockNr(HOME + u64::from(nr)),
                image: image.clone(),
            };
            drop(handle.write(&Arc::new(Block(Live::new(state)))));
        }
        drop(handle);
        Ok(self.journal.commit_running()?)
    }
}
