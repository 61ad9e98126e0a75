//! The newest committed image of every block that is not at home yet.
//!
//! Invariants: a transaction's `pending` counts the blocks in the map whose newest image is its
//! own. A newer image, a home write and a revoke each take one away, so nothing is ever scanned.
//! Locking: one map shard ([`Rank::Checkpoint`]) at a time. What a commit or a checkpoint does to
//! many blocks it does shard by shard, and a commit looks for all blocks of a shard before it
//! changes any: entries of a long queue lie in memory and not in a cache, and are fetched side by
//! side so.

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

/// A block to bring home, if its newest image is of this record.
pub(crate) type Wanted<'a> = (BlockNr, &'a Arc<Record>);

type Shard = StretchMap<BlockNr, (Image, Arc<Record>), STRETCH_BITS>;

fn shard_of(block: BlockNr) -> usize {
    stretch_shard::<STRETCH_BITS>(block.0, SHARDS)
}

fn insert_into(shard: &mut Shard, images: Vec<(BlockNr, Image)>, record: &Arc<Record>) {
    let is_new = |(block, _): &&(BlockNr, Image)| !shard.contains_key(block);
    let new = images.iter().filter(is_new).count();
    shard.reserve(new);
    for (block, image) in images {
        insert_one(shard, block, image, record);
    }
}

fn insert_one(shard: &mut Shard, block: BlockNr, image: Image, record: &Arc<Record>) {
    if let Some((_, owner)) = shard.insert(block, (image, Arc::clone(record))) {
        owner.drop_one();
    }
}

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
        &self.shards[shard_of(block)]
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

    /// As [`Self::get`], of each of these ascending blocks whose newest image is of its record.
    pub(crate) fn newest_of(&self, wanted: &[Wanted<'_>]) -> Vec<(BlockNr, Image)> {
        let mut newest = Vec::with_capacity(wanted.len());
        for some in wanted.chunk_by(|a, b| shard_of(a.0) == shard_of(b.0)) {
            let shard = self.shard(some[0].0).lock();
            newest.extend(some.iter().filter_map(|(block, record)| {
                let (image, owner) = shard.get(block)?;
                Arc::ptr_eq(owner, record).then(|| (*block, image.clone()))
            }));
        }
        newest
    }

    /// These images, one per block and all that `record` committed, are now the newest. Nobody else
    /// has the record yet.
    pub(crate) fn insert(&self, mut images: Vec<(BlockNr, Image)>, record: &Arc<Record>) {
        record.pending.store(images.len() as u64, Ordering::Release);
        if images.len() < SHARDS {
            // Few meet in a shard: to sort them costs more than it gains.
            for (block, image) in images {
                insert_one(&mut self.shard(block).lock(), block, image, record);
            }
            return;
        }
        images.sort_by_cached_key(|(block, _)| shard_of(*block) as u8);
        let mut images = images.into_iter().peekable();
        while let Some((first, _)) = images.peek() {
            let nr = shard_of(*first);
            let of_shard =
                std::iter::from_fn(|| images.next_if(|(block, _)| shard_of(*block) == nr));
            insert_into(&mut self.shards[nr].lock(), of_shard.collect(), record);
        }
    }

    /// These images of ascending blocks were written home: they are forgotten unless there are
    /// newer ones.
    pub(crate) fn written(&self, images: &[(BlockNr, Image)]) {
        for some in images.chunk_by(|a, b| shard_of(a.0) == shard_of(b.0)) {
            let mut shard = self.shard(some[0].0).lock();
            for (block, image) in some {
                if let Entry::Occupied(entry) = shard.entry(*block)
                    && Arc::ptr_eq(&entry.get().0, image)
                {
                    entry.remove().1.drop_one();
                }
            }
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
