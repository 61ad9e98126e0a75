//! Per-shard list of objects and revokes logged to the running transaction, with its charges.
//!
//! Many small objects share a block, which is charged once: a shard keeps a direct-mapped cache of
//! blocks it was charged for. Evicted blocks are charged again, and shards do not share the cache,
//! so a charge may be too large but is never too small.

use crate::dirty_list::DirtyList;
use crate::live::Dirty;
use uext4_format::BlockNr;
use uext4_num::{clamp_usize, u64_of, usize_of};
use uext4_sync::Arc;

/// Slots of the cache of charged blocks.
const REMEMBERED: usize = 64;
/// Most objects per credit: the smallest inodes in a block of 4 KiB. Bounds the memory of objects
/// that are created and removed in one block; all of them stay until the commit.
const OBJECTS_PER_CREDIT: usize = 32;

pub(crate) struct Logged {
    objects: DirtyList,
    revokes: Vec<BlockNr>,
    /// Keys of the objects that changed in this round and have records.
    records: Vec<u64>,
    shared: [Option<BlockNr>; REMEMBERED],
    charged: usize,
}

impl Logged {
    pub(crate) fn new() -> Self {
        Self {
            objects: DirtyList::default(),
            revokes: Vec::new(),
            records: Vec::new(),
            shared: [None; REMEMBERED],
            charged: 0,
        }
    }

    /// Puts an object on the list; returns its charge in blocks (a bound). `shared` is the object's
    /// [`crate::Render::shared_block`].
    pub(crate) fn push(&mut self, object: Arc<dyn Dirty>, shared: Option<BlockNr>) -> u32 {
        self.objects.push(object);
        let is_known = shared.is_some_and(|block| self.remember(block));
        let is_paid = is_known && self.objects.len() <= self.charged * OBJECTS_PER_CREDIT;
        let charge = u32::from(!is_paid);
        self.charged += usize_of(charge);
        charge
    }

    /// Whether the block is in the cache of charged blocks; inserts it.
    fn remember(&mut self, block: BlockNr) -> bool {
        let place = &mut self.shared[clamp_usize(block.0 % u64_of(REMEMBERED))];
        place.replace(block) == Some(block)
    }

    /// Notes an object that has a record.
    pub(crate) fn push_record(&mut self, key: u64) {
        self.records.push(key);
    }

    /// Takes the keys of this round.
    pub(crate) fn take_records(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.records)
    }

    /// Notes a revoke; returns its charge in log blocks, each with `per_block` revokes. A shard
    /// pays for revoke blocks of its own, so the charge is never too small.
    pub(crate) fn push_revoke(&mut self, block: BlockNr, per_block: usize) -> u32 {
        let begins = self.revokes.len().is_multiple_of(per_block);
        self.revokes.push(block);
        u32::from(begins)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.revokes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Takes the whole list at a change of transactions. Nothing is copied, because all handles
    /// wait.
    pub(crate) fn take(&mut self) -> (DirtyList, Vec<BlockNr>) {
        self.shared.fill(None);
        self.records.clear();
        self.charged = 0;
        let objects = std::mem::take(&mut self.objects);
        (objects, std::mem::take(&mut self.revokes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::objects::Slot;
    use std::collections::HashSet;
    use uext4_sync::Rng;

    fn push(logged: &mut Logged, block: Option<u64>) -> u32 {
        logged.push(Slot::new(1, 0), block.map(BlockNr))
    }

    #[test]
    fn objects_of_a_few_blocks_in_any_order_are_charged_once_per_block() {
        let (mut logged, mut rng) = (Logged::new(), Rng::new(1));
        let charged: u32 = (0..200)
            .map(|_| push(&mut logged, Some(1000 + rng.below(20))))
            .sum();
        assert_eq!(charged, 20);
        assert_eq!(push(&mut logged, None), 1, "a block of its own");
        assert_eq!(logged.take().0.len(), 201);
        assert!(logged.is_empty());
        assert_eq!(push(&mut logged, Some(1000)), 1, "a new transaction");
    }

    #[test]
    fn revokes_are_charged_by_the_block_that_holds_them() {
        let mut logged = Logged::new();
        let charged: u32 = (0..250)
            .map(|nr| logged.push_revoke(BlockNr(nr), 100))
            .sum();
        assert_eq!(charged, 3);
        logged.take();
        assert_eq!(logged.push_revoke(BlockNr(1), 100), 1, "a new transaction");
    }

    #[test]
    fn a_charge_is_never_too_small() {
        let (mut logged, mut rng) = (Logged::new(), Rng::new(2));
        let (mut blocks, mut charged) = (HashSet::new(), 0);
        for objects in 1..=20_000usize {
            let range = 1 + rng.below(3000);
            let block = rng.below(range);
            blocks.insert(block);
            charged += push(&mut logged, Some(block)) as usize;
            assert!(charged >= blocks.len().max(objects / OBJECTS_PER_CREDIT));
        }
    }
}
