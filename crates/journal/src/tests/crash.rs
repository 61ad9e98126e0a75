//! Crash test: random work, a crash at any write, then recovery; the last durable state remains.
//!
//! A run is one seed. Every commit is a snapshot of the model. After a crash and a replay the disk
//! equals one snapshot, at least as new as the last one reported durable. Freed blocks are reused
//! for file data after their transaction committed; flushed data must survive.

use super::device::Recorder;
use super::objects::{BLOCK, Block, Slot, block_of, config, disk, log};
use crate::recovery::{RecoveryMode, recover};
use crate::{Checksums, Journal, Tracking, Width};
use std::collections::BTreeMap;
use std::sync::Arc;
use uext4_format::{BlockNr, Tid};
use uext4_sync::Rng;

const BLOCKS: usize = 160;
const LOG: u32 = 40;
/// Blocks of eight slots each, followed by blocks that are allocated and freed.
const SLOT_BLOCKS: std::ops::Range<u64> = 100..104;
const FIRST_BLOCK: u64 = 110;
const LAST_BLOCK: u64 = 130;

#[derive(Clone, PartialEq, Debug)]
enum Content {
    /// Metadata.
    Meta(Vec<u8>),
    /// Free or file data, since the freeing with this number.
    Free(usize),
}

type Snapshot = BTreeMap<u64, Content>;

/// File data written into a freed block.
struct Data {
    freeing: usize,
    block: u64,
    written_at: usize,
    bytes: Vec<u8>,
}

