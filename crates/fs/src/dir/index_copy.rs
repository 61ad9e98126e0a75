//! A copy of the index of one directory, which everybody goes through while one thread changes it:
//! a way to a leaf locks nothing, counts nothing and waits for nobody.
//!
//! Layout: the copies of root and nodes stand at the places that these have in the directory; an
//! entry is a word, the hash above the block.
//! Invariants: the copy shows one structure and says its number, or none while it changes; who
//! found the same number before and after saw that structure whole. Copies of nodes are of an era:
//! nothing that was copied in an earlier one is looked at. Nodes are those of a structure that was
//! sound when it was read.
//! Locking: `Rank::CacheShard` to change it; readers take nothing.
//! References: kernel documentation, `locking/seqlock`.

use super::index::runs_on;
use super::near;
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_format::hash::HashVersion;
use uext4_format::htree::{DxEntry, DxNode, RootInfo};
use uext4_journal::Image;
use uext4_sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use uext4_sync::{Mutex, OnceLock, Rank, Segments, Version, VersionedLock};

/// Roots and nodes that are copied at most; an index of 4 KiB blocks with a million leaves has
/// more, and its further nodes are read where they are.
const NODES_MAX: u64 = 1024;
/// What the copy shows while it changes.
const NOTHING: u64 = 0;
/// A node of 64 KiB has 2^13 entries.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// See the module. Blocks from 2^(`SEGMENTS` - 1) on are not copied.
pub(super) struct IndexCopy<const SEGMENTS: usize> {
    /// [`number`] of the structure.
    shown: AtomicU64,
    era: AtomicU64,
    /// What the root says beside its entries.
    info: AtomicU64,
    nodes: Segments<OnceLock<NodeCopy>, SEGMENTS>,
    /// How many there are, of whatever era.
    made: AtomicU64,
    change: Mutex<()>,
}

/// A root or node as it stood.
struct NodeCopy {
    /// The era, and in the last [`COUNT_BITS`] the number of entries.
    head: AtomicU64,
    entries: Box<[AtomicU64]>,
}

impl<const SEGMENTS: usize> Default for IndexCopy<SEGMENTS> {
    fn default() -> Self {
        Self {
            shown: AtomicU64::new(NOTHING),
            era: AtomicU64::new(1),
            info: AtomicU64::new(0),
            nodes: Segments::default(),
            made: AtomicU64::new(0),
            change: Mutex::new(Rank::CacheShard, ()),
        }
    }
}

impl<const SEGMENTS: usize> IndexCopy<SEGMENTS> {
    /// The only leaf that may hold a name, in the structure of `version` of a directory of so many
    /// blocks; `hash` is the major hash of the name. `None` says nothing.
    pub(super) fn leaf(
        &self,
        version: Version,
        blocks: u32,
        hash: impl FnOnce(HashVersion) -> u32,
    ) -> Option<LogicalBlock> {
        let is_shown = || self.shown.load(Acquire) == number(version);
        if !is_shown() {
            return None;
        }
        let (era, info) = (self.era.load(Acquire), unpacked(self.info.load(Acquire))?);
        let major = hash(info.hash_version);
        let (mut place, mut from, mut next) = (LogicalBlock(0), 0, None);
        for _ in 0..=info.indirect_levels {
            let node = self.nodes.get(place.0)?.get()?;
            let (found, behind) = node.search(era, major, from..next.unwrap_or(u32::MAX))?;
            if found.block.0 == 0 || found.block.0 >= blocks {
                return None;
            }
            (place, from, next) = (found.block, found.hash, behind.or(next));
        }
        let is_only = !next.is_some_and(|next| runs_on(next, major));
        (is_only && is_shown()).then_some(place)
    }

    /// Whether a root or node of this version is to be put in.
    pub(super) fn lacks(&self, version: Version, place: LogicalBlock) -> bool {
        let node = || self.nodes.get(place.0)?.get();
        match node() {
            _ if self.shown.load(Acquire) != number(version) => true,
            Some(node) => node.count(self.era.load(Acquire)).is_none(),
            None => self.made.load(Relaxed) < NODES_MAX,
        }
    }

    /// Roots and nodes of this version of the structure, whose root says `info`; nothing is known
    /// of other versions then.
    pub(super) fn put(&self, version: Version, info: RootInfo, nodes: &[(LogicalBlock, Image)]) {
        let _alone = self.change.lock();
        if self.shown.load(Relaxed) != number(version) {
            self.shown.store(NOTHING, Relaxed);
            self.era.fetch_add(1, Release);
            self.info.store(packed(info), Release);
        }
        let era = self.era.load(Relaxed);
        for (place, bytes) in nodes {
            let node = view(*place, bytes);
            if let Some(copy) = self.node_or_new(*place, node.limit())
                && copy.count(era).is_none()
            {
                copy.set(era, &node);
            }
        }
        self.shown.store(number(version), Release);
    }

