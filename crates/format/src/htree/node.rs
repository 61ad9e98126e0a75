//! The entries of a root or node, read and edited in place.

use super::{ENTRY_BYTES, NODE_START, ROOT_START};
use crate::bytes::{
    clear, get_u8, get_u16, get_u32, part, put_slice, put_u16, put_u32, rest, rest_mut, shift, upto,
};
use crate::dirent::{LeafTail, decode_rec_len, encode_rec_len};
use crate::{Corrupt, CorruptKind, DamageLocation, Full, Hex, LogicalBlock, Seed};
use std::ops::Range;
use uext4_num::{clamp_u16, clamp_u32};

/// The block numbers of entries have 28 bits; the others are reserved.
const BLOCK_MASK: u32 = 0x0FFF_FFFF;

/// An entry of an index node: hash and block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxEntry {
    /// The lowest major hash in the block; bit 0 is set if that hash began in the block before.
    pub hash: u32,
    /// Block of the directory: a node or a leaf.
    pub block: LogicalBlock,
}

/// A view of a root or node block.
#[derive(Clone, Copy, Debug)]
pub struct DxNode<B> {
    bytes: B,
    start: usize,
}

impl<B: AsRef<[u8]>> DxNode<B> {
    /// A view of a root block, without checks.
    pub fn root(bytes: B) -> Self {
        Self {
            bytes,
            start: ROOT_START,
        }
    }

    /// A view of a node block, without checks.
    pub fn node(bytes: B) -> Self {
        Self {
            bytes,
            start: NODE_START,
        }
    }

    /// A view of a root block whose information was checked ([`super::RootInfo::parse`]); checks
    /// the entries.
    pub fn parse_root(bytes: B, tail: LeafTail, place: DamageLocation) -> Result<Self, Corrupt> {
        let node = Self::root(bytes);
        node.validate(tail, place)?;
        Ok(node)
    }

    /// A view of a node block; checks it.
    pub fn parse_node(bytes: B, tail: LeafTail, place: DamageLocation) -> Result<Self, Corrupt> {
        let node = Self::node(bytes);
        let raw = node.raw();
        let hidden = decode_rec_len(get_u16(raw, 4), raw.len()) == raw.len();
        if get_u32(raw, 0) != 0 || !hidden || get_u8(raw, 6) != 0 {
            return Err(Corrupt::new(place, "htree node", CorruptKind::NodeRecord));
        }
        node.validate(tail, place)?;
        Ok(node)
    }

    fn raw(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    fn slot(&self, at: usize) -> usize {
        at.saturating_mul(ENTRY_BYTES).saturating_add(self.start)
    }

    /// The bytes of the slots of a range of entries.
    fn slots(&self, entries: Range<usize>) -> Range<usize> {
        self.slot(entries.start)..self.slot(entries.end)
    }

    /// Slots that a block with such a tail has.
    pub fn capacity(&self, tail: LeafTail) -> usize {
        let tail_bytes = if tail == LeafTail::Checksum {
            ENTRY_BYTES
        } else {
            0
        };
        rest(self.raw(), self.start)
            .len()
            .saturating_sub(tail_bytes)
            / ENTRY_BYTES
    }

    /// The number of slots that the node states; it may exceed the block.
    pub fn limit(&self) -> usize {
        usize::from(get_u16(self.raw(), self.start))
    }

    /// Entries, as stored; at least 1 in a sound block.
    pub fn count(&self) -> usize {
        usize::from(get_u16(rest(self.raw(), self.start), 2))
    }

    /// True when no slot is left.
    pub fn is_full(&self) -> bool {
        self.count() >= self.limit()
    }

    fn validate(&self, tail: LeafTail, place: DamageLocation) -> Result<(), Corrupt> {
        let bad = |problem| Err(Corrupt::new(place, "htree node", problem));
        if self.limit() != self.capacity(tail) {
            return bad(CorruptKind::Limit {
                found: clamp_u32(self.limit()),
                max: clamp_u32(self.capacity(tail)),
            });
        }
        if self.count() == 0 || self.count() > self.limit() {
            return bad(CorruptKind::NodeCount {
                count: clamp_u32(self.count()),
                limit: clamp_u32(self.limit()),
            });
        }
        let mut before = 0;
        for entry in self.entries().skip(1) {
            if entry.hash < before {
                return bad(CorruptKind::HashOrder {
                    hash: Hex(entry.hash),
                    before: Hex(before),
                });
            }
            before = entry.hash;
        }
        Ok(())
    }

    /// The entries as bytes, as many as the block has space for, whatever its count says.
    fn raw_entries(&self) -> &[[u8; ENTRY_BYTES]] {
        let (slots, _) = rest(self.raw(), self.start).as_chunks();
        slots.get(..self.count()).unwrap_or(slots)
    }

    /// Entry `at`; the first one has hash 0.
    pub fn entry(&self, at: usize) -> Option<DxEntry> {
        let raw = self.raw_entries().get(at)?;
        Some(decode(raw, at))
    }

    /// The entries in the order in which they are stored.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = DxEntry> + '_ {
        let entries = self.raw_entries().iter().enumerate();
        entries.map(|(at, raw)| decode(raw, at))
    }

