//! The newest committed image of every block that is not at home yet, and whose it is.
//!
//! An entry names its transaction by number only. Who replaces or removes entries learns their
//! transactions, and lowers their counters in one go ([`crate::records`]); the images come along,
//! to be freed where nobody waits.
//!
//! Locking: one map shard ([`Rank::Checkpoint`]) at a time. What a commit or a checkpoint does to
//! many blocks it does shard by shard, and it looks for all blocks of a shard before it changes
//! any: entries of a long queue lie in memory and not in a cache, and are fetched side by side so.

use crate::Image;
use crate::newest::Newest;
use uext4_format::{BlockNr, Tid};
use uext4_sync::{Mutex, Rank, stretch_shard};

const SHARDS: usize = 64;
/// Neighbours that share a shard: they are committed and brought home one after the other.
const STRETCH_BITS: u32 = 6;

/// A block to bring home, if its newest image is of this transaction.
pub(crate) type Wanted = (BlockNr, Tid);

/// What no longer waits to go home.
#[derive(Default)]
pub(crate) struct Retired {
    /// Of each image the transaction.
    pub(crate) owners: Vec<Tid>,
    images: Vec<Image>,
}

impl Retired {
    fn with_capacity(blocks: usize) -> Self {
        Self {
            owners: Vec::with_capacity(blocks),
            images: Vec::with_capacity(blocks),
        }
    }
    fn add(&mut self, (image, owner): (Image, Tid)) {
        self.owners.push(owner);
        self.images.push(image);
    }
}

fn shard_of(block: BlockNr) -> usize {
    stretch_shard::<STRETCH_BITS>(block.0, SHARDS)
}

/// Places of the list in an order in which blocks of one shard follow each other, and blocks of
/// equal shards keep their order. Few blocks rarely meet in a shard: they stay as they are.
fn shard_order(blocks: impl ExactSizeIterator<Item = BlockNr>) -> Vec<u32> {
    if blocks.len() < SHARDS {
        return (0..blocks.len() as u32).collect();
    }
    let shards: Vec<u8> = blocks.map(|block| shard_of(block) as u8).collect();
    let mut next = [0u32; SHARDS];
    shards.iter().for_each(|nr| next[usize::from(*nr)] += 1);
    let mut sum = 0;
    for count in &mut next {
        (sum, *count) = (sum + *count, sum);
    }
    let mut order = vec![0; shards.len()];
    for (place, nr) in (0..).zip(shards) {
        let next = &mut next[usize::from(nr)];
        order[*next as usize] = place;
        *next += 1;
    }
    order
}

pub(crate) struct Images {
    shards: Box<[Mutex<Newest>]>,
}

impl Images {
    pub(crate) fn new() -> Self {
        let shard = |_| Mutex::new(Rank::Checkpoint, Newest::default());
        Self {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    fn shard(&self, block: BlockNr) -> &Mutex<Newest> {
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
        let shard = self.shard(block).lock();
        shard.get(block).map(|(image, _)| image.clone())
    }

    /// The newest images of these ascending blocks, where they are of the transactions named.
    pub(crate) fn newest_of(&self, wanted: &[Wanted]) -> Vec<(BlockNr, Image)> {
        let mut found: Vec<Option<Image>> = vec![None; wanted.len()];
        let nr = |place: u32| wanted[place as usize].0;
        self.by_shard(wanted.len(), nr, |shard, places| {
            for place in places.iter().map(|place| *place as usize) {
                let (block, tid) = wanted[place];
                let newest = shard.get(block).filter(|(_, owner)| *owner == tid);
                found[place] = newest.map(|(image, _)| image.clone());
            }
        });
        let mut newest = Vec::with_capacity(wanted.len());
        for ((block, _), image) in wanted.iter().zip(found) {
            newest.extend(image.map(|image| (*block, image)));
        }
        newest
    }

    /// These images, one per block and all that `tid` committed, are now the newest.
    pub(crate) fn insert(&self, images: Vec<(BlockNr, Image)>, tid: Tid) -> Retired {
        let mut retired = Retired::with_capacity(images.len());
        let mut images: Vec<(BlockNr, Option<Image>)> = images
            .into_iter()
            .map(|(block, image)| (block, Some(image)))
            .collect();
        let blocks: Vec<BlockNr> = images.iter().map(|(block, _)| *block).collect();
        self.by_shard(
            blocks.len(),
            |place| blocks[place as usize],
            |shard, places| {
                for place in places {
                    let (block, image) = &mut images[*place as usize];
                    let image = image.take().expect("every place comes once");
                    if let Some(old) = shard.insert(*block, image, tid) {
                        retired.add(old);
                    }
                }
            },
        );
        retired
    }

    /// These images of ascending blocks were written home: they are forgotten unless there are
    /// newer ones.
    pub(crate) fn written(&self, images: &[(BlockNr, Image)]) -> Retired {
        let mut retired = Retired::with_capacity(images.len());
        let nr = |place: u32| images[place as usize].0;
        self.by_shard(images.len(), nr, |shard, places| {
            for (block, image) in places.iter().map(|place| &images[*place as usize]) {
                let removed = shard.remove_if(*block, |newest| Image::ptr_eq(newest, image));
                removed.into_iter().for_each(|old| retired.add(old));
            }
        });
        retired
    }

    /// Hands out the places of a list of `len` blocks shard by shard, with the shard locked. `nr`
    /// tells the block of a place.
    fn by_shard(
        &self,
        len: usize,
        nr: impl Fn(u32) -> BlockNr,
        mut work: impl FnMut(&mut Newest, &[u32]),
    ) {
        let order = shard_order((0..len as u32).map(&nr));
        let same = |a: &u32, b: &u32| shard_of(nr(*a)) == shard_of(nr(*b));
        for places in order.chunk_by(same) {
            let shard = &mut *self.shard(nr(places[0])).lock();
            shard.fetch(places.iter().map(|place| nr(*place)));
            work(shard, places);
        }
    }

    /// True when some image of `block` waits for its home write.
    pub(crate) fn contains(&self, block: BlockNr) -> bool {
        self.shard(block).lock().get(block).is_some()
    }

    /// These blocks were freed: no image of them must go home.
    pub(crate) fn revoke(&self, blocks: &[BlockNr]) -> Retired {
        let mut retired = Retired::default();
        for block in blocks {
            let removed = self.shard(*block).lock().remove_if(*block, |_| true);
            removed.into_iter().for_each(|old| retired.add(old));
        }
        retired
    }
}