struct Run {
    rng: Rng,
    device: Arc<Recorder>,
    journal: Arc<Journal>,
    slots: Vec<Arc<Slot>>,
    blocks: BTreeMap<u64, Arc<Block>>,
    model: Snapshot,
    snapshots: Vec<Snapshot>,
    /// Events at which snapshot `i + 1` was reported durable.
    durable_at: Vec<usize>,
    freed_now: Vec<(usize, u64)>,
    freed_before: Vec<(usize, u64)>,
    data: Vec<Data>,
    freeings: usize,
    tid: Tid,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let device = Recorder::new(disk(BLOCKS, LOG));
        let mut config = config(&device, LOG);
        config.checksums = [Checksums::V3, Checksums::None][rng.below(2) as usize];
        config.width = [Width::Wide, Width::Narrow][rng.below(2) as usize];
        config.tracking = [Tracking::Counted, Tracking::Scanned][rng.below(2) as usize];
        let slot = |i: u64| Slot::new(SLOT_BLOCKS.start + i / 8, (i % 8 * 64) as usize);
        let zero = |nr| (nr, Content::Meta(vec![0; BLOCK]));
        let model: Snapshot = SLOT_BLOCKS.map(zero).collect();
        Run {
            rng,
            journal: Journal::open(config).expect("opens"),
            device,
            slots: (0..SLOT_BLOCKS.count() as u64 * 8).map(slot).collect(),
            blocks: BTreeMap::new(),
            snapshots: vec![model.clone()],
            model,
            durable_at: Vec::new(),
            freed_now: Vec::new(),
            freed_before: Vec::new(),
            data: Vec::new(),
            freeings: 0,
            tid: Tid(1),
        }
    }

    fn step(&mut self, n: u64) {
        match self.rng.below(20) {
            0..8 => self.bump_slots(n),
            8..13 => self.write_block(n),
            13..16 => self.free_block(),
            16..18 => self.write_data(n),
            18 => self.device_flush(),
            _ => self.commit(),
        }
    }

    fn bump_slots(&mut self, n: u64) {
        let journal = Arc::clone(&self.journal);
        let handle = journal.start(3).expect("starts");
        self.note_commit(handle.tid());
        for _ in 0..3 {
            let i = self.rng.below(self.slots.len() as u64);
            let mut slot = handle.write(&self.slots[i as usize]);
            slot.value = n;
            let (nr, at) = (slot.nr.0, slot.at);
            let Some(Content::Meta(bytes)) = self.model.get_mut(&nr) else {
                panic!("no slots")
            };
            bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
        }
    }

    /// Writes a metadata block, newly allocated or again.
    fn write_block(&mut self, n: u64) {
        let nr = FIRST_BLOCK + self.rng.below(LAST_BLOCK - FIRST_BLOCK);
        if self.freed_now.iter().any(|(_, block)| *block == nr) {
            return; // freed blocks are not taken again before their transaction committed
        }
        let journal = Arc::clone(&self.journal);
        let handle = journal.start(1).expect("starts");
        self.note_commit(handle.tid());
        self.freed_before.retain(|(_, block)| *block != nr);
        let new = || Block::new(nr, vec![0; BLOCK]);
        let block = self.blocks.entry(nr).or_insert_with(new);
        let mut state = handle.write(block);
        let fill = (n % 251) as u8;
        state.bytes.fill(fill);
        if self.rng.chance(1, 3) {
            state.bytes[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
        }
        self.model.insert(nr, Content::Meta(state.bytes.clone()));
    }

    fn free_block(&mut self) {
        let at = self.rng.below(self.blocks.len().max(1) as u64) as usize;
        let Some(nr) = self.blocks.keys().copied().nth(at) else {
            return;
        };
        let block = self.blocks.remove(&nr).expect("just seen");
        let journal = Arc::clone(&self.journal);
        let handle = journal.start(1).expect("starts");
        self.note_commit(handle.tid());
        handle.forget(&block, BlockNr(nr));
        self.freeings += 1;
        self.model.insert(nr, Content::Free(self.freeings));
        self.freed_now.push((self.freeings, nr));
    }

    /// Writes file data directly to a block whose freeing is durable.
    fn write_data(&mut self, n: u64) {
        let at = self.rng.below(self.freed_before.len().max(1) as u64) as usize;
        let Some((freeing, block)) = self.freed_before.get(at).copied() else {
            return;
        };
        let bytes = vec![(n % 253) as u8 | 1; BLOCK];
        let offset = block * BLOCK as u64;
        uext4_device::BlockDevice::write_at(&*self.device, offset, &bytes).expect("memory");
        self.data.push(Data {
            freeing,
            block,
            written_at: self.device.len(),
            bytes,
        });
    }

    fn device_flush(&mut self) {
        self.journal.flush_device().expect("flushes");
    }

    fn commit(&mut self) {
        self.journal.commit_running().expect("commits");
        self.note_commit(self.journal.running());
    }

    /// If `running` is a new transaction, notes the model as a durable snapshot: a full transaction
    /// commits before the next handle starts.
    fn note_commit(&mut self, running: Tid) {
        if running != self.tid {
            self.tid = running;
            self.snapshots.push(self.model.clone());
            self.durable_at.push(self.device.len());
            self.freed_before.append(&mut self.freed_now);
        }
    }

    /// Checks the disk after a crash after `cut` events and a recovery: the metadata equal a
    /// snapshot, and this snapshot's data in freed blocks are present. Metadata alone may match two
    /// snapshots, if only the reuse of a free block is between them.
    fn check(&self, cut: usize, after: &[u8], seed: u64) {
        let oldest = self.durable_at.iter().take_while(|at| **at <= cut).count();
        let fitting: Vec<&Snapshot> = self.snapshots[oldest..]
            .iter()
            .filter(|snapshot| has_metadata(snapshot, after))
            .collect();
        assert!(
            !fitting.is_empty(),
            "seed {seed}, cut {cut}: no snapshot from {oldest} on"
        );
        let lost: Vec<u64> = fitting
            .iter()
            .map_while(|snapshot| self.overwritten(snapshot, cut, after))
            .collect();
        assert!(
            lost.len() < fitting.len(),
            "seed {seed}, cut {cut}: data of blocks {lost:?} were overwritten"
        );
    }

    /// A block whose flushed data of `snapshot` are missing.
    fn overwritten(&self, snapshot: &Snapshot, cut: usize, after: &[u8]) -> Option<u64> {
        let is_lost = |(nr, content): &(&u64, &Content)| match content {
            Content::Free(freeing) => !self.has_data(**nr, *freeing, cut, after),
            Content::Meta(_) => false,
        };
        snapshot.iter().find(is_lost).map(|(nr, _)| *nr)
    }

    fn has_data(&self, nr: u64, freeing: usize, cut: usize, after: &[u8]) -> bool {
        let writes = self
            .data
            .iter()
            .filter(|data| (data.freeing, data.block) == (freeing, nr));
        let writes: Vec<&Data> = writes.filter(|data| data.written_at <= cut).collect();
        let flushed = writes
            .iter()
            .rposition(|data| self.device.is_flushed_between(data.written_at, cut));
        let Some(flushed) = flushed else { return true };
        // A later unflushed write may have reached the disk in part, sector by sector.
        let mut sectors = block_of(after, nr).chunks(512).enumerate();
        sectors.all(|(i, sector)| {
            writes[flushed..]
                .iter()
                .any(|data| data.bytes[i * 512..][..512] == *sector)
        })
    }
}

fn has_metadata(snapshot: &Snapshot, disk: &[u8]) -> bool {
    snapshot.iter().all(|(nr, content)| match content {
        Content::Meta(bytes) => block_of(disk, *nr) == &bytes[..],
        Content::Free(_) => true,
    })
}

fn replay(bytes: Vec<u8>) -> Arc<Recorder> {
    let device = Recorder::new(bytes);
    let home = Arc::clone(&device) as _;
    recover(
        &log(&device, LOG),
        &home,
        BLOCK as u32,
        RecoveryMode::Replay,
    )
    .expect("replays");
    device
}

fn run_seed(seed: u64) {
    let mut run = Run::new(seed);
    for n in 1..=150 {
        run.step(n);
    }
    let mut rng = run.rng.fork();
    run.commit();
    for _ in 0..60 {
        let cut = rng.below(run.device.len() as u64 + 1) as usize;
        let recovered = replay(run.device.crash(cut, &mut rng));
        run.check(cut, &recovered.bytes(), seed);
        // A crash during recovery, and recovery again.
        let second_cut = rng.below(recovered.len() as u64 + 1) as usize;
        let again = replay(recovered.crash(second_cut, &mut rng));
        run.check(cut, &again.bytes(), seed);
    }
}

#[test]
fn the_last_durable_state_wins() {
    (0..150).for_each(run_seed);
}
