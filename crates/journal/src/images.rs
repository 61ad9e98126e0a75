//! The newest committed image of every block that is not at home yet.
//!
//! Invariants: a transaction's `pending` counts the blocks in the map whose newest image is its
//! own. A newer image, a home write and a revoke each take one away, so nothing is ever scanned.
//! Locking: one map shard ([`Rank::Checkpoint`]) at a time.

use crate::Image;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use uext4_format::{BlockNr, Tid};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Mutex, Rank, StretchMap, stretch_shard};

const SHARDS: usize = 64;
/// Neighbours that share a shard: they are committed and brought home one after the other.
const STRETCH_BITS: u32 = 6;

/// A committed transaction that the log still holds.
pub(crate) struct Record {
    pub(crate) tid: Tid,
    /// Its first block in the log.
    pub(crate) log_start: u32,
    /// Blocks it wrote, ascending.
    pub(crate) blocks: Vec<BlockNr>,
    pending: AtomicU64,
}

impl Record {
    pub(crate) fn new(tid: Tid, log_start: u32, blocks: Vec<BlockNr>) -> Arc<Record> {
        Arc::new(Record {
            tid,
            log_start,
            blocks,
            pending: AtomicU64::new(0),
        })
    }
    /// Nothing of it waits for its home write.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }
    fn drop_one(&self) {
        self.pending.fetch_sub(1, Ordering::AcqRel);
    }
}

type Shard = StretchMap<BlockNr, (Image, Arc<Record>), STRETCH_BITS>;

pub(crate) struct Images {
    shards: Box<[Mutex<Shard>]>,
}

impl Images {
    pub(crate) fn new() -> Self {
        let shard = |_| Mutex::new(Rank::Checkpoint, Shard::default());
        Self {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    fn shard(&self, block: BlockNr) -> &Mutex<Shard> {
        &self.shards[stretch_shard::<STRETCH_BITS>(block.0, SHARDS)]
    }

    /// Images held.
    pub(crate) fn len(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.lock().len() as u64)
            .sum()
    }

    /// The newest committed image of `block`; `None`: the device has it.
    pub(crate) fn get(&self, block: BlockNr) -> Option<Image> {
        self.shard(block)
            .lock()
            .get(&block)
            .map(|(image, _)| image.clone())
    }

    /// As [`Self::get`], if it is `record` that wrote it.
    pub(crate) fn get_of(&self, block: BlockNr, record: &Arc<Record>) -> Option<Image> {
        let shard = self.shard(block).lock();
        let (image, owner) = shard.get(&block)?;
        Arc::ptr_eq(owner, record).then(|| image.clone())
    }

    /// `image`, committed by `record`, is now the newest.
    pub(crate) fn insert(&self, block: BlockNr, image: Image, record: &Arc<Record>) {
        record.pending.fetch_add(1, Ordering::AcqRel);
        let older = self
            .shard(block)
            .lock()
            .insert(block, (image, Arc::clone(record)));
        if let Some((_, owner)) = older {
            owner.drop_one();
        }
    }

    /// `image` was written home: forget it unless there is a newer one.
    pub(crate) fn written(&self, block: BlockNr, image: &Image) {
        let mut shard = self.shard(block).lock();
        if let Entry::Occupied(entry) = shard.entry(block)
            && Arc::ptr_eq(&entry.get().0, image)
        {
            entry.remove().1.drop_one();
        }
    }

    /// True when some image of `block` waits for its home write.
    pub(crate) fn contains(&self, block: BlockNr) -> bool {
        self.shard(block).lock().contains_key(&block)
    }

    /// `block` was freed: its image must not go home.
    pub(crate) fn revoke(&self, block: BlockNr) {
        if let Some((_, owner)) = self.shard(block).lock().remove(&block) {
            owner.drop_one();
        }
    }
}
