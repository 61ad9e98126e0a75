//! Rows of neighbouring blocks with their newest committed images.
//!
//! Layout: a row has a slot for each of its blocks, side by side, so blocks that lie together on
//! the disk are found together here, and a block that is far away costs what its row's place in a
//! small map and one slot cost. [`Newest::fetch`] asks for those of many blocks at once: nothing it
//! does depends on what it loads from a slot, and the processor has as many loads under way as it
//! can. A row goes when its last image does.

use crate::Image;
use std::ops::Range;
use uext4_format::{BlockNr, Tid};
use uext4_sync::StretchMap;

/// Blocks of a row, as a power of two.
pub(crate) const ROW_BITS: u32 = 6;
const ROW: usize = 1 << ROW_BITS;

/// An image, and the transaction that committed it.
pub(crate) type Entry = (Image, Tid);

/// Half a line of a cache, and never in two.
#[repr(align(32))]
struct Slot {
    image: Option<Image>,
    /// Whose the image is, if there is one.
    owner: Tid,
}

/// Neighbours.
pub(crate) struct Row {
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

    pub(crate) fn get(&self, block: BlockNr) -> Option<(&Image, Tid)> {
        let slot = &self.slots[place(block)];
        slot.image.as_ref().map(|image| (image, slot.owner))
    }

    /// Puts the image in; answers the one before.
    pub(crate) fn put(&mut self, block: BlockNr, image: Image, owner: Tid) -> Option<Entry> {
        let slot = &mut self.slots[place(block)];
        let image = Some(image);
        let old = std::mem::replace(slot, Slot { image, owner });
        if old.image.is_none() {
            self.held += 1; // not else: it is far from the slot
        }
        old.image.map(|image| (image, old.owner))
    }

    /// Takes the image out if `check` says yes to it.
    pub(crate) fn take_if(
        &mut self,
        block: BlockNr,
        check: impl FnOnce(&Image) -> bool,
    ) -> Option<Entry> {
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

/// A block's row: its first block.
pub(crate) fn row_of(block: BlockNr) -> BlockNr {
    BlockNr(block.0 & !(ROW as u64 - 1))
}

/// All rows that hold something.
#[derive(Default)]
pub(crate) struct Newest {
    rows: StretchMap<BlockNr, Box<Row>, 0>,
}

impl Newest {
    /// Images held; looks at each row.
    pub(crate) fn len(&self) -> usize {
        self.rows.values().map(|row| row.held).sum()
    }

    /// Brings the slots near of the blocks `nr` at these places, each part of them in one row, so
    /// that asking for one after the other does not wait for memory each time.
    pub(crate) fn fetch(
        &self,
        parts: impl Iterator<Item = (BlockNr, Range<usize>)>,
        nr: impl Fn(usize) -> BlockNr,
    ) {
        // Each loop asks for what all blocks need next, and waits for none of it.
        let row = |(first, places)| Some((self.row(first)?, places));
        let rows: Vec<(&Row, Range<usize>)> = parts.filter_map(row).collect();
        let mut slots: Vec<&Slot> = Vec::new();
        for (row, places) in rows {
            slots.extend(places.map(|at| &row.slots[place(nr(at))]));
        }
        std::hint::black_box(slots.iter().fold(0, |sum, slot| sum ^ slot.owner.0));
    }

    /// The row of a block, if it holds anything.
    pub(crate) fn row(&self, block: BlockNr) -> Option<&Row> {
        self.rows.get(&row_of(block)).map(|row| &**row)
    }

    /// The row of a block, to put something in.
    pub(crate) fn row_to_fill(&mut self, block: BlockNr) -> &mut Row {
        self.rows.entry(row_of(block)).or_insert_with(Row::new)
    }

    /// Lets `work` take images out of the row of a block, if it holds any.
    pub(crate) fn take_from(&mut self, block: BlockNr, work: impl FnOnce(&mut Row)) {
        let Some(row) = self.rows.get_mut(&row_of(block)) else {
            return;
        };
        work(row);
        if row.held == 0 {
            self.rows.remove(&row_of(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use uext4_sync::Rng;

    /// Against a plain map, with blocks that crowd: neighbours, and far ones.
    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let mut rng = Rng::new(7);
        let images: Vec<Image> = (0..9u8).map(|nr| Image::from([nr].as_slice())).collect();
        let (mut newest, mut plain) = (Newest::default(), HashMap::new());
        for step in 0..60_000u32 {
            let block = BlockNr(rng.below(300) + (rng.below(3) << 40));
            let image = &images[step as usize % images.len()];
            // Grows for a while, then shrinks, and so on.
            if rng.below(10) < 4 + u64::from(step / 10_000 % 2) * 2 {
                let row = newest.row_to_fill(block);
                let old = row.put(block, image.clone(), Tid(step));
                assert_eq!(old, plain.insert(block, (image.clone(), Tid(step))));
            } else {
                let is_there = plain.get(&block).is_some_and(|(there, _)| there == image);
                let old = is_there.then(|| plain.remove(&block)).flatten();
                let mut taken = None;
                newest.take_from(block, |row| {
                    taken = row.take_if(block, |there| there == image)
                });
                assert_eq!(taken, old);
            }
            let found = newest.row(block).and_then(|row| row.get(block));
            let found = found.map(|(image, tid)| (image.clone(), tid));
            assert_eq!(found.as_ref(), plain.get(&block), "step {step}");
            assert_eq!(newest.len(), plain.len());
        }
        for (block, entry) in plain {
            let mut taken = None;
            newest.take_from(block, |row| taken = row.take_if(block, |_| true));
            assert_eq!(taken, Some(entry));
        }
        assert!(newest.rows.is_empty(), "rows that hold nothing go");
    }
}
