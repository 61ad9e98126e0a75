//! The cached mappings of one file, by logical block.
//!
//! Invariants: entries do not overlap; contiguous neighbours are merged. Each entry agrees with the
//! map on disk.

use super::Mapping;
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_format::BlockNr;
use uext4_format::extent::{ExtentState, LOGICAL_BLOCKS};
use uext4_num::clamp_u32;
use uext4_sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeState {
    Hole,
    Mapped { start: BlockNr, state: ExtentState },
}

impl RangeState {
    /// The kind `skip` blocks further on.
    fn advanced(self, skip: u32) -> Self {
        match self {
            RangeState::Hole => RangeState::Hole,
            RangeState::Mapped { start, state } => RangeState::Mapped {
                start: BlockNr(start.0 + u64::from(skip)),
                state,
            },
        }
    }
}

struct Entry {
    len_blocks: u32,
    kind: RangeState,
    /// Looked up since the shrinker's last scan.
    referenced: AtomicBool,
}

impl Entry {
    fn new(kind: RangeState, len_blocks: u32) -> Self {
        Self {
            len_blocks,
            kind,
            referenced: AtomicBool::new(false),
        }
    }

    fn end(&self, first: u32) -> u64 {
        u64::from(first) + u64::from(self.len_blocks)
    }
}

/// Result of one scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scanned {
    pub(super) scanned: usize,
    /// Of these, entries dropped.
    pub(super) dropped: usize,
}

/// The entries of one file.
#[derive(Default)]
pub(super) struct Tree {
    entries: BTreeMap<u32, Entry>,
    /// Start of the next scan.
    resume: u32,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The cached mapping from `at` on.
    pub(super) fn find(&self, at: u32) -> Option<Mapping> {
        let (&first, entry) = self.entries.range(..=at).next_back()?;
        let skip = at - first;
        let len_blocks = entry
            .len_blocks
            .checked_sub(skip)
            .filter(|left| *left > 0)?;
        if !entry.referenced.load(Ordering::Relaxed) {
            entry.referenced.store(true, Ordering::Relaxed);
        }
        Some(match entry.kind.advanced(skip) {
            RangeState::Hole => Mapping::Hole { len_blocks },
            RangeState::Mapped { start, state } => Mapping::Mapped {
                start,
                len_blocks,
                state,
            },
        })
    }

    /// Caches the mapping at `at`, and replaces older entries of these blocks.
    pub(super) fn insert(&mut self, at: u32, found: Mapping) {
        let (kind, len_blocks) = match found {
            Mapping::Hole { len_blocks } => (RangeState::Hole, len_blocks),
            Mapping::Mapped {
                start,
                len_blocks,
                state,
            } => (RangeState::Mapped { start, state }, len_blocks),
        };
        self.remove(u64::from(at)..u64::from(at) + u64::from(len_blocks));
        let (first, entry) = self.joined_left(at, Entry::new(kind, len_blocks));
        let entry = self.joined_right(first, entry);
        self.entries.insert(first, entry);
    }

    fn joined_left(&mut self, at: u32, entry: Entry) -> (u32, Entry) {
        let left = self.entries.range(..at).next_back();
        let joined = left.and_then(|(&first, left)| {
            let meets = left.end(first) == u64::from(at);
            let continues = left.kind.advanced(left.len_blocks) == entry.kind;
            let len_blocks = left.len_blocks.checked_add(entry.len_blocks)?;
            (meets && continues).then(|| (first, Entry::new(left.kind, len_blocks)))
        });
        // The caller inserts at `first` again, and replaces the left entry.
        joined.unwrap_or((at, entry))
    }

    fn joined_right(&mut self, first: u32, entry: Entry) -> Entry {
        let Ok(next) = u32::try_from(entry.end(first)) else {
            return entry;
        };
        let joined = self.entries.get(&next).and_then(|right| {
            let continues = entry.kind.advanced(entry.len_blocks) == right.kind;
            let len_blocks = entry.len_blocks.checked_add(right.len_blocks)?;
            continues.then(|| Entry::new(entry.kind, len_blocks))
        });
        if joined.is_some() {
            self.entries.remove(&next);
        }
        joined.unwrap_or(entry)
    }

    /// Invalidates the blocks of `range`.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        let Some(last) = range.end.min(LOGICAL_BLOCKS).checked_sub(1) else {
            return;
        };
        while let Some((&first, entry)) = self.entries.range(..=clamp_u32(last)).next_back() {
            if entry.end(first) <= range.start || range.is_empty() {
                break;
            }
            self.cut(first, &range);
        }
    }

    /// Replaces the entry at `first` by its parts outside `range`.
    fn cut(&mut self, first: u32, range: &Range<u64>) {
        let Some(entry) = self.entries.remove(&first) else {
            return;
        };
        let end = entry.end(first);
        if u64::from(first) < range.start {
            // Fits, because it is shorter than the entry was.
            let len_blocks = clamp_u32(range.start - u64::from(first));
            self.entries
                .insert(first, Entry::new(entry.kind, len_blocks));
        }
        if end > range.end {
            let skip = clamp_u32(range.end - u64::from(first));
            let kind = entry.kind.advanced(skip);
            self.entries.insert(
                clamp_u32(range.end),
                Entry::new(kind, entry.len_blocks - skip),
            );
        }
    }

    /// Scans up to `max` entries from the end of the last scan on, and drops those without a lookup
    /// since the scan before.
    pub(super) fn scan(&mut self, max: usize) -> Scanned {
        let mut idle = Vec::new();
        let mut scanned = 0;
        let mut resume = 0;
        for (&first, entry) in self.entries.range_mut(self.resume..) {
            if scanned == max {
                resume = first;
                break;
            }
            scanned += 1;
            if !std::mem::take(entry.referenced.get_mut()) {
                idle.push(first);
            }
        }
        for first in &idle {
            self.entries.remove(first);
        }
        self.resume = resume;
        Scanned {
            scanned,
            dropped: idle.len(),
        }
    }

    /// Drops up to `max` entries from the start of the file.
    pub(super) fn drop_first(&mut self, max: usize) {
        for _ in 0..max {
            self.entries.pop_first();
        }
    }

    /// Whether the last scan reached the end of the file.
    pub(super) fn was_scanned_to_end(&self) -> bool {
        self.resume == 0
    }
}
