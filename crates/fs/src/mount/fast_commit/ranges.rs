//! Combines the range records of one file.

use std::collections::BTreeMap;
use uext4_format::BlockNr;
use uext4_format::extent::ExtentState;

/// Final location of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// First block on the device.
    pub(super) start: BlockNr,
    /// Whether the blocks hold data.
    pub(super) state: ExtentState,
}

/// A range of a file that records cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First logical block of the piece.
    pub(super) start: u64,
    /// Logical block after the last one.
    pub(super) end: u64,
    /// The final mapping; `None`: a hole.
    pub(super) target: Option<Target>,
}

impl Piece {
    /// The part between two of its blocks.
    pub(super) fn part(&self, start: u64, end: u64) -> Piece {
        let into = start - self.start;
        Piece {
            start,
            end,
            target: self.target.map(|target| Target {
                start: BlockNr(target.start.0 + into),
                ..target
            }),
        }
    }
}

/// Disjoint pieces by their start; a later record wins over an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    pieces: BTreeMap<u64, Piece>,
}

impl Ranges {
    /// Adds the next record's piece.
    pub(super) fn set(&mut self, new: Piece) {
        if new.start >= new.end {
            return;
        }
        let before = self.pieces.range(..new.start).next_back();
        let first = before.map_or(new.start, |(start, _)| *start);
        let met: Vec<Piece> = self
            .pieces
            .range(first..new.end)
            .map(|(_, piece)| *piece)
            .collect();
        for old in met.into_iter().filter(|old| old.end > new.start) {
            self.pieces.remove(&old.start);
            if old.start < new.start {
                self.pieces
                    .insert(old.start, old.part(old.start, new.start));
            }
            if old.end > new.end {
                self.pieces.insert(new.end, old.part(new.end, old.end));
            }
        }
        self.pieces.insert(new.start, new);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 40;

    proptest! {
        #[test]
        fn pieces_say_what_block_by_block_bookkeeping_says(
            edits in prop::collection::vec((0..BLOCKS, 0..12u64, any::<bool>()), 0..20)
        ) {
            let mut ranges = Ranges::default();
            let mut model = vec![None; BLOCKS as usize + 12];
            for (nr, (start, len, maps)) in edits.into_iter().enumerate() {
                let device = 1000 * (nr as u64 + 1);
                let state = ExtentState::Written;
                let target = maps.then_some(Target { start: BlockNr(device), state });
                ranges.set(Piece { start, end: start + len, target });
                for into in 0..len {
                    model[(start + into) as usize] = Some(maps.then_some(device + into));
                }
            }
            let mut found = vec![None; model.len()];
            for piece in ranges.iter() {
                for at in piece.start..piece.end {
                    prop_assert_eq!(found[at as usize], None);
                    let block = piece.target.map(|target| target.start.0 + at - piece.start);
                    found[at as usize] = Some(block);
                }
            }
            prop_assert_eq!(found, model);
        }
    }
}
