//! Baseline of the shrinker, for experiments: least recently used files first, as in older ext4.
//!
//! There is one list. A call sorts it by the last use of each file while all others wait for it,
//! then scans files from their start until it has dropped enough entries, used or not.

use super::shrinker::{ExtentStatus, Round};
use super::{FileStatus, Left};
use uext4_num::nonnegative;
use uext4_sync::atomic::Ordering::{Relaxed, Release};

/// Order in which the shrinker goes through files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// In turns, in several lists.
    Round,
    /// By last use, in one sorted list.
    ByUse,
}

impl Order {
    /// Number of lists, `usual` but for the baseline.
    pub(super) fn lists(self, usual: usize) -> usize {
        match self {
            Self::Round => usual,
            Self::ByUse => 1,
        }
    }
}

impl FileStatus {
    /// Notes a use, if the shrinker asks for it.
    pub(super) fn mark_used(&self) {
        if self.all.order == Order::ByUse {
            let now = self.all.clock.wall();
            let ms = nonnegative(now.seconds) * 1000 + u64::from(now.nanoseconds / 1_000_000);
            self.used_at.store(ms, Relaxed);
        }
    }

    /// Drops up to `max` entries from the start of the file; `None` if the tree is locked.
    fn drop_first(&self, max: usize) -> Option<(usize, Left)> {
        let mut tree = self.tree.try_write()?;
        let before = tree.len();
        tree.drop_first(max);
        let dropped = before - tree.len();
        self.all.count(before, tree.len());
        if tree.len() > 0 {
            return Some((dropped, Left::Again));
        }
        self.listed.store(false, Release);
        Some((dropped, Left::Nothing))
    }
}

impl ExtentStatus {
    /// Sorts all files, and drops entries of the least recently used ones.
    pub(super) fn go_by_use(&self, max: usize) -> Round {
        let mut round = Round::new(max);
        let mut files = self.sort();
        while round.left > 0 && files > 0 {
            let Some(next) = self.lists[0].lock().files.pop_front() else {
                break;
            };
            files -= 1;
            let Some(file) = next.upgrade() else {
                continue;
            };
            round.last = file.nr;
            let (dropped, left) = file.drop_first(round.left).unwrap_or((0, Left::Again));
            round.left -= dropped;
            round.dropped += dropped;
            if left != Left::Nothing {
                self.lists[0].lock().files.push_back(next);
            }
        }
        round
    }

    /// Sorts the list; returns its length.
    fn sort(&self) -> usize {
        let mut list = self.lists[0].lock();
        // Uses go on meanwhile: each time is read once.
        let files = list.files.make_contiguous();
        files.sort_by_cached_key(|file| {
            file.upgrade()
                .as_deref()
                .map(|file| (file.used_at.load(Relaxed), file.nr))
        });
        files.len()
    }
}
