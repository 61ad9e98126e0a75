//! One node of an extent tree, read and edited in place.
//!
//! Reads never panic, whatever the bytes are; edits expect a node that passed
//! [`ExtentNode::validate`] or was made by [`ExtentNode::init_root`] / [`ExtentNode::init_block`].

use std::ops::Range;

use super::{ENTRY_BYTES, Extent, ExtentIndex, MAGIC, ROOT_BYTES, ROOT_CAPACITY, block_capacity};
use crate::bytes::{clear, get_u16, get_u32, part, put_slice, put_u16, put_u32, rest, shift, upto};
use crate::{Corrupt, CorruptKind, DamageLocation, Full, LogicalBlock, Seed};
use uext4_num::clamp_u16;

/// A view of the bytes of a node: `ExtentNode::new(&block[..])` to read, `&mut block[..]` to edit.
#[derive(Clone, Copy, Debug)]
pub struct ExtentNode<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> ExtentNode<B> {
    /// A view of `bytes`: 60 bytes are a root, anything else a block. Checks nothing.
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The magic number, as stored.
    pub fn magic(&self) -> u16 {
        get_u16(self.bytes(), 0)
    }

    /// Entries in use, as stored.
    pub fn count(&self) -> usize {
        usize::from(get_u16(self.bytes(), 2))
    }

    /// The number of slots that the header states; it may exceed the block.
    pub fn max(&self) -> usize {
        usize::from(get_u16(self.bytes(), 4))
    }

    /// Levels below this node; 0 is a leaf.
    pub fn depth(&self) -> u16 {
        get_u16(self.bytes(), 6)
    }

    /// The generation number (Lustre's); preserved.
    pub fn generation(&self) -> u32 {
        get_u32(self.bytes(), 8)
    }

    /// True when no entry is left.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// True when no slot is left.
    pub fn is_full(&self) -> bool {
        self.count() >= self.max()
    }

    /// True for the node in the inode.
    pub fn is_root(&self) -> bool {
        self.bytes().len() == ROOT_BYTES
    }

    /// Slots that the bytes have space for.
    pub fn capacity(&self) -> usize {
        (self.bytes().len() / ENTRY_BYTES).saturating_sub(1)
    }

    /// The entries as bytes, as many as the node has space for, whatever its count says.
    fn entries(&self) -> &[[u8; ENTRY_BYTES]] {
        let (slots, _) = rest(self.bytes(), ENTRY_BYTES).as_chunks();
        slots.get(..self.count()).unwrap_or(slots)
    }

    /// Entry `at` of a leaf.
    pub fn extent(&self, at: usize) -> Option<Extent> {
        self.entries().get(at).map(Extent::decode)
    }

    /// Entry `at` of an inner node.
    pub fn index(&self, at: usize) -> Option<ExtentIndex> {
        self.entries().get(at).map(ExtentIndex::decode)
    }

    /// The logical block that entry `at` starts with, in leaves and inner nodes.
    pub fn key(&self, at: usize) -> Option<LogicalBlock> {
        self.entries().get(at).map(key)
    }