    /// The entry whose block holds the first occurrence of `hash`: the last entry with a hash not
    /// above it.
    pub fn search(&self, hash: u32) -> usize {
        let after_first = self.raw_entries().split_first().map(|(_, others)| others);
        after_first
            .unwrap_or_default()
            .partition_point(|raw| get_u32(raw, 0) <= hash)
    }

    /// True if names of `hash` that began earlier may continue in the block of entry `at`.
    pub fn continues(&self, at: usize, hash: u32) -> bool {
        self.entry(at)
            .is_some_and(|entry| entry.hash & 1 == 1 && entry.hash & !1 == hash & !1)
    }

    /// The correct checksum: over everything up to the last used entry, the reserved word of the
    /// tail and a zero in place of the checksum. `seed` is the inode's.
    pub fn checksum(&self, seed: Seed) -> u32 {
        let raw = self.raw();
        let tail = rest(raw, self.slot(self.limit()));
        seed.update(upto(raw, self.slot(self.count())))
            .update(part(tail, 0..4))
            .update_u32(0)
            .value()
    }

    /// Compares the checksum in the tail; succeeds without a tail.
    pub fn verify_checksum(
        &self,
        seed: Seed,
        tail: LeafTail,
        place: DamageLocation,
    ) -> Result<(), Corrupt> {
        let bytes = rest(self.raw(), self.slot(self.limit()));
        if tail == LeafTail::None {
            return Ok(());
        }
        let bad = |problem| Err(Corrupt::new(place, "htree node", problem));
        if bytes.len() < ENTRY_BYTES {
            return bad(CorruptKind::ChecksumSpace);
        }
        let (stored, computed) = (get_u32(bytes, 4), self.checksum(seed));
        if stored != computed {
            return bad(CorruptKind::checksum(stored, computed));
        }
        Ok(())
    }
}

