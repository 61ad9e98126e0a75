//! Number of streams in each range of groups, so that a stream that needs space avoids the others
//! without asking each of them.
//!
//! Layout: counts of neighbouring ranges share cache lines. A count is written only when a stream
//! moves, and read only when one needs another range, so the lines are rarely written.
//! Invariants: the sum of all counts is the number of threads with a stream. Counts are exact while
//! no stream moves.

use uext4_format::GroupNr;
use uext4_num::usize_of;
use uext4_sync::CachePadded;
use uext4_sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};

/// Minimum groups per stream for which threads avoid the groups of other streams.
const GROUPS_PER_STREAM: u32 = 4;

/// Streams for each range of groups.
pub(super) struct Streams {
    groups_per_range: u32,
    counts: Box<[AtomicU16]>,
    /// Number of threads with a stream, in all ranges.
    threads: CachePadded<AtomicU32>,
}

impl Streams {
    pub(super) fn new(groups: u32, groups_per_range: u32) -> Self {
        let ranges = groups.div_ceil(groups_per_range);
        Self {
            groups_per_range,
            counts: (0..ranges).map(|_| AtomicU16::new(0)).collect(),
            threads: AtomicU32::new(0).into(),
        }
    }

    fn range_of(&self, group: GroupNr) -> usize {
        usize_of(group.0 / self.groups_per_range)
    }

    /// Notes that a thread's streams moved from one group, or began.
    pub(super) fn moved(&self, from: Option<GroupNr>, to: GroupNr) {
        let (from, to) = (from.map(|group| self.range_of(group)), self.range_of(to));
        if from == Some(to) {
            return;
        }
        self.counts[to].fetch_add(1, Relaxed);
        match from {
            Some(from) => _ = self.counts[from].fetch_sub(1, Relaxed),
            None => _ = self.threads.fetch_add(1, Relaxed),
        }
    }

    /// The streams beside one in `mine`; `None` if there are none, or too many for `end` groups.
    pub(super) fn others(&self, mine: Option<GroupNr>, end: u32) -> Option<Others<'_>> {
        let threads = self.threads.load(Relaxed);
        let others = threads.saturating_sub(u32::from(mine.is_some()));
        let are_apart = others > 0 && threads <= end / GROUPS_PER_STREAM;
        are_apart.then(|| Others {
            streams: self,
            mine: mine.map(|group| self.range_of(group)),
        })
    }
}

/// Streams of other threads.
pub(crate) struct Others<'a> {
    streams: &'a Streams,
    mine: Option<usize>,
}

impl Others<'_> {
    /// Whether another thread's stream is in the range of this group.
    pub(crate) fn are_near(&self, group: GroupNr) -> bool {
        let range = self.streams.range_of(group);
        let mine = u16::from(self.mine == Some(range));
        self.streams.counts[range].load(Relaxed) > mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_in_the_range_where_it_moved_last() {
        let streams = Streams::new(100, 4);
        let (first, second) = (GroupNr(3), GroupNr(40));
        streams.moved(None, first);
        assert!(streams.others(Some(first), 100).is_none(), "it is alone");
        streams.moved(None, second);
        streams.moved(Some(first), GroupNr(42));
        let others = streams.others(Some(second), 100).expect("one");
        assert!(others.are_near(GroupNr(43)) && !others.are_near(first));
        streams.moved(Some(GroupNr(42)), GroupNr(99));
        assert!(!others.are_near(second), "its own");
        assert!(others.are_near(GroupNr(96)));
        assert!(streams.others(None, 7).is_none(), "too many for 7 groups");
    }
}