    /// The entries of a leaf, in order.
    pub fn extents(&self) -> impl DoubleEndedIterator<Item = Extent> + '_ {
        self.entries().iter().map(Extent::decode)
    }

    /// The entries of an inner node, in order.
    pub fn indexes(&self) -> impl DoubleEndedIterator<Item = ExtentIndex> + '_ {
        self.entries().iter().map(ExtentIndex::decode)
    }

    /// The last entry that starts at or before `block`; `None` if all start after it.
    pub fn search(&self, block: LogicalBlock) -> Option<usize> {
        // Not `partition_point`: neighbouring blocks take the same branches, which are predicted.
        let entries = self.entries();
        let (mut low, mut high) = (0_usize, entries.len());
        while low < high {
            let middle = low.wrapping_add(high) / 2; // both are below 2^16
            match entries.get(middle) {
                Some(raw) if key(raw) <= block => low = middle.wrapping_add(1),
                _ => high = middle,
            }
        }
        low.checked_sub(1)
    }

    /// The extent of a leaf that maps `block`.
    pub fn find(&self, block: LogicalBlock) -> Option<(usize, Extent)> {
        let at = self.search(block)?;
        let extent = self.extent(at)?;
        extent.physical(block).map(|_| (at, extent))
    }

    /// The checksum that a block node should have: header and `eh_max` entries.
    /// `seed` is the inode's checksum seed.
    pub fn checksum(&self, seed: Seed) -> u32 {
        seed.update(upto(self.bytes(), slot(self.max()))).value()
    }

    /// Compares the tail with [`ExtentNode::checksum`].
    pub fn verify_checksum(&self, seed: Seed, place: DamageLocation) -> Result<(), Corrupt> {
        let tail = rest(self.bytes(), slot(self.max()));
        if tail.len() < 4 {
            return Err(Corrupt::new(
                place,
                "extent header",
                CorruptKind::ChecksumSpace,
            ));
        }
        let (stored, computed) = (get_u32(tail, 0), self.checksum(seed));
        if stored != computed {
            let problem = CorruptKind::checksum(stored, computed);
            return Err(Corrupt::new(place, "extent block", problem));
        }
        Ok(())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> ExtentNode<B> {
    /// Makes an empty root in the 60 bytes of `i_block`.
    pub fn init_root(bytes: B, depth: u16) -> Self {
        Self::init(bytes, depth, ROOT_CAPACITY)
    }

    /// Makes an empty node in a block; the caller writes the tail, if any
    /// ([`ExtentNode::update_checksum`]).
    pub fn init_block(bytes: B, depth: u16) -> Self {
        let max = block_capacity(bytes.as_ref().len());
        Self::init(bytes, depth, max)
    }

    fn init(mut bytes: B, depth: u16, max: u16) -> Self {
        let raw = bytes.as_mut();
        raw.fill(0);
        put_u16(raw, 0, MAGIC);
        put_u16(raw, 4, max);
        put_u16(raw, 6, depth);
        Self { bytes }
    }

    fn edit(&mut self) -> &mut [u8] {
        self.bytes.as_mut()
    }

    /// Sets the number of entries in use; at most [`ExtentNode::max`].
    pub fn set_count(&mut self, count: usize) {
        debug_assert!(count <= self.max());
        put_u16(self.edit(), 2, clamp_u16(count));
    }

    /// Changes the number of levels below (when the tree grows or shrinks at the root).
    pub fn set_depth(&mut self, depth: u16) {
        put_u16(self.edit(), 6, depth);
    }

    /// Writes `eh_generation`, which Linux does not use.
    pub fn set_generation(&mut self, generation: u32) {
        put_u32(self.edit(), 8, generation);
    }

    /// Overwrites entry `at` of a leaf.
    pub fn set_extent(&mut self, at: usize, extent: Extent) {
        debug_assert!(at < self.count());
        put_slice(self.edit(), slot(at), &extent.encode());
    }

    /// Changes only the first logical block of entry `at`.
    pub fn set_key(&mut self, at: usize, block: LogicalBlock) {
        debug_assert!(at < self.count());
        put_u32(self.edit(), slot(at), block.0);
    }

    /// Inserts an extent at position `at`, moving the later entries up.
    pub fn insert_extent(&mut self, at: usize, extent: Extent) -> Result<(), Full> {
        self.insert(at, extent.encode())
    }

    /// Inserts an index at position `at`, moving the later entries up.
    pub fn insert_index(&mut self, at: usize, index: ExtentIndex) -> Result<(), Full> {
        self.insert(at, index.encode())
    }

    fn insert(&mut self, at: usize, raw: [u8; ENTRY_BYTES]) -> Result<(), Full> {
        let count = self.count();
        if at > count || count >= self.max().min(self.capacity()) {
            return Err(Full);
        }
        let bytes = self.edit();
        shift(bytes, slots(at..count), slot(at.saturating_add(1)));
        put_slice(bytes, slot(at), &raw);
        self.set_count(count.saturating_add(1));
        Ok(())
    }

    /// Removes the entries of `range`, moving the later ones down. Freed slots are zeroed.
    pub fn remove(&mut self, range: Range<usize>) {
        let count = self.count().min(self.capacity());
        let end = range.end.min(count);
        if range.start >= end {
            return;
        }
        let bytes = self.edit();
        shift(bytes, slots(end..count), slot(range.start));
        let left = count.saturating_sub((range.start..end).len());
        clear(bytes, slots(left..count));
        self.set_count(left);
    }

    /// Moves the entries from `at` on to the end of `other` (a split). Needs the space there.
    pub fn move_tail_to<C>(&mut self, at: usize, other: &mut ExtentNode<C>) -> Result<(), Full>
    where
        C: AsRef<[u8]> + AsMut<[u8]>,
    {
        let count = self.count().min(self.capacity());
        let moved = count.saturating_sub(at);
        let there = other.count();
        let total = there.saturating_add(moved);
        if total > other.max().min(other.capacity()) {
            return Err(Full);
        }
        if moved > 0 {
            let entries = part(self.bytes(), slots(at..count));
            put_slice(other.edit(), slot(there), entries);
            other.set_count(total);
            self.remove(at..count);
        }
        Ok(())
    }

    /// Writes the tail of a block node. `seed` is the inode's checksum seed.
    pub fn update_checksum(&mut self, seed: Seed) {
        let (tail, checksum) = (slot(self.max()), self.checksum(seed));
        put_u32(self.edit(), tail, checksum);
    }
}

/// The first logical block of an entry.
fn key(raw: &[u8; ENTRY_BYTES]) -> LogicalBlock {
    LogicalBlock(get_u32(raw, 0))
}

/// Byte offset of slot `at`.
const fn slot(at: usize) -> usize {
    at.saturating_add(1).saturating_mul(ENTRY_BYTES)
}

/// The bytes of a range of slots.
const fn slots(range: Range<usize>) -> Range<usize> {
    slot(range.start)..slot(range.end)
}
