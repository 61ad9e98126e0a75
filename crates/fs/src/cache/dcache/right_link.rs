//! Right link of a directory leaf, as in a B-link tree: since its last split, names from a hash on
//! are in the leaf on its right.
//!
//! A split changes no version: a thread that reaches the old leaf by an entry of the index from
//! before the split finds the link.
//! Invariants: a link is set with its leaf locked exclusively, and holds until parts of the
//! structure move: it carries the number of the structure.
//! Locking: none to read.
//! References: Lehman and Yao, "Efficient locking for concurrent operations on B-trees" (1981).

use uext4_format::LogicalBlock;
use uext4_num::{high_u32, low_u32};
use uext4_sync::Version;
use uext4_sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The names of a split leaf that are in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// The first major hash of those names.
    pub(crate) hash: u32,
    pub(crate) leaf: LogicalBlock,
}

#[derive(Default)]
pub(super) struct RightLink {
    /// Number of the structure plus one; 0 without a link.
    structure: AtomicU64,
    /// Hash in the upper half, block in the lower.
    right: AtomicU64,
}

impl RightLink {
    /// The link in the structure of this version.
    pub(super) fn get(&self, version: Version) -> Option<Right> {
        let is_of = || self.structure.load(SeqCst) == mark_of(version);
        if !is_of() {
            return None;
        }
        let right = self.right.load(SeqCst);
        is_of().then_some(Right {
            hash: high_u32(right),
            leaf: LogicalBlock(low_u32(right)),
        })
    }

    /// Sets or removes the link.
    pub(super) fn set(&self, version: Version, right: Option<Right>) {
        let mark = mark_of(version);
        let Some(Right { hash, leaf }) = right else {
            return self.clear();
        };
        // No reader takes a link of one structure for one of another.
        if self.structure.load(SeqCst) != mark {
            self.clear();
        }
        let right = u64::from(hash) << 32 | u64::from(leaf.0);
        self.right.store(right, SeqCst);
        self.structure.store(mark, SeqCst);
    }

    pub(super) fn clear(&self) {
        if self.structure.load(SeqCst) != 0 {
            self.structure.store(0, SeqCst);
        }
    }
}

fn mark_of(version: Version) -> u64 {
    u64::from(version.structure()) + 1
}
