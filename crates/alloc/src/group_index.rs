//! Groups by order, as bitmaps of group numbers in atomic words.
//!
//! Used twice: by largest free order and by average free run. A reader walks `[start, end)` upward
//! over all orders of interest, then `[0, start)`, so placement stays near the goal. No list, lock
//! or allocation is needed. All entries are hints; the group itself decides.
//!
//! Invariant: under a group's lock exactly the bit of its order is set (none when it has none).

use uext4_format::GroupNr;
use uext4_num::usize_of;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) struct OrderIndex {
    words: Box<[AtomicU64]>,
    words_per_order: usize,
    groups: u32,
}

impl OrderIndex {
    pub(crate) fn new(orders: u32, groups: u32) -> Self {
        let words_per_order = usize_of(groups.div_ceil(64));
        let words = (0..words_per_order * usize_of(orders))
            .map(|_| AtomicU64::new(0))
            .collect();
        Self {
            words,
            words_per_order,
            groups,
        }
    }

    fn word(&self, order: u32, group: u32) -> &AtomicU64 {
        &self.words[usize_of(order) * self.words_per_order + usize_of(group / 64)]
    }

    /// Moves a group from one order to another. The caller holds the group's lock.
    pub(crate) fn change(&self, group: GroupNr, from: Option<u32>, to: Option<u32>) {
        if from == to {
            return;
        }
        let bit = 1 << (group.0 % 64);
        if let Some(order) = from {
            self.word(order, group.0).fetch_and(!bit, Relaxed);
        }
        if let Some(order) = to {
            self.word(order, group.0).fetch_or(bit, Relaxed);
        }
    }

    /// First group of this order in `[from, to)`.
    pub(crate) fn next(&self, order: u32, from: u32, to: u32) -> Option<GroupNr> {
        let to = to.min(self.groups);
        let mut at = from;
        while at < to {
            let word = self.word(order, at).load(Relaxed) & (!0 << (at % 64));
            if word != 0 {
                let group = at / 64 * 64 + word.trailing_zeros();
                return (group < to).then_some(GroupNr(group));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Groups of this order.
    pub(crate) fn count(&self, order: u32) -> u32 {
        let from = usize_of(order) * self.words_per_order;
        let words = &self.words[from..from + self.words_per_order];
        words
            .iter()
            .map(|word| word.load(Relaxed).count_ones())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_upward_inside_the_range() {
        let index = OrderIndex::new(3, 200);
        for group in [3, 70, 199] {
            index.change(GroupNr(group), None, Some(1));
        }
        assert_eq!(index.next(1, 4, 200), Some(GroupNr(70)));
        assert_eq!(index.next(1, 71, 199), None);
        assert_eq!(index.next(1, 71, 200), Some(GroupNr(199)));
        assert_eq!(index.next(2, 0, 200), None);
        index.change(GroupNr(70), Some(1), Some(2));
        assert_eq!((index.count(1), index.count(2)), (2, 1));
        assert_eq!(index.next(1, 4, 200), Some(GroupNr(199)));
    }
}
