//! Sequence-validated copy of a directory's index: lookups find a leaf without locks or counters.
//!
//! Layout: the copies of root and nodes are indexed by logical block; an entry is one word, hash in
//! the upper half, block in the lower.
//! Invariants: a reader that no change overlaps ([`SequenceCount`]) saw one whole structure, that
//! of number `structure`. Copies of nodes carry a generation; those of an earlier one are ignored.
//! Only nodes of a validated structure are copied.
//! Locking: `Rank::CacheShard` to change it; readers take nothing.

use super::near;
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_format::hash::HashVersion;
use uext4_format::htree::{DxEntry, DxNode, RootInfo};
use uext4_journal::Image;
use uext4_num::{clamp_usize, high_u32, low_u8, low_u32};
use uext4_sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use uext4_sync::{Mutex, OnceLock, Rank, Segments, SequenceCount, Version, VersionedLock};

/// Most copied roots and nodes. An index of 4 KiB blocks with a million leaves has more; lookups
/// read the others in their blocks.
const NODES_MAX: u64 = 1024;
/// Value of `structure` when nothing is copied.
const NOTHING: u64 = u64::MAX;
/// Bits of the entry count: a node of 64 KiB has 2^13 entries.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Copy of an index; see the module. Blocks from 2^(`SEGMENTS` - 1) on are not copied.
pub(crate) struct IndexCopy<const SEGMENTS: usize> {
    sequence: SequenceCount,
    /// [`Version::structure`] of the copied structure.
    structure: AtomicU64,
    generation: AtomicU64,
    /// Packed hash version and depth of the root.
    info: AtomicU64,
    nodes: Segments<OnceLock<NodeCopy>, SEGMENTS>,
    /// Number of allocated copies, of all generations.
    made: AtomicU64,
    change: Mutex<()>,
}

/// Copy of a root or node.
struct NodeCopy {
    /// The generation; in the lowest [`COUNT_BITS`] bits the number of entries.
    head: AtomicU64,
    entries: Box<[AtomicU64]>,
}

impl<const SEGMENTS: usize> Default for IndexCopy<SEGMENTS> {
    fn default() -> Self {
        Self {
            sequence: SequenceCount::new(),
            structure: AtomicU64::new(NOTHING),
            generation: AtomicU64::new(1),
            info: AtomicU64::new(0),
            nodes: Segments::default(),
            made: AtomicU64::new(0),
            change: Mutex::new(Rank::CacheShard, ()),
        }
    }
}

impl<const SEGMENTS: usize> IndexCopy<SEGMENTS> {
    /// The only leaf that may hold a name, in structure `version` of a directory of `blocks`
    /// blocks; `hash` computes the major hash of the name. `None` is a cache miss.
    pub(crate) fn leaf(
        &self,
        version: Version,
        blocks: u32,
        hash: impl FnOnce(HashVersion) -> u32,
    ) -> Option<LogicalBlock> {
        let before = self.sequence.sample();
        if before.is_changing() || !self.is_of(version) {
            return None;
        }
        let generation = self.generation.load(Acquire);
        let info = unpacked(self.info.load(Acquire))?;
        let major = hash(info.hash_version);
        let (mut place, mut from, mut next) = (LogicalBlock(0), 0, None);
        for _ in 0..=info.indirect_levels {
            let node = self.nodes.get(place.0)?.get()?;
            let (found, behind) = node.search(generation, major, from..next.unwrap_or(u32::MAX))?;
            if found.block.0 == 0 || found.block.0 >= blocks {
                return None;
            }
            (place, from, next) = (found.block, found.hash, behind.or(next));
        }
        let is_only = !next.is_some_and(|next| runs_on(next, major));
        (is_only && self.sequence.is_still(before)).then_some(place)
    }

    fn is_of(&self, version: Version) -> bool {
        self.structure.load(Acquire) == u64::from(version.structure())
    }

    /// Whether a root or node of this version is missing in the copy.
    pub(crate) fn lacks(&self, version: Version, place: LogicalBlock) -> bool {
        let node = || self.nodes.get(place.0)?.get();
        match node() {
            _ if !self.is_of(version) => true,
            Some(node) => node.count(self.generation.load(Acquire)).is_none(),
            None => self.made.load(Relaxed) < NODES_MAX,
        }
    }

