//! Sequence-validated copy of a directory's index: lookups find a leaf without locks or counters.
//!
//! Layout: the copies of root and nodes are indexed by logical block; an entry is one word, hash in
//! the upper half, block in the lower.
//! Invariants: a reader that no change overlaps ([`SequenceCount`]) saw one whole structure, that
//! of number `structure`. Copies of nodes carry a generation; those of an earlier one are ignored.
//! Only nodes of a validated structure are copied. A copy may lack leaves that splits of this
//! structure have added: right links lead to them. Such nodes are listed, and copied again before
//! the structure gets another number.
//! Locking: `Rank::CacheShard` to change it; readers take nothing.
//!
//! Why nodes that lack leaves are copied again: for example, leaf 5 was split in structure 7, and
//! its right link to leaf 9 counts in structure 7 only. A merge elsewhere makes structure 8. If the
//! copy went on without leaf 9, a look-up of a name in leaf 9 would search leaf 5, find no link and
//! a valid version, and answer that the name is absent.
//!
//! Why nodes have a generation beside `structure`: for example, a thread with the lock closed
//! splits a leaf below node N, which sets no right link, and a look-up then copies the root and
//! node M. `structure` is current again; without the generation, look-ups would also read the old
//! copy of N, which lacks the new leaf.

use super::near;
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_format::hash::HashVersion;
use uext4_format::htree::{DxEntry, DxNode, RootInfo};
use uext4_journal::Image;
use uext4_num::{clamp_usize, high_u32, low_u8, low_u32, u64_of};
use uext4_sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use uext4_sync::{Mutex, OnceLock, Rank, Segments, SequenceCount, Version, VersionedLock};

/// Most copied roots and nodes. An index of 4 KiB blocks with a million leaves has more; lookups
/// read the others in their blocks.
const NODES_MAX: u64 = 1024;
/// Value of `structure` when nothing is copied.
const NOTHING: u64 = u64::MAX;
/// Splits of leaves below a node between two copies of it: a copy writes many cache lines, and a
/// right link costs a reader one more leaf.
const SPLITS_PER_COPY: u32 = 8;
/// Bits of the entry count: a node of 64 KiB has 2^13 entries.
const COUNT_BITS: u32 = 16;
/// Bit of the buffer in use, above the count.
const BUFFER_BITS: u32 = 1;
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
    /// The nodes above leaves that were split in this structure.
    change: Mutex<Vec<LogicalBlock>>,
}

/// Copy of a root or node, in two buffers: a new copy is written beside the one that is read.
///
/// A reader loads `head` again after its search. For example, it searches buffer 0; the next copy
/// goes to buffer 1, and the one after that to buffer 0, so it would mix entries of two states.
/// [`IndexCopy::renew`] copies only a node with more entries, so the head differs then.
struct NodeCopy {
    /// The generation, the buffer in use, and in the lowest [`COUNT_BITS`] bits the number of
    /// entries.
    head: AtomicU64,
    buffers: [Box<[AtomicU64]>; 2],
    /// Leaves below that were split so far.
    splits: AtomicU32,
}

/// Generation, buffer and number of entries, as packed in [`NodeCopy::head`].
#[derive(Clone, Copy)]
struct Head(u64);

impl Head {
    fn new(generation: u64, buffer: usize, count: u64) -> Self {
        let buffer = u64_of(buffer) << COUNT_BITS;
        Self(generation << (COUNT_BITS + BUFFER_BITS) | buffer | count)
    }

    fn buffer(self) -> usize {
        clamp_usize(self.0 >> COUNT_BITS & 1)
    }

    /// Number of entries, if they are of this generation.
    fn count(self, generation: u64) -> Option<usize> {
        let is_of = self.0 >> (COUNT_BITS + BUFFER_BITS) == generation;
        is_of.then_some(clamp_usize(self.0 & COUNT_MASK))
    }
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
            change: Mutex::new(Rank::CacheShard, Vec::new()),
        }
    }
}

