//! Stretches of neighbouring blocks with their newest committed images.
//!
//! Layout: a row has a slot for each of its blocks, side by side, so blocks that lie together on
//! the disk are found together here. A stretch knows its rows by place: only the first of its
//! blocks is looked for in a map, every further one costs what a slot costs that is far away.
//! [`Newest::fetch`] asks for the slots of many blocks at once: nothing it does depends on what it
//! loads from one, and the processor has as many loads under way as it can. A row goes when its
//! last image does, a stretch with its last row.

use crate::Image;
use uext4_format::{BlockNr, Tid};
use uext4_sync::StretchMap;

/// Blocks of a row.
const ROW: usize = 64;
/// Rows of a stretch: with more a single far block would take more memory, with fewer blocks that
/// lie apart would look more often into the map.
const ROWS: usize = 128;
/// Blocks of a stretch, as a power of two.
const STRETCH_BITS: u32 = (ROW * ROWS).ilog2();

/// An image, and the transaction that committed it.
pub(crate) type Entry = (Image, Tid);

/// Half a line of a cache, and never in two.
#[repr(align(32))]
struct Slot {
    image: Option<Image>,
    /// Whose the image is, if there is one.
    owner: Tid,
}

/// Close neighbours.
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
        let slot = &self.slots[place(block)];
        slot.image.as_ref().map(|image| (image, slot.owner))
    }

    fn put(&mut self, block: BlockNr, image: Image, owner: Tid) -> Option<Entry> {
        let slot = &mut self.slots[place(block)];
        let image = Some(image);
        let old = std::mem::replace(slot, Slot { image, owner });
        if old.image.is_none() {
            self.held += 1; // not else: it is far from the slot
        }
        old.image.map(|image| (image, old.owner))
    }

    fn take_if(&mut self, block: BlockNr, check: impl FnOnce(&Image) -> bool) -> Option<Entry> {
        let slot = &mut self.slots[place(block)];
        let image = slot.image.take_if(|image| check(image))?;
        self.held -= 1;
        Some((image, slot.owner))
    }
}

/// Where a block stands in its row.
fn place(block: BlockNr) -> usize {
    block.0 as usize % ROW
}

/// A block's stretch: its first block.
fn stretch_of(block: BlockNr) -> BlockNr {
    BlockNr(block.0 >> STRETCH_BITS << STRETCH_BITS)
}

/// Cuts a list of ascending blocks by stretches.
pub(crate) fn in_stretches<T>(
    list: &[T],
    nr: impl Fn(&T) -> BlockNr,
) -> impl Iterator<Item = &[T]> {
    list.chunk_by(move |a, b| stretch_of(nr(a)) == stretch_of(nr(b)))
}

/// Rows that follow each other.
pub(crate) struct Stretch {
    rows: [Option<Box<Row>>; ROWS],
    /// Rows that are there.
    held: usize,
}

impl Stretch {
    fn new() -> Box<Self> {
        Box::new(Self {
            rows: [const { None }; ROWS],
            held: 0,
        })
    }

    fn row(&self, block: BlockNr) -> Option<&Row> {
        self.rows[row_place(block)].as_deref()
    }

    /// The newest image of a block, and whose it is.
    pub(crate) fn get(&self, block: BlockNr) -> Option<(&Image, Tid)> {
        self.row(block)?.get(block)
    }

    /// Puts the image in; answers the one before.
    pub(crate) fn put(&mut self, block: BlockNr, image: Image, owner: Tid) -> Option<Entry> {
        let row = &mut self.rows[row_place(block)];
        if row.is_none() {
            self.held += 1;
        }
        row.get_or_insert_with(Row::new).put(block, image, owner)
    }

    /// Takes the image out if `check` says yes to it.
    pub(crate) fn take_if(
        &mut self,
        block: BlockNr,
        check: impl FnOnce(&Image) -> bool,
    ) -> Option<Entry> {
        let place = &mut self.rows[row_place(block)];
        let row = place.as_deref_mut()?;
        let taken = row.take_if(block, check);
        if row.held == 0 {
            *place = None;
            self.held -= 1;
        }
        taken
    }
}

