//! Sharded map from block to its newest committed image that is not home yet, with its transaction.
//!
//! An entry names its transaction by number only. A caller that replaces or removes entries gets
//! them back: it lowers the counters of their transactions in one batch ([`crate::records`]), and
//! frees the images outside the lock.
//!
//! Locking: one map shard ([`Rank::Checkpoint`]) at a time, briefly. A commit or a checkpoint works
//! on its blocks in parts, and prefetches all entries of a part before it reads the first: the
//! entries of a long queue are in memory, not in a cache, so their loads overlap.

use crate::Image;
use crate::newest::{Entry, Newest, in_stripes};
use uext4_format::{BlockNr, Tid};
use uext4_num::u64_of;
use uext4_sync::{Mutex, Rank, stripe_shard};

const SHARDS: usize = 16;
/// Consecutive blocks of one shard, as a power of two: usually one block group.
const SHARD_BITS: u32 = 15;
/// Blocks of a part: fits the L1 cache and bounds a reader's wait.
const PART_MAX: usize = 256;

/// A block to checkpoint, if its newest image is of this transaction.
pub(crate) type Wanted = (BlockNr, Tid);

/// Cuts a list of ascending blocks into parts, each in one shard.
fn parts_of<T>(list: &[T], nr: impl Fn(&T) -> BlockNr) -> impl Iterator<Item = &[T]> {
    list.chunk_by(move |a, b| nr(a).0 >> SHARD_BITS == nr(b).0 >> SHARD_BITS)
        .flat_map(|together| together.chunks(PART_MAX))
}

pub(crate) struct Images {
    shards: Box<[Mutex<Newest>]>,
}