impl<const SEGMENTS: usize> IndexCopy<SEGMENTS> {
    /// The only leaf that may hold a name, in structure `version` but for splits of the leaf, and
    /// the major hash of the name, which `hash` computes. `None` is a cache miss.
    pub(crate) fn leaf(
        &self,
        version: Version,
        hash: impl FnOnce(HashVersion) -> u32,
    ) -> Option<(LogicalBlock, u32)> {
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
            if found.block.0 == 0 {
                return None;
            }
            (place, from, next) = (found.block, found.hash, behind.or(next));
        }
        let is_only = !next.is_some_and(|next| runs_on(next, major));
        (is_only && self.sequence.is_still(before)).then_some((place, major))
    }

    /// Whether a change is in progress.
    pub(crate) fn is_changing(&self) -> bool {
        self.sequence.sample().is_changing()
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

    /// Notes that a leaf below a node was split; returns whether the node is to be copied again.
    /// The structure gets no other number meanwhile.
    pub(crate) fn record_split(&self, place: LogicalBlock) -> bool {
        let mut behind = self.change.lock();
        if !behind.contains(&place) {
            behind.push(place);
        }
        let copy = self.nodes.get(place.0).and_then(OnceLock::get);
        copy.is_some_and(|copy| {
            let splits = copy.splits.load(Relaxed).wrapping_add(1);
            copy.splits.store(splits, Relaxed);
            splits.is_multiple_of(SPLITS_PER_COPY)
        })
    }

    /// The nodes whose copies may lack leaves.
    pub(crate) fn behind(&self) -> Vec<LogicalBlock> {
        self.change.lock().clone()
    }

    /// Copies a node of `version` again.
    pub(crate) fn renew(
        &self,
        index: &VersionedLock,
        version: Version,
        (place, bytes): (LogicalBlock, &Image),
    ) {
        let _alone = self.change.lock();
        if !self.is_of(version) || !index.is_still(version) {
            return;
        }
        let (generation, node) = (self.generation.load(Relaxed), view(place, bytes));
        let copy = self.nodes.get(place.0).and_then(OnceLock::get);
        // Another thread may have copied a later state, with more leaves.
        if let Some(copy) = copy.filter(|copy| {
            let count = copy.count(generation);
            count.is_some_and(|count| node.entries().count() > count)
        }) {
            copy.set(generation, &node);
        }
    }

    /// Ends the move in progress in `index`, which changed exactly these nodes. Copies of nodes
    /// that lack leaves become invalid, unless they are among these.
    pub(crate) fn end_move(
        &self,
        index: &VersionedLock,
        nodes: impl IntoIterator<Item = (LogicalBlock, Image)>,
    ) {
        let mut behind = self.change.lock();
        let is_current = index.version().is_some_and(|now| self.is_of(now));
        let after = index.after_move().structure().into();
        let generation = self.generation.load(Relaxed);
        let copy = |place: LogicalBlock| self.nodes.get(place.0)?.get();
        let mut heads = Vec::new();
        for (place, bytes) in nodes {
            let copy = copy(place).filter(|copy| copy.count(generation).is_some());
            heads.extend(copy.map(|copy| (copy, copy.draft(generation, &view(place, &bytes)))));
            behind.retain(|other| *other != place);
        }
        self.sequence.begin();
        heads.iter().for_each(|(copy, head)| copy.publish(*head));
        behind.drain(..).filter_map(copy).for_each(NodeCopy::clear);
        index.end_move();
        if is_current {
            self.structure.store(after, Release);
        }
        self.sequence.end();
    }

    /// Memory of the copies in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let copies = self.nodes.iter().filter_map(|node| node.get());
        let words = copies
            .flat_map(|copy| &copy.buffers)
            .map(|words| words.len());
        let nodes = self.nodes.iter().map(size_of_val);
        nodes.sum::<usize>() + words.sum::<usize>() * size_of::<AtomicU64>()
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
        let buffer = || (0..limit).map(|_| AtomicU64::new(0)).collect();
        Self {
            head: AtomicU64::new(0),
            buffers: [buffer(), buffer()],
            splits: AtomicU32::new(0),
        }
    }

    fn head(&self) -> Head {
        Head(self.head.load(Acquire))
    }

    /// Number of entries, if they are of this generation.
    fn count(&self, generation: u64) -> Option<usize> {
        self.head().count(generation)
    }

    /// Makes the copy invalid; generations begin with 1.
    fn clear(&self) {
        self.head.store(0, Release);
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
        let head = self.head();
        let entries = &self.buffers[head.buffer()][..head.count(generation)?];
        let (first, more) = entries.split_first()?;
        let guess = near::interpolate(&range, major, more.len());
        let above = near::partition_point(more, guess, |word| entry(word).hash <= major);
        let found = above.checked_sub(1).map_or(first, |at| &more[at]);
        let found = (entry(found), more.get(above).map(|word| entry(word).hash));
        // The buffer may have been written again: each copy beside a reader has more entries.
        (self.head().0 == head.0).then_some(found)
    }

    fn set(&self, generation: u64, node: &DxNode<&[u8]>) {
        self.publish(self.draft(generation, node));
    }

    /// Copies the node into the other buffer; unchanged words are not written, to keep their cache
    /// lines shared.
    fn draft(&self, generation: u64, node: &DxNode<&[u8]>) -> Head {
        let buffer = 1 - self.head().buffer();
        let mut count = 0;
        for (place, entry) in self.buffers[buffer].iter().zip(node.entries()) {
            let word = u64::from(entry.hash) << 32 | u64::from(entry.block.0);
            if place.load(Relaxed) != word {
                place.store(word, Release);
            }
            count += 1;
        }
        Head::new(generation, buffer, count)
    }

    fn publish(&self, head: Head) {
        self.head.store(head.0, Release);
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