    /// Adds roots and nodes of this version, whose root has `info`. Copies of other versions become
    /// invalid.
    pub(crate) fn put(&self, version: Version, info: RootInfo, nodes: &[(LogicalBlock, Image)]) {
        let _alone = self.change.lock();
        let is_other = !self.is_of(version);
        if is_other {
            self.sequence.begin();
            self.generation.fetch_add(1, Release);
            self.info.store(packed(info), Release);
        }
        let generation = self.generation.load(Relaxed);
        for (place, bytes) in nodes {
            let node = view(*place, bytes);
            if let Some(copy) = self.node_or_new(*place, node.limit())
                && copy.count(generation).is_none()
            {
                copy.set(generation, &node);
            }
        }
        if is_other {
            self.structure.store(version.structure().into(), Release);
            self.sequence.end();
        }
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

    /// Ends the move in progress in `index`, which changed exactly these nodes.
    pub(crate) fn end_move(
        &self,
        index: &VersionedLock,
        nodes: impl IntoIterator<Item = (LogicalBlock, Image)>,
    ) {
        let _alone = self.change.lock();
        self.sequence.begin();
        let is_current = index.version().is_some_and(|now| self.is_of(now));
        let after = index.after_move().structure().into();
        let generation = self.generation.load(Relaxed);
        for (place, bytes) in nodes {
            let copy = self.nodes.get(place.0).and_then(OnceLock::get);
            if let Some(copy) = copy.filter(|copy| copy.count(generation).is_some()) {
                copy.set(generation, &view(place, &bytes));
            }
        }
        index.end_move();
        if is_current {
            self.structure.store(after, Release);
        }
        self.sequence.end();
    }

    /// Memory of the copies in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let copied = |node: &OnceLock<NodeCopy>| node.get().map_or(0, |node| node.entries.len());
        let bytes = |node| size_of_val(node) + copied(node) * size_of::<AtomicU64>();
        self.nodes.iter().map(bytes).sum()
    }

    /// Invalidates the copy until the next [`Self::put`].
    pub(crate) fn clear(&self) {
        let _alone = self.change.lock();
        self.sequence.begin();
        self.structure.store(NOTHING, Release);
        self.sequence.end();
    }
}

impl NodeCopy {
    fn new(limit: usize) -> Self {
        Self {
            head: AtomicU64::new(0),
            entries: (0..limit).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Number of entries, if they are of this generation.
    fn count(&self, generation: u64) -> Option<usize> {
        let head = self.head.load(Acquire);
        (head >> COUNT_BITS == generation).then_some(clamp_usize(head & COUNT_MASK))
    }

    /// The entry whose block holds the hash, and the hash of the next entry. `range` is the range
    /// of the node's hashes, for the interpolation.
    fn search(
        &self,
        generation: u64,
        major: u32,
        range: Range<u32>,
    ) -> Option<(DxEntry, Option<u32>)> {
        let entry = |word: &AtomicU64| {
            let word = word.load(Acquire);
            let (hash, block) = (high_u32(word), LogicalBlock(low_u32(word)));
            DxEntry { hash, block }
        };
        let entries = &self.entries[..self.count(generation)?];
        let (first, more) = entries.split_first()?;
        let guess = near::place_in(&range, major, more.len());
        let above = near::partition_point(more, guess, |word| entry(word).hash <= major);
        let found = above.checked_sub(1).map_or(first, |at| &more[at]);
        Some((entry(found), more.get(above).map(|word| entry(word).hash)))
    }

    /// Copies the node; unchanged words are not written, to keep their cache lines shared.
    fn set(&self, generation: u64, node: &DxNode<&[u8]>) {
        let mut count = 0;
        for (place, entry) in self.entries.iter().zip(node.entries()) {
            let word = u64::from(entry.hash) << 32 | u64::from(entry.block.0);
            if place.load(Relaxed) != word {
                place.store(word, Release);
            }
            count += 1;
        }
        self.head.store(generation << COUNT_BITS | count, Release);
    }
}

/// True when names of major hash `major` continue from the leaf before into that of hash `next`.
pub(crate) fn runs_on(next: u32, major: u32) -> bool {
    next & 1 == 1 && next & !1 == major & !1
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
        hash_version: HashVersion::from_code(low_u8(info))?,
        indirect_levels: low_u8(info >> 8),
    })
}