impl Images {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS)
                .map(|_| Mutex::new(Rank::Checkpoint, Newest::default()))
                .collect(),
        }
    }

    fn shard(&self, block: BlockNr) -> &Mutex<Newest> {
        &self.shards[stripe_shard::<SHARD_BITS>(block.0, SHARDS)]
    }

    /// Number of images held.
    pub(crate) fn len(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| u64_of(shard.lock().len()))
            .sum()
    }

    /// The newest committed image of `block`; `None`: the device has it.
    pub(crate) fn get(&self, block: BlockNr) -> Option<Image> {
        let shard = self.shard(block).lock();
        let (image, _) = shard.stripe(block)?.get(block)?;
        Some(image.clone())
    }

    /// The transaction that committed the newest image of `block`; `None`: the device has it.
    pub(crate) fn owner(&self, block: BlockNr) -> Option<Tid> {
        let shard = self.shard(block).lock();
        shard.stripe(block)?.get(block).map(|(_, owner)| owner)
    }

    /// The newest images of these ascending blocks, each if it is of the named transaction.
    pub(crate) fn newest_of(&self, wanted: &[Wanted]) -> Vec<(BlockNr, Image)> {
        let mut found = Vec::with_capacity(wanted.len());
        for part in parts_of(wanted, |(block, _)| *block) {
            let shard = &*self.shard(part[0].0).lock();
            shard.fetch(part, |(block, _)| *block);
            for part in in_stripes(part, |(block, _)| *block) {
                let stripe = shard.stripe(part[0].0);
                found.extend(part.iter().filter_map(|(block, tid)| {
                    let (image, owner) = stripe?.get(*block)?;
                    (owner == *tid).then(|| (*block, image.clone()))
                }));
            }
        }
        found
    }

    /// Makes these images of the ascending `blocks`, committed by `tid`, the newest. Returns the
    /// entries that they replace.
    pub(crate) fn insert(
        &self,
        blocks: &[BlockNr],
        images: Vec<(BlockNr, Image)>,
        tid: Tid,
    ) -> Vec<Entry> {
        let mut retired = Vec::with_capacity(images.len());
        let mut images = images.into_iter();
        for part in parts_of(blocks, |block| *block) {
            let shard = &mut *self.shard(part[0]).lock();
            shard.fetch(part, |block| *block);
            for part in in_stripes(part, |block| *block) {
                let stripe = shard.stripe_to_fill(part[0]);
                let images = images.by_ref().take(part.len());
                retired.extend(images.filter_map(|(block, image)| stripe.put(block, image, tid)));
            }
        }
        retired
    }

    /// Removes these images of ascending blocks, which were written home, unless newer ones have
    /// replaced them. Returns the removed entries.
    pub(crate) fn written(&self, images: &[(BlockNr, Image)]) -> Vec<Entry> {
        let mut retired = Vec::with_capacity(images.len());
        for part in parts_of(images, |(block, _)| *block) {
            let shard = &mut *self.shard(part[0].0).lock();
            shard.fetch(part, |(block, _)| *block);
            for part in in_stripes(part, |(block, _)| *block) {
                shard.take_from(part[0].0, |stripe| {
                    retired.extend(part.iter().filter_map(|(block, image)| {
                        stripe.take_if(*block, |newest| Image::ptr_eq(newest, image))
                    }));
                });
            }
        }
        retired
    }

    /// True when some image of `block` waits for its home write.
    pub(crate) fn contains(&self, block: BlockNr) -> bool {
        let shard = self.shard(block).lock();
        let stripe = shard.stripe(block);
        stripe.is_some_and(|stripe| stripe.get(block).is_some())
    }

    /// Removes the images of freed blocks, so that none is written home. Returns the entries.
    pub(crate) fn revoke(&self, blocks: &[BlockNr]) -> Vec<Entry> {
        let mut retired = Vec::new();
        for block in blocks {
            self.shard(*block).lock().take_from(*block, |stripe| {
                retired.extend(stripe.take_if(*block, |_| true));
            });
        }
        retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use uext4_sync::Rng;

    /// Ascending blocks in several shards, stripes and rows; some stripes have many of them.
    fn some_blocks(rng: &mut Rng) -> Vec<BlockNr> {
        let density = [1, 20, 1000][rng.below(3) as usize];
        let blocks = (0..40_000).filter(|_| rng.below(1000) < density);
        blocks.map(BlockNr).collect()
    }

    /// Compares with a plain map: lists that are committed, written home and freed in turn.
    #[test]
    fn lists_do_what_a_plain_map_does() {
        let mut rng = Rng::new(3);
        let (images, mut plain) = (Images::new(), BTreeMap::new());
        for tid in (0..60).map(Tid) {
            let image = Image::from(tid.0.to_le_bytes().as_slice());
            let blocks = some_blocks(&mut rng);
            let list = blocks.iter().map(|block| (*block, image.clone())).collect();
            let expected: Vec<Entry> = blocks
                .iter()
                .filter_map(|block| plain.insert(*block, (image.clone(), tid)))
                .collect();
            assert_eq!(images.insert(&blocks, list, tid), expected, "{tid:?}");

            let owner = Tid(tid.0.saturating_sub(rng.below(3) as u32));
            let wanted: Vec<Wanted> = some_blocks(&mut rng)
                .iter()
                .map(|nr| (*nr, owner))
                .collect();
            let is_found =
                |(block, _): &&Wanted| plain.get(block).is_some_and(|(_, of)| *of == owner);
            let found: Vec<BlockNr> = wanted.iter().filter(is_found).map(|(nr, _)| *nr).collect();
            let home = images.newest_of(&wanted);
            assert!(home.iter().map(|(nr, _)| nr).eq(&found), "{tid:?}");

            let taken = images.written(&home);
            let expected = found.iter().filter_map(|block| plain.remove(block));
            assert_eq!(taken, expected.collect::<Vec<Entry>>(), "{tid:?}");
            assert!(images.written(&home).is_empty(), "none comes twice");
            assert_eq!(images.len(), plain.len() as u64);
        }
        let all: Vec<BlockNr> = plain.keys().copied().collect();
        assert_eq!(images.revoke(&all).len(), all.len());
        assert_eq!(images.len(), 0);
    }
}
