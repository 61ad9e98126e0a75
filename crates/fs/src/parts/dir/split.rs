//! Split point of a full leaf: half the bytes, not half the entries.

use smallvec::SmallVec;
use uext4_format::Corrupt;
use uext4_format::dirent::NewEntry;
use uext4_format::hash::{DirHash, DirHasher};

/// An entry to be placed in a leaf.
pub(super) struct Item<'a> {
    pub(super) hash: DirHash,
    pub(super) entry: NewEntry<'a>,
}

/// The entries of a leaf; those of a 4 KiB leaf are on the stack.
pub(super) type Items<'a> = SmallVec<[Item<'a>; 160]>;

/// Entries in the order of their hashes.
pub(super) fn sorted<'a>(
    hasher: &DirHasher,
    entries: impl Iterator<Item = Result<NewEntry<'a>, Corrupt>>,
) -> Result<Items<'a>, Corrupt> {
    let mut items = Items::new();
    for entry in entries {
        let entry = entry?;
        let hash = hasher.hash(entry.name);
        items.push(Item { hash, entry });
    }
    items.sort_unstable_by_key(|item| item.hash);
    Ok(items)
}

/// Bytes that the entries take in a leaf, without gaps.
pub(super) fn bytes_of(items: &[Item<'_>]) -> usize {
    items.iter().map(|item| item.entry.space_needed()).sum()
}

/// The split point: the number of items of the lower part, at least 1. Both parts fit `area_bytes`
/// and are as equal as possible; equal hashes stay together if that costs at most a quarter of a
/// leaf. `None` when no split point fits.
pub(super) fn cut(items: &[Item<'_>], area_bytes: usize) -> Option<usize> {
    let total = bytes_of(items);
    let mut lower = 0;
    let mut best: Option<(usize, usize)> = None;
    for (at, pair) in items.windows(2).enumerate() {
        lower += pair[0].entry.space_needed();
        let upper = total - lower;
        if lower > area_bytes || upper > area_bytes {
            continue;
        }
        let torn = pair[0].hash.major == pair[1].hash.major;
        let cost = lower.abs_diff(upper) + if torn { area_bytes / 4 } else { 0 };
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, at + 1));
        }
    }
    best.map(|(_, at)| at)
}

/// The hash of the upper part; its lowest bit is set when that hash began in the lower part.
pub(super) fn separator(items: &[Item<'_>], at: usize) -> u32 {
    let (before, first) = (items[at - 1].hash.major, items[at].hash.major);
    first | u32::from(before == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::InodeNr;
    use uext4_format::dirent::DirEntryType;

    fn items<'a>(list: &[(u32, &'a [u8])]) -> Vec<Item<'a>> {
        let item = |&(major, name): &(u32, &'a [u8])| Item {
            hash: DirHash { major, minor: 0 },
            entry: NewEntry {
                inode: InodeNr(12),
                name,
                kind: DirEntryType::Unknown,
            },
        };
        list.iter().map(item).collect()
    }

    #[test]
    fn halves_are_equal_in_bytes() {
        let long = [b'x'; 100];
        let list = items(&[(2, &long), (4, b"a"), (6, b"b"), (8, b"c")]);
        assert_eq!(cut(&list, 1024), Some(1));
        assert_eq!(separator(&list, 1), 4);
    }

    #[test]
    fn equal_hashes_stay_together_when_cheap_and_are_marked_otherwise() {
        let list = items(&[(2, b"a"), (4, b"b"), (4, b"c"), (4, b"d"), (6, b"e")]);
        let at = cut(&list, 1024).unwrap();
        assert!(at == 1 || at == 4, "{at}");
        let same = items(&[(4, &[b'x'; 250]), (4, &[b'y'; 250]), (4, &[b'z'; 250])]);
        let at = cut(&same, 600).unwrap();
        assert_eq!(separator(&same, at), 5);
    }

    #[test]
    fn no_cut_of_one_entry() {
        assert_eq!(cut(&items(&[(2, b"a")]), 1024), None);
    }
}