    fn node_or_new(&self, place: LogicalBlock, limit: usize) -> Option<&NodeCopy> {
        let copy = self.nodes.get(place.0).and_then(OnceLock::get);
        if copy.is_some() || self.made.load(Relaxed) >= NODES_MAX {
            return copy;
        }
        let slot = self.nodes.get_or_make(place.0)?;
        self.made.fetch_add(1, Relaxed);
        Some(slot.get_or_init(|| NodeCopy::new(limit)))
    }

    /// Ends the move that goes on in `index`, after which the structure differs in these nodes
    /// alone.
    pub(super) fn end_move(
        &self,
        index: &VersionedLock,
        nodes: impl IntoIterator<Item = (LogicalBlock, Image)>,
    ) {
        let _alone = self.change.lock();
        let shown = self.shown.swap(NOTHING, Relaxed);
        let is_shown = index.version().is_some_and(|now| number(now) == shown);
        let (era, after) = (self.era.load(Relaxed), number(index.after_move()));
        for (place, bytes) in nodes {
            let copy = self.nodes.get(place.0).and_then(OnceLock::get);
            if let Some(copy) = copy.filter(|copy| copy.count(era).is_some()) {
                copy.set(era, &view(place, &bytes));
            }
        }
        index.end_move();
        self.shown
            .store(if is_shown { after } else { NOTHING }, Release);
    }

    /// Memory of the copies.
    pub(super) fn bytes(&self) -> usize {
        let copied = |node: &OnceLock<NodeCopy>| node.get().map_or(0, |node| node.entries.len());
        let bytes = |node| size_of_val(node) + copied(node) * size_of::<AtomicU64>();
        self.nodes.iter().map(bytes).sum()
    }

    /// Shows nothing until the next [`Self::put`].
    pub(super) fn clear(&self) {
        let _alone = self.change.lock();
        self.shown.store(NOTHING, Relaxed);
    }
}

impl NodeCopy {
    fn new(limit: usize) -> Self {
        Self {
            head: AtomicU64::new(0),
            entries: (0..limit).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Entries, if they are of this era.
    fn count(&self, era: u64) -> Option<usize> {
        let head = self.head.load(Acquire);
        (head >> COUNT_BITS == era).then_some((head & COUNT_MASK) as usize)
    }

    /// The entry whose block holds the hash, and the hash of the one behind it. The hashes of the
    /// node are about those of `range`.
    fn search(&self, era: u64, major: u32, range: Range<u32>) -> Option<(DxEntry, Option<u32>)> {
        let entry = |word: &AtomicU64| {
            let word = word.load(Acquire);
            let (hash, block) = ((word >> 32) as u32, LogicalBlock(word as u32));
            DxEntry { hash, block }
        };
        let entries = &self.entries[..self.count(era)?];
        let (first, more) = entries.split_first()?;
        let guess = near::place_in(&range, major, more.len());
        let above = near::partition_point(more, guess, |word| entry(word).hash <= major);
        let found = above.checked_sub(1).map_or(first, |at| &more[at]);
        Some((entry(found), more.get(above).map(|word| entry(word).hash)))
    }

    /// Makes it what the node is; lines of the copy that say so already are not written.
    fn set(&self, era: u64, node: &DxNode<&[u8]>) {
        let mut count = 0;
        for (place, entry) in self.entries.iter().zip(node.entries()) {
            let word = u64::from(entry.hash) << 32 | u64::from(entry.block.0);
            if place.load(Relaxed) != word {
                place.store(word, Release);
            }
            count += 1;
        }
        self.head.store(era << COUNT_BITS | count, Release);
    }
}

/// The number of the structure as [`IndexCopy::shown`] says it.
fn number(version: Version) -> u64 {
    version.structure() + 1
}

fn view(place: LogicalBlock, bytes: &[u8]) -> DxNode<&[u8]> {
    match place {
        LogicalBlock(0) => DxNode::root(bytes),
        _ => DxNode::node(bytes),
    }
}

fn packed(info: RootInfo) -> u64 {
    u64::from(info.indirect_levels) << 8 | u64::from(info.hash_version.code())
}

fn unpacked(info: u64) -> Option<RootInfo> {
    Some(RootInfo {
        hash_version: HashVersion::from_code(info as u8)?,
        indirect_levels: (info >> 8) as u8,
    })
}