/// Entry `at` from its bytes.
fn decode(raw: &[u8; ENTRY_BYTES], at: usize) -> DxEntry {
    DxEntry {
        hash: if at == 0 { 0 } else { get_u32(raw, 0) },
        block: LogicalBlock(get_u32(raw, 4) & BLOCK_MASK),
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> DxNode<B> {
    /// Makes a node block with one entry for `child`. The caller writes the checksum.
    pub fn init_node(mut bytes: B, tail: LeafTail, child: LogicalBlock) -> Self {
        let raw = bytes.as_mut();
        raw.fill(0);
        let block_size = raw.len();
        put_u16(raw, 4, encode_rec_len(block_size, block_size));
        let mut node = Self::node(bytes);
        node.init_entries(tail, child);
        node
    }

    pub(super) fn init_entries(&mut self, tail: LeafTail, child: LogicalBlock) {
        let (start, limit) = (self.start, self.capacity(tail));
        let entries = rest_mut(self.bytes.as_mut(), start);
        put_u16(entries, 0, clamp_u16(limit));
        put_u16(entries, 2, 1);
        put_u32(entries, 4, child.0);
    }

    /// Gives the block the slots that it has with or without the space of a checksum; the caller
    /// writes the checksum. [`Full`], with nothing changed, if an entry is in the way.
    pub fn set_tail(&mut self, tail: LeafTail) -> Result<(), Full> {
        let limit = self.capacity(tail);
        if self.count() > limit {
            return Err(Full);
        }
        let (from, end) = (self.slot(self.limit().min(limit)), self.raw().len());
        clear(self.bytes.as_mut(), from..end);
        put_u16(
            rest_mut(self.bytes.as_mut(), self.start),
            0,
            clamp_u16(limit),
        );
        Ok(())
    }

    fn set_count(&mut self, count: usize) {
        debug_assert!((1..=self.limit()).contains(&count));
        put_u16(
            rest_mut(self.bytes.as_mut(), self.start),
            2,
            clamp_u16(count),
        );
    }

    /// Zeroes the entries from `count` on.
    fn truncate(&mut self, count: usize) {
        let gone = self.slots(count..self.count());
        clear(self.bytes.as_mut(), gone);
        self.set_count(count);
    }

    fn append(&mut self, raw: &[u8]) {
        let (count, end) = (self.count(), self.slot(self.count()));
        put_slice(self.bytes.as_mut(), end, raw);
        self.set_count(count.saturating_add(raw.len() / ENTRY_BYTES));
    }

    /// Points entry `at` to another block.
    pub fn set_block(&mut self, at: usize, block: LogicalBlock) {
        debug_assert!(at < self.count());
        let slot = self.slot(at);
        put_u32(rest_mut(self.bytes.as_mut(), slot), 4, block.0);
    }

    /// Changes the hash of entry `at`, which is not the first.
    pub fn set_hash(&mut self, at: usize, hash: u32) {
        debug_assert!((1..self.count()).contains(&at));
        let slot = self.slot(at);
        put_u32(self.bytes.as_mut(), slot, hash);
    }

    /// Inserts an entry at position `at` (1 or more: usually after the one that was split).
    pub fn insert(&mut self, at: usize, entry: DxEntry) -> Result<(), Full> {
        let count = self.count();
        let more = count.saturating_add(1);
        if at == 0 || at > count || self.is_full() || self.slot(more) > self.raw().len() {
            return Err(Full);
        }
        let (moved, to) = (self.slots(at..count), self.slot(at.saturating_add(1)));
        shift(self.bytes.as_mut(), moved, to);
        self.set_count(more);
        self.set_hash(at, entry.hash);
        self.set_block(at, entry.block);
        Ok(())
    }

    /// Removes entry `at`. If it is the first, the next one takes its place and loses its hash. The
    /// last remaining entry stays: a block without entries is not allowed.
    pub fn remove(&mut self, at: usize) {
        let count = self.count();
        if at >= count || count == 1 {
            return;
        }
        if at == 0 {
            let second = self.entry(1).map_or(LogicalBlock(0), |entry| entry.block);
            self.set_block(0, second);
            return self.remove(1);
        }
        let fewer = count.saturating_sub(1);
        let (moved, to) = (self.slots(at.saturating_add(1)..count), self.slot(at));
        shift(self.bytes.as_mut(), moved, to);
        self.truncate(fewer);
    }

    /// Moves the entries from `at` (1 or more) on into the new node `other`, and returns the hash
    /// that separates the two, for the parent's entry.
    pub fn split_to(&mut self, at: usize, other: &mut [u8], tail: LeafTail) -> Option<u32> {
        let count = self.count();
        let first = self.entry(at).filter(|_| at > 0)?;
        let mut right = DxNode::init_node(other, tail, first.block);
        right.append(part(self.raw(), self.slots(at.saturating_add(1)..count)));
        self.truncate(at);
        Some(first.hash)
    }

    /// Moves all entries of a root into the new node `child`, so that the root points to `block`
    /// only (the tree grows by a level; see [`super::RootInfo::set_indirect_levels`]).
    pub fn push_down(&mut self, child: &mut [u8], block: LogicalBlock, tail: LeafTail) {
        let count = self.count();
        let first = self.entry(0).map_or(LogicalBlock(0), |entry| entry.block);
        let mut below = DxNode::init_node(child, tail, first);
        below.append(part(self.raw(), self.slots(1..count)));
        self.truncate(1);
        self.set_block(0, block);
    }

    /// Writes the checksum. Only for blocks with a tail. `seed` is the inode's.
    pub fn update_checksum(&mut self, seed: Seed) {
        let (at, sum) = (self.slot(self.limit()), self.checksum(seed));
        put_u32(rest_mut(self.bytes.as_mut(), at), 4, sum);
    }
}
