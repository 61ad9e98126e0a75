//! Two-level table of the newest committed images, by block number.
//!
//! Layout: a hash map holds stripes of 8192 blocks; a stripe holds an array of rows, a row an array
//! of 64 slots. So neighbouring blocks have neighbouring slots, and a list of neighbours costs one
//! map lookup. A row is freed with its last image, a stripe with its last row.
//!
//! [`Newest::fetch`] prefetches the slots of many blocks: its loads do not depend on each other, so
//! the processor overlaps their cache misses.

use crate::Image;
use uext4_format::{BlockNr, Tid};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::StripeMap;

/// Blocks of a row.
const ROW: usize = 64;
/// Rows of a stripe: more would waste memory on a single far block, fewer would cost more map
/// lookups for scattered blocks.
const ROWS: usize = 128;
/// Blocks of a stripe, as a power of two.
const STRIPE_BITS: u32 = (ROW * ROWS).ilog2();

/// An image, and the transaction that committed it.
pub(crate) type Entry = (Image, Tid);

/// Half a cache line, aligned so that it is never split over two.
#[repr(align(32))]
struct Slot {
    image: Option<Image>,
    /// The transaction of the image, if there is one.
    owner: Tid,
}

/// Slots of neighbouring blocks.
struct Row {
    slots: [Slot; ROW],
    held: usize,
}

impl Row {
    fn new() -> Box<Self> {
        const VACANT: Slot = Slot {
            image: None,
            owner: Tid(0),
        };
        Box::new(Self {
            slots: [VACANT; ROW],
            held: 0,
        })
    }

    fn get(&self, block: BlockNr) -> Option<(&Image, Tid)> {
        let slot = &self.slots[slot_of(block)];
        slot.image.as_ref().map(|image| (image, slot.owner))
    }

    fn put(&mut self, block: BlockNr, image: Image, owner: Tid) -> Option<Entry> {
        let slot = &mut self.slots[slot_of(block)];
        let image = Some(image);
        let old = std::mem::replace(slot, Slot { image, owner });
        if old.image.is_none() {
            self.held += 1; // not else: it is far from the slot
        }
        old.image.map(|image| (image, old.owner))
    }

    fn take_if(&mut self, block: BlockNr, check: impl FnOnce(&Image) -> bool) -> Option<Entry> {
        let slot = &mut self.slots[slot_of(block)];
        let image = slot.image.take_if(|image| check(image))?;
        self.held -= 1;
        Some((image, slot.owner))
    }
}

/// Index of a block in its row.
fn slot_of(block: BlockNr) -> usize {
    clamp_usize(block.0 % u64_of(ROW))
}

/// The first block of a block's stripe.
fn stripe_of(block: BlockNr) -> BlockNr {
    BlockNr(block.0 >> STRIPE_BITS << STRIPE_BITS)
}

/// Cuts a list of ascending blocks by stripes.
pub(crate) fn in_stripes<T>(list: &[T], nr: impl Fn(&T) -> BlockNr) -> impl Iterator<Item = &[T]> {
    list.chunk_by(move |a, b| stripe_of(nr(a)) == stripe_of(nr(b)))
}

/// Consecutive rows of blocks, allocated at their first use.
pub(crate) struct Stripe {
    rows: [Option<Box<Row>>; ROWS],
    /// Number of allocated rows.
    held: usize,
}

impl Stripe {
    fn new() -> Box<Self> {
        Box::new(Self {
            rows: [const { None }; ROWS],
            held: 0,
        })
    }

    fn row(&self, block: BlockNr) -> Option<&Row> {
        self.rows[row_of(block)].as_deref()
    }

    /// The newest image of a block, and its transaction.
    pub(crate) fn get(&self, block: BlockNr) -> Option<(&Image, Tid)> {
        self.row(block)?.get(block)
    }

    /// Stores the image; returns the one it replaces.
    pub(crate) fn put(&mut self, block: BlockNr, image: Image, owner: Tid) -> Option<Entry> {
        let row = &mut self.rows[row_of(block)];
        if row.is_none() {
            self.held += 1;
        }
        row.get_or_insert_with(Row::new).put(block, image, owner)
    }