/// Where a block's row stands in its stretch.
fn row_place(block: BlockNr) -> usize {
    block.0 as usize / ROW % ROWS
}

/// All stretches that hold something.
#[derive(Default)]
pub(crate) struct Newest {
    stretches: StretchMap<BlockNr, Box<Stretch>, 0>,
}

impl Newest {
    /// Images held; looks at each row.
    pub(crate) fn len(&self) -> usize {
        let rows = self.stretches.values().flat_map(|stretch| &stretch.rows);
        rows.flatten().map(|row| row.held).sum()
    }

    /// Brings the slots of these ascending blocks near, so that asking for one after the other does
    /// not wait for memory each time.
    pub(crate) fn fetch<T>(&self, list: &[T], nr: impl Fn(&T) -> BlockNr) {
        let mut sum = 0;
        for part in in_stretches(list, &nr) {
            let stretch = self.stretch(nr(&part[0]));
            let slot = |block| Some(&stretch?.row(block)?.slots[place(block)]);
            let slots = part.iter().filter_map(|one| slot(nr(one)));
            sum = slots.fold(sum, |sum, slot| sum ^ slot.owner.0);
        }
        std::hint::black_box(sum);
    }

    /// The stretch of a block, if it holds anything.
    pub(crate) fn stretch(&self, block: BlockNr) -> Option<&Stretch> {
        self.stretches
            .get(&stretch_of(block))
            .map(|stretch| &**stretch)
    }

    /// The stretch of a block, to put something in.
    pub(crate) fn stretch_to_fill(&mut self, block: BlockNr) -> &mut Stretch {
        self.stretches
            .entry(stretch_of(block))
            .or_insert_with(Stretch::new)
    }

    /// Lets `work` take images out of the stretch of a block, if it holds any.
    pub(crate) fn take_from(&mut self, block: BlockNr, work: impl FnOnce(&mut Stretch)) {
        let Some(stretch) = self.stretches.get_mut(&stretch_of(block)) else {
            return;
        };
        work(stretch);
        if stretch.held == 0 {
            self.stretches.remove(&stretch_of(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use uext4_sync::Rng;

    /// Against a plain map, with blocks that crowd: neighbours, others not far, and far ones.
    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let mut rng = Rng::new(7);
        let images: Vec<Image> = (0..9u8).map(|nr| Image::from([nr].as_slice())).collect();
        let (mut newest, mut plain) = (Newest::default(), HashMap::new());
        for step in 0..60_000u32 {
            let block = BlockNr(rng.below(100) + (rng.below(3) << 13) + (rng.below(3) << 40));
            let image = &images[step as usize % images.len()];
            // Grows for a while, then shrinks, and so on.
            if rng.below(10) < 4 + u64::from(step / 10_000 % 2) * 2 {
                let stretch = newest.stretch_to_fill(block);
                let old = stretch.put(block, image.clone(), Tid(step));
                assert_eq!(old, plain.insert(block, (image.clone(), Tid(step))));
            } else {
                let is_there = plain.get(&block).is_some_and(|(there, _)| there == image);
                let old = is_there.then(|| plain.remove(&block)).flatten();
                let mut taken = None;
                newest.take_from(block, |stretch| {
                    taken = stretch.take_if(block, |there| there == image)
                });
                assert_eq!(taken, old);
            }
            let found = newest.stretch(block).and_then(|stretch| stretch.get(block));
            let found = found.map(|(image, tid)| (image.clone(), tid));
            assert_eq!(found.as_ref(), plain.get(&block), "step {step}");
            assert_eq!(newest.len(), plain.len());
        }
        for (block, entry) in plain {
            let mut taken = None;
            newest.take_from(block, |stretch| taken = stretch.take_if(block, |_| true));
            assert_eq!(taken, Some(entry));
        }
        assert!(
            newest.stretches.is_empty(),
            "stretches that hold nothing go"
        );
    }
}
