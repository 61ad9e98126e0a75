//! Live objects for tests, and a small disk with a journal in it.

use super::device::Recorder;
use crate::{Config, Image, Live, Log, Object, Render, Sink};
use std::sync::Arc;
use uext4_format::BlockNr;
use uext4_format::jbd2::Superblock;
use uext4_sync::Rank;

pub(super) const BLOCK: usize = 1024;
/// First block of the log.
pub(super) const LOG_AT: u64 = 1;

/// A live object that is a whole block.
pub(super) struct BlockState {
    pub(super) nr: BlockNr,
    pub(super) bytes: Vec<u8>,
    pub(super) renders: u32,
}

impl Render for BlockState {
    const RANK: Rank = Rank::MetaBlock;
    fn render(&mut self, out: &mut Sink<'_>) {
        self.renders += 1;
        out.image(self.nr, Image::from(&self.bytes[..]));
    }
}

pub(super) struct Block {
    live: Live<BlockState>,
}

impl Block {
    pub(super) fn new(nr: u64, bytes: Vec<u8>) -> Arc<Block> {
        let state = BlockState {
            nr: BlockNr(nr),
            bytes,
            renders: 0,
        };
        Arc::new(Block {
            live: Live::new(state),
        })
    }

    /// First byte of the live state.
    pub(super) fn live_byte(&self) -> u8 {
        self.live.read().bytes[0]
    }
}

impl Object for Block {
    type State = BlockState;
    fn live(&self) -> &Live<BlockState> {
        &self.live
    }
}

/// A counter in eight bytes of a shared block.
pub(crate) struct SlotState {
    pub(super) nr: BlockNr,
    pub(super) at: usize,
    pub(super) value: u64,
}

impl Render for SlotState {
    const RANK: Rank = Rank::InodeState;
    fn render(&mut self, out: &mut Sink<'_>) {
        out.patch(self.nr, self.at, &self.value.to_le_bytes());
    }
    fn shared_block(&self) -> Option<BlockNr> {
        Some(self.nr)
    }
}

pub(crate) struct Slot {
    live: Live<SlotState>,
}

impl Slot {
    pub(crate) fn new(nr: u64, at: usize) -> Arc<Slot> {
        Arc::new(Slot {
            live: Live::new(SlotState {
                nr: BlockNr(nr),
                at,
                value: 0,
            }),
        })
    }
}

impl Object for Slot {
    type State = SlotState;
    fn live(&self) -> &Live<SlotState> {
        &self.live
    }
}

/// A disk of `blocks` blocks whose log has `log_blocks`.
pub(super) fn disk(blocks: usize, log_blocks: u32) -> Vec<u8> {
    let mut bytes = vec![0; blocks * BLOCK];
    let superblock = Superblock::new(BLOCK as u32, log_blocks, 1, *b"test journal id.");
    let at = LOG_AT as usize * BLOCK;
    bytes[at..at + BLOCK].copy_from_slice(&superblock.encode());
    bytes
}

pub(super) fn log(device: &Arc<Recorder>, log_blocks: u32) -> Log {
    Log::contiguous(Arc::clone(device) as _, LOG_AT, log_blocks)
}

pub(super) fn config(device: &Arc<Recorder>, log_blocks: u32) -> Config {
    let mut config = Config::new(Arc::clone(device) as _, BLOCK as u32);
    config.log = Some(log(device, log_blocks));
    config
}

/// As [`config`], with fast commits; the log has at least 1,281 blocks.
pub(super) fn fast_config(device: &Arc<Recorder>, log_blocks: u32) -> Config {
    let fast_commits = crate::FastCommits::Written;
    Config {
        fast_commits,
        ..config(device, log_blocks)
    }
}

/// The block `nr` in `bytes`.
pub(super) fn block_of(bytes: &[u8], nr: u64) -> &[u8] {
    &bytes[nr as usize * BLOCK..][..BLOCK]
}
