//! Choice of the split point of a full leaf.

/// A split of a leaf whose entries are ordered by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSplit {
    /// Position of the first entry that moves to the new leaf.
    pub at: usize,
    /// The hash of the new leaf's entry in the index; bit 0 is set if the old leaf has names of the
    /// same hash.
    pub separator: u32,
}

/// Chooses the split of a leaf with these entries (major hash, bytes), sorted by hash: as near as
/// possible to half the bytes, and between different hashes if there are any. `None` for fewer than
/// two entries.
pub fn split_leaf(entries: &[(u32, usize)]) -> Option<LeafSplit> {
    let total: usize = entries.iter().map(|entry| entry.1).sum();
    let mut best: Option<(bool, usize, LeafSplit)> = None;
    let mut left = 0_usize;
    for (at, (before, after)) in entries.iter().zip(entries.iter().skip(1)).enumerate() {
        left = left.saturating_add(before.1);
        let continued = before.0 == after.0;
        let split = LeafSplit {
            at: at.saturating_add(1),
            separator: after.0 | u32::from(continued),
        };
        let cut = (continued, left.saturating_mul(2).abs_diff(total), split);
        if best.is_none_or(|best| (cut.0, cut.1) < (best.0, best.1)) {
            best = Some(cut);
        }
    }
    best.map(|best| best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_half_the_bytes() {
        let split = split_leaf(&[(2, 100), (4, 12), (6, 12), (8, 12), (10, 64)]);
        assert_eq!(
            split,
            Some(LeafSplit {
                at: 1,
                separator: 4
            })
        );
    }

    #[test]
    fn keeps_equal_hashes_together_where_it_can() {
        let split = split_leaf(&[(2, 12), (4, 12), (4, 12), (4, 12)]);
        assert_eq!(
            split,
            Some(LeafSplit {
                at: 1,
                separator: 4
            })
        );
        let split = split_leaf(&[(4, 12), (4, 12), (4, 12), (4, 12)]);
        assert_eq!(
            split,
            Some(LeafSplit {
                at: 2,
                separator: 5
            })
        );
        assert_eq!(split_leaf(&[(4, 12)]), None);
    }
}
