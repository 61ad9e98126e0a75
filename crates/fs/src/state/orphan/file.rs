//! The orphan file: slots of inode numbers, allocated lock-free.
//!
//! Layout: each block has `slots` little-endian inode numbers (0 = free) and a tail. In memory a
//! block is a shared array of atomics; rendering copies them.
//!
//! Locking: none to add or remove. `Handle::touch` logs the block before a slot changes, so that a
//! block of the committing transaction is rendered before a later change.

use crate::state::base::Base;
use crate::types::error::Result;
use uext4_format::orphan_file::{
    orphan_slot, orphan_slots_per_block, seal_orphan_block, set_orphan_slot, verify_orphan_block,
};
use uext4_format::{BlockNr, InodeNr, Seed};
use uext4_journal::{Handle, Image, Live, Object, Render, Sink};
use uext4_num::{clamp_i64, clamp_usize, u64_of};
use uext4_sync::atomic::{AtomicI64, AtomicU32, Ordering};
use uext4_sync::{Arc, Rank, shard_index};

/// Odd step between the start blocks of neighbouring threads, as in the kernel.
const BLOCK_STEP: usize = 13;
/// Passes over all slots of a block before the next block is tried.
const PASSES_MAX: u32 = 4;

/// Slots of a block; few under the model checker, so that the file fills up.
fn slots_in(block_size: usize) -> usize {
    if cfg!(shuttle) {
        2
    } else {
        orphan_slots_per_block(block_size)
    }
}

/// The orphan file of a mounted file system.
pub(crate) struct OrphanFile {
    blocks: Vec<Arc<SlotBlock>>,
    slots_per_block: usize,
}

struct SlotBlock {
    free: AtomicI64,
    slots: Arc<[AtomicU32]>,
    live: Live<SlotState>,
}

struct SlotState {
    nr: BlockNr,
    seed: Option<Seed>,
    bytes: Image,
    slots: Arc<[AtomicU32]>,
}

impl Object for SlotBlock {
    type State = SlotState;
    fn live(&self) -> &Live<SlotState> {
        &self.live
    }
}

impl Render for SlotState {
    const RANK: Rank = Rank::MetaBlock;

    fn render(&mut self, out: &mut Sink<'_>) {
        let bytes = Arc::make_mut(&mut self.bytes);
        for (index, slot) in self.slots.iter().enumerate() {
            let inode = slot.load(Ordering::Acquire);
            set_orphan_slot(bytes, index, (inode != 0).then_some(InodeNr(inode)));
        }
        seal_orphan_block(bytes, self.nr, self.seed);
        out.image(self.nr, self.bytes.clone());
    }
}

impl OrphanFile {
    /// Reads and verifies the file in these blocks; `seed` is the checksum seed of its inode.
    pub(crate) fn read(base: &Base, seed: Option<Seed>, blocks: &[BlockNr]) -> Result<Self> {
        Ok(Self {
            blocks: blocks
                .iter()
                .map(|&block| {
                    let bytes = base.journal.read_block(block)?;
                    verify_orphan_block(&bytes, block, seed)?;
                    Ok(SlotBlock::new(block, seed, bytes))
                })
                .collect::<Result<_>>()?,
            slots_per_block: slots_in(base.block_size()),
        })
    }

    /// Allocates a slot for `inode`; `None` if the file is full.
    pub(super) fn add(&self, handle: &Handle<'_>, inode: InodeNr) -> Option<u64> {
        let start = shard_index() * BLOCK_STEP % self.blocks.len();
        for step in 0..self.blocks.len() {
            let index = (start + step) % self.blocks.len();
            let block = &self.blocks[index];
            if block.claim() {
                handle.touch(block);
                if let Some(slot) = block.fill(inode) {
                    return Some(u64_of(index * self.slots_per_block + slot));
                }
                block.free.fetch_add(1, Ordering::AcqRel);
            }
        }
        None
    }

    pub(crate) fn remove(&self, handle: &Handle<'_>, slot: u64) {
        let block = &self.blocks[clamp_usize(slot) / self.slots_per_block];
        handle.touch(block);
        block.slots[clamp_usize(slot) % self.slots_per_block].store(0, Ordering::Release);
        block.free.fetch_add(1, Ordering::AcqRel);
    }

    /// True when all slots are free.
    pub(super) fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    /// Slot and inode number of all entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, InodeNr)> {
        let slots = self.blocks.iter().flat_map(|block| block.slots.iter());
        let taken = slots.map(|slot| slot.load(Ordering::Acquire)).enumerate();
        taken
            .filter(|(_, inode)| *inode != 0)
            .map(|(slot, inode)| (u64_of(slot), InodeNr(inode)))
    }
}

#[cfg(shuttle)]
impl OrphanFile {
    /// An empty file in these blocks, for the model checker.
    pub(super) fn empty(blocks: std::ops::Range<u64>, block_size: usize) -> Self {
        Self {
            blocks: blocks
                .map(|nr| SlotBlock::new(BlockNr(nr), None, vec![0; block_size].into()))
                .collect(),
            slots_per_block: slots_in(block_size),
        }
    }
}

impl SlotBlock {
    fn new(nr: BlockNr, seed: Option<Seed>, bytes: Image) -> Arc<Self> {
        let slot = |index| AtomicU32::new(orphan_slot(&bytes, index).map_or(0, |inode| inode.0));
        let slots: Arc<[AtomicU32]> = (0..slots_in(bytes.len())).map(slot).collect();
        let free = AtomicI64::new(clamp_i64(
            slots
                .iter()
                .filter(|slot| slot.load(Ordering::Relaxed) == 0)
                .count(),
        ));
        let state = SlotState {
            nr,
            seed,
            bytes,
            slots: slots.clone(),
        };
        let live = Live::new(state);
        Arc::new(SlotBlock { free, slots, live })
    }

    /// Reserves one of the free slots; false if there is none.
    fn claim(&self) -> bool {
        self.free
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |free| {
                if free > 0 { Some(free - 1) } else { None }
            })
            .is_ok()
    }

    /// Stores `inode` in a free slot. A claim guarantees one, because a freed slot raises `free`
    /// only after it reads as zero. Other threads may take it while this one scans elsewhere, so
    /// the search ends after a few passes.
    fn fill(&self, inode: InodeNr) -> Option<usize> {
        (0..PASSES_MAX).find_map(|_| {
            self.slots.iter().position(|slot| {
                let order = Ordering::AcqRel;
                slot.load(Ordering::Relaxed) == 0
                    && slot
                        .compare_exchange(0, inode.0, order, Ordering::Relaxed)
                        .is_ok()
            })
        })
    }
}
