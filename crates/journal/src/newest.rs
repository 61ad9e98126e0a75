//! A table from blocks to their newest committed images.
//!
//! Layout: open addressing with linear probing, at most half full. Four neighbours have four slots
//! in a row, which are two lines of a cache. So a block costs one line that is far away, and
//! [`Newest::fetch`] asks for those of many blocks at once: nothing it does depends on what it
//! loads, and the processor has as many loads under way as it can.
//!
//! Not here: keys that an attacker chooses. Block numbers have a range.

use crate::Image;
use uext4_format::{BlockNr, Tid};

/// No block has this number: it would end behind the last byte that a device can have.
const VACANT: BlockNr = BlockNr(u64::MAX);
/// Neighbours side by side.
const ROW: usize = 4;
const LEAST: usize = 16;
/// Odd, and not what chooses the shard.
const MIX: u64 = 0xD6E8_FEB8_6659_FD93;

/// Half a line of a cache, and never in two.
#[repr(align(32))]
struct Slot {
    block: BlockNr,
    owner: Tid,
    /// There, if the slot is not vacant.
    image: Option<Image>,
}

impl Slot {
    const fn vacant() -> Self {
        let (owner, image) = (Tid(0), None);
        Self {
            block: VACANT,
            owner,
            image,
        }
    }

    fn take(&mut self) -> Option<(Image, Tid)> {
        let slot = std::mem::replace(self, Self::vacant());
        slot.image.map(|image| (image, slot.owner))
    }
}

/// The table. Its length is a power of two, or 0.
#[derive(Default)]
pub(crate) struct Newest {
    slots: Vec<Slot>,
    len: usize,
}

impl Newest {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Brings what these blocks need near, so that asking for one after the other does not wait
    /// for memory each time.
    pub(crate) fn fetch(&self, blocks: impl Iterator<Item = BlockNr>) {
        if !self.slots.is_empty() {
            let first = |block| self.slots[self.home(block)].block.0;
            std::hint::black_box(blocks.map(first).fold(0, |sum, nr| sum ^ nr));
        }
    }

    pub(crate) fn get(&self, block: BlockNr) -> Option<(&Image, Tid)> {
        let slot = &self.slots[self.find(block).ok()?];
        slot.image.as_ref().map(|image| (image, slot.owner))
    }

    /// Puts the image in; answers the one before.
    pub(crate) fn insert(
        &mut self,
        block: BlockNr,
        image: Image,
        owner: Tid,
    ) -> Option<(Image, Tid)> {
        if self.slots.len() < 2 * (self.len + 1) {
            self.grow();
        }
        let at = self.find(block).unwrap_or_else(|vacant| {
            self.len += 1;
            vacant
        });
        let slot = Slot {
            block,
            owner,
            image: Some(image),
        };
        std::mem::replace(&mut self.slots[at], slot).take()
    }

    /// Takes the image out if `check` says yes to it.
    pub(crate) fn remove_if(
        &mut self,
        block: BlockNr,
        check: impl FnOnce(&Image) -> bool,
    ) -> Option<(Image, Tid)> {
        let at = self.find(block).ok()?;
        if !self.slots[at].image.as_ref().is_some_and(check) {
            return None;
        }
        let removed = self.slots[at].take();
        self.len -= 1;
        self.close_gap(at);
        removed
    }

    /// Where the probe for `block` begins.
    fn home(&self, block: BlockNr) -> usize {
        let row = (block.0 / ROW as u64).wrapping_mul(MIX) >> 32;
        (row as usize * ROW + (block.0 % ROW as u64) as usize) & (self.slots.len() - 1)
    }

    /// The slot of `block`, or the vacant one where it would stand.
    fn find(&self, block: BlockNr) -> Result<usize, usize> {
        if self.slots.is_empty() {
            return Err(0);
        }
        let mut at = self.home(block);
        loop {
            match self.slots[at].block {
                found if found == block => return Ok(at),
                VACANT => return Err(at),
                _ => at = self.after(at),
            }
        }
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// A slot became vacant: whoever stands behind it because it was not moves up.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut at = self.after(gap);
        while self.slots[at].block != VACANT {
            let home = self.home(self.slots[at].block);
            let from_home = at.wrapping_sub(home) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.slots.swap(gap, at);
                gap = at;
            }
            at = self.after(at);
        }
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(LEAST);
        let vacant = std::iter::repeat_with(Slot::vacant);
        let old = std::mem::replace(&mut self.slots, vacant.take(len).collect());
        for slot in old.into_iter().filter(|slot| slot.block != VACANT) {
            let (Ok(at) | Err(at)) = self.find(slot.block);
            self.slots[at] = slot;
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
        let (mut table, mut plain) = (Newest::default(), HashMap::new());
        for step in 0..60_000u32 {
            let block = BlockNr(rng.below(300) + (rng.below(3) << 40));
            let image = &images[step as usize % images.len()];
            // Grows for a while, then shrinks, and so on.
            if rng.below(10) < 4 + u64::from(step / 10_000 % 2) * 2 {
                let old = table.insert(block, image.clone(), Tid(step));
                assert_eq!(old, plain.insert(block, (image.clone(), Tid(step))));
            } else {
                let is_there = plain.get(&block).is_some_and(|(there, _)| there == image);
                let old = is_there.then(|| plain.remove(&block)).flatten();
                assert_eq!(table.remove_if(block, |there| there == image), old);
            }
            let found = table.get(block).map(|(image, tid)| (image.clone(), tid));
            assert_eq!(found.as_ref(), plain.get(&block), "step {step}");
            assert_eq!(table.len(), plain.len());
        }
        let of_table = |block: &BlockNr| table.get(*block).map(|(image, tid)| (image.clone(), tid));
        assert!(
            plain
                .iter()
                .all(|(block, there)| of_table(block).as_ref() == Some(there))
        );
    }
}