    /// Removes and returns the image if `check` accepts it.
    pub(crate) fn take_if(
        &mut self,
        block: BlockNr,
        check: impl FnOnce(&Image) -> bool,
    ) -> Option<Entry> {
        let slot = &mut self.rows[row_of(block)];
        let row = slot.as_deref_mut()?;
        let taken = row.take_if(block, check);
        if row.held == 0 {
            *slot = None;
            self.held -= 1;
        }
        taken
    }
}

/// Index of a block's row in its stripe.
fn row_of(block: BlockNr) -> usize {
    clamp_usize(block.0 / u64_of(ROW) % u64_of(ROWS))
}

/// All stripes with at least one image.
#[derive(Default)]
pub(crate) struct Newest {
    stripes: StripeMap<BlockNr, Box<Stripe>, 0>,
}

impl Newest {
    /// Number of images held; visits each row.
    pub(crate) fn len(&self) -> usize {
        let rows = self.stripes.values().flat_map(|stripe| &stripe.rows);
        rows.flatten().map(|row| row.held).sum()
    }

    /// Prefetches the slots of these ascending blocks, so that later lookups do not miss the cache
    /// one after the other.
    pub(crate) fn fetch<T>(&self, list: &[T], nr: impl Fn(&T) -> BlockNr) {
        let mut sum = 0;
        for part in in_stripes(list, &nr) {
            let stripe = self.stripe(nr(&part[0]));
            let slot = |block| Some(&stripe?.row(block)?.slots[slot_of(block)]);
            let slots = part.iter().filter_map(|one| slot(nr(one)));
            sum = slots.fold(sum, |sum, slot| sum ^ slot.owner.0);
        }
        std::hint::black_box(sum);
    }

    /// The stripe of a block, if it holds any image.
    pub(crate) fn stripe(&self, block: BlockNr) -> Option<&Stripe> {
        self.stripes.get(&stripe_of(block)).map(|stripe| &**stripe)
    }

    /// The stripe of a block, allocated if missing.
    pub(crate) fn stripe_to_fill(&mut self, block: BlockNr) -> &mut Stripe {
        self.stripes
            .entry(stripe_of(block))
            .or_insert_with(Stripe::new)
    }

    /// Lets `work` remove images from the stripe of a block, if there is one.
    pub(crate) fn take_from(&mut self, block: BlockNr, work: impl FnOnce(&mut Stripe)) {
        let Some(stripe) = self.stripes.get_mut(&stripe_of(block)) else {
            return;
        };
        work(stripe);
        if stripe.held == 0 {
            self.stripes.remove(&stripe_of(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use uext4_sync::Rng;

    /// Compares with a plain map, for blocks that are adjacent, near and far.
    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let mut rng = Rng::new(7);
        let images: Vec<Image> = (0..9u8).map(|nr| Image::from([nr].as_slice())).collect();
        let (mut newest, mut plain) = (Newest::default(), HashMap::new());
        for step in 0..60_000u32 {
            let block = BlockNr(rng.below(100) + (rng.below(3) << 13) + (rng.below(3) << 40));
            let image = &images[step as usize % images.len()];
            // Grows for 10000 steps, then shrinks, and so on.
            if rng.below(10) < 4 + u64::from(step / 10_000 % 2) * 2 {
                let stripe = newest.stripe_to_fill(block);
                let old = stripe.put(block, image.clone(), Tid(step));
                assert_eq!(old, plain.insert(block, (image.clone(), Tid(step))));
            } else {
                let is_there = plain.get(&block).is_some_and(|(there, _)| there == image);
                let old = is_there.then(|| plain.remove(&block)).flatten();
                let mut taken = None;
                newest.take_from(block, |stripe| {
                    taken = stripe.take_if(block, |there| there == image)
                });
                assert_eq!(taken, old);
            }
            let found = newest.stripe(block).and_then(|stripe| stripe.get(block));
            let found = found.map(|(image, tid)| (image.clone(), tid));
            assert_eq!(found.as_ref(), plain.get(&block), "step {step}");
            assert_eq!(newest.len(), plain.len());
        }
        for (block, entry) in plain {
            let mut taken = None;
            newest.take_from(block, |stripe| taken = stripe.take_if(block, |_| true));
            assert_eq!(taken, Some(entry));
        }
        assert!(newest.stripes.is_empty(), "empty parts go");
    }
}
