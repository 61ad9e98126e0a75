//! Draft: a block image of the committing transaction under construction from patches.
//!
//! Invariants: each patch is copied once, to its final place; `filled` holds the ranges written so
//! far. The remaining bytes come from the block's present image after all objects are rendered.

use crate::Image;
use std::ops::Range;
use uext4_format::BlockNr;

/// One block image under construction.
pub(crate) struct Draft {
    pub(crate) block: BlockNr,
    image: Image,
    /// Ranges written so far: ascending, with a gap between any two.
    filled: Vec<Range<usize>>,
    /// The block came as a whole image, not as patches.
    is_one: bool,
}

impl Draft {
    /// A draft without any byte.
    pub(crate) fn blank(block: BlockNr, block_bytes: usize) -> Self {
        Self {
            block,
            image: std::iter::repeat_n(0, block_bytes).collect(),
            filled: Vec::new(),
            is_one: false,
        }
    }

    /// A draft from a whole image.
    pub(crate) fn whole(block: BlockNr, image: Image) -> Self {
        let filled = std::iter::once(0..image.len()).collect();
        Self {
            block,
            image,
            filled,
            is_one: true,
        }
    }

    /// Puts `bytes` at `offset`; they replace earlier bytes.
    pub(crate) fn patch(&mut self, offset: usize, bytes: &[u8]) {
        let place = offset..offset + bytes.len();
        Image::make_mut(&mut self.image)[place.clone()].copy_from_slice(bytes);
        self.mark_filled(place);
    }

    fn mark_filled(&mut self, mut new: Range<usize>) {
        let from = self.filled.partition_point(|range| range.end < new.start);
        let met = &self.filled[from..];
        let met = &met[..met.partition_point(|range| range.start <= new.end)];
        for range in met {
            new = new.start.min(range.start)..new.end.max(range.end);
        }
        let until = from + met.len();
        self.filled.splice(from..until, [new]);
    }

    /// No byte is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.filled.first() == Some(&(0..self.image.len()))
    }

    /// Whether the block belongs to a table (inodes, descriptors, the superblock). Tables come as
    /// patches and name blocks that come whole; no other block names a table.
    pub(crate) fn is_table(&self) -> bool {
        !self.is_one
    }

    /// Fills the bytes without a patch from `present`, the block's present image.
    pub(crate) fn fill(&mut self, present: &[u8]) {
        let image = Image::make_mut(&mut self.image);
        let mut from = 0;
        for range in self.filled.drain(..) {
            image[from..range.start].copy_from_slice(&present[from..range.start]);
            from = range.end;
        }
        image[from..].copy_from_slice(&present[from..]);
        self.filled.push(0..image.len());
    }

    /// The finished image, for the log and for the home write.
    pub(crate) fn into_image(self) -> (BlockNr, Image) {
        debug_assert!(self.is_whole(), "what no patch reached is filled");
        (self.block, self.image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_sync::Rng;

    const BYTES: usize = 64;

    /// Compares with a plain copy of the block: overlapping patches in any order, and whole images.
    #[test]
    fn later_patches_win_and_gaps_keep_what_was_there() {
        let mut rng = Rng::new(11);
        for round in 0..2000 {
            let present: Vec<u8> = (0..BYTES as u8).collect();
            let mut plain = present.clone();
            let mut draft = Draft::blank(BlockNr(7), BYTES);
            let mut reached = [false; BYTES];
            for nr in 0..rng.below(12) {
                let from = rng.below(BYTES as u64) as usize;
                let len = rng.below((BYTES - from) as u64 + 1) as usize;
                let bytes = vec![100 + nr as u8; len];
                if rng.below(12) == 0 {
                    let image = Image::from([99; BYTES].as_slice());
                    draft = Draft::whole(BlockNr(7), image);
                    (plain, reached) = (vec![99; BYTES], [true; BYTES]);
                }
                draft.patch(from, &bytes);
                plain[from..from + len].copy_from_slice(&bytes);
                reached[from..from + len].fill(true);
            }
            assert_eq!(draft.is_whole(), !reached.contains(&false), "{round}");
            draft.fill(&present);
            assert_eq!(draft.into_image(), (BlockNr(7), plain.into()), "{round}");
        }
    }

    #[test]
    fn an_image_that_others_share_stays_as_it_is() {
        let shared = Image::from([1; BYTES].as_slice());
        let mut draft = Draft::whole(BlockNr(7), shared.clone());
        draft.patch(3, &[2]);
        assert_eq!(shared[3], 1);
        assert_eq!(draft.into_image().1[3], 2);
    }
}
