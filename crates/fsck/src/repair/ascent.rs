//! Order of extents from a damaged map.

use uext4_format::extent::Extent;
use uext4_num::clamp_u16;

/// The most extents that ascend; where two overlap, the end of the first is cut off.
pub(super) fn in_order(mut extents: Vec<Extent>) -> Vec<Extent> {
    if !extents.is_sorted_by(|a, b| a.logical < b.logical) {
        let keys: Vec<u32> = extents.iter().map(|extent| extent.logical.0).collect();
        let kept = longest_ascent(&keys);
        extents = kept
            .iter()
            .filter_map(|at| extents.get(*at).copied())
            .collect();
    }
    let mut next = None;
    for extent in extents.iter_mut().rev() {
        let end = next.map_or(u64::MAX, u64::from);
        let len = end.saturating_sub(extent.logical.0.into());
        extent.len = extent.len.min(clamp_u16(len));
        next = Some(extent.logical.0);
    }
    extents
}

/// The positions of the longest strictly ascending sequence of keys.
fn longest_ascent(keys: &[u32]) -> Vec<usize> {
    // The last position of a sequence of each length, with the smallest key there.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(keys.len());
    for (at, key) in keys.iter().enumerate() {
        let len = tails.partition_point(|tail| keys.get(*tail).is_some_and(|last| last < key));
        before.push(len.checked_sub(1).and_then(|last| tails.get(last).copied()));
        match tails.get_mut(len) {
            Some(tail) => *tail = at,
            None => tails.push(at),
        }
    }
    let mut ascent = Vec::with_capacity(tails.len());
    let mut next = tails.last().copied();
    while let Some(at) = next {
        ascent.push(at);
        next = before.get(at).copied().flatten();
    }
    ascent.reverse();
    ascent
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::extent::ExtentState;
    use uext4_format::{BlockNr, LogicalBlock};

    fn extents(all: &[(u32, u16)]) -> Vec<Extent> {
        let extent = |(logical, len): &(u32, u16)| Extent {
            logical: LogicalBlock(*logical),
            start: BlockNr(1000 + u64::from(*logical)),
            len: *len,
            state: ExtentState::Written,
        };
        all.iter().map(extent).collect()
    }

    #[test]
    fn one_extent_out_of_order_is_left_out() {
        let sound = [(0, 5), (5, 5), (20, 5)];
        assert_eq!(in_order(extents(&sound)), extents(&sound));
        for wrong in [(3_000_000, 5), (0, 5)] {
            let all = [(0, 5), (5, 5), wrong, (20, 5), (30, 5)];
            let kept = [(0, 5), (5, 5), (20, 5), (30, 5)];
            assert_eq!(in_order(extents(&all)), extents(&kept), "{wrong:?}");
        }
        let first = [(900, 5), (5, 5), (20, 5)];
        assert_eq!(in_order(extents(&first)), extents(&[(5, 5), (20, 5)]));
    }

    #[test]
    fn an_extent_ends_where_the_next_begins() {
        let all = [(0, 500), (5, 5), (7, 30_000)];
        assert_eq!(
            in_order(extents(&all)),
            extents(&[(0, 5), (5, 2), (7, 30_000)])
        );
        assert_eq!(in_order(Vec::new()), []);
    }
}
