//! Reader of damaged maps: what a map still names, whatever else is wrong with it.
//!
//! Invariants: each block of a map is read once, and levels fall, so that the image bounds the
//! walk. Of a node with damage, only blocks count that nothing else claims. Entries that break the
//! order are left out, as few as possible.

use super::ascent::in_order;
use super::patch::Patch;
use crate::contested::lies_in;
use crate::state::Step;
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::extent::{Expect, Extent, ExtentNode, ExtentState, LOGICAL_BLOCKS, MAGIC};
use uext4_format::indirect::{DIRECT_BLOCKS, ROOT_POINTERS, pointer};
use uext4_format::{BlockNr, DamageLocation, Inode, InodeFlags, InodeNr, LogicalBlock, Seed};
use uext4_num::{clamp_u32, u64_of};
use uext4_volume::append_extent;

/// Memory for each extent and for each block of the map, in bytes.
pub(super) const BYTES_EACH: u64 = 64;

/// Deepest tree that is read. A sound one is less deep.
const DEPTH_READ_MAX: u16 = 32;

/// What was read of a map.
struct Reader {
    nr: InodeNr,
    seed: Option<Seed>,
    /// Clusters that another structure claimed first.
    contested: Vec<Range<u64>>,
    /// Blocks of the map.
    visited: BTreeSet<u64>,
    extents: Vec<Extent>,
}

impl Reader {
    /// Memory that was taken.
    fn bytes(&self) -> u64 {
        u64_of(self.visited.len() + self.extents.len()) * BYTES_EACH
    }
}

impl Patch<'_, '_> {
    /// The blocks inside of the data area that an inode maps, in ascending order without overlap.
    /// Their memory counts while the map is read: its reader drops them before the next map.
    pub(super) fn mapped_by(&mut self, nr: InodeNr, inode: &Inode) -> Step<Vec<Extent>> {
        let reader = self.read_map(nr, inode)?;
        let bytes = reader.bytes();
        let extents = in_order(reader.extents);
        self.check.give_back(bytes);
        Ok(extents)
    }

    /// Keeps allocations off the blocks of a map, and off those that it names. Returns how many the
    /// map has itself.
    pub(super) fn spare_map(&mut self, nr: InodeNr, inode: &Inode) -> Step<u64> {
        let reader = self.read_map(nr, inode)?;
        for block in &reader.visited {
            self.spare(only(BlockNr(*block)))?;
        }
        for extent in &reader.extents {
            self.spare(extent.start.0..extent.physical_end())?;
        }
        self.check.give_back(reader.bytes());
        Ok(u64_of(reader.visited.len()))
    }

    /// Reads a map. The caller gives its memory back.
    fn read_map(&mut self, nr: InodeNr, inode: &Inode) -> Step<Reader> {
        let mut reader = Reader {
            nr,
            seed: self.check.checksums.inode_seed(nr, inode.generation),
            contested: self.check.contested.of(nr),
            visited: BTreeSet::new(),
            extents: Vec::new(),
        };
        if inode.flags.contains(InodeFlags::EXTENTS) {
            let root = ExtentNode::new(&inode.i_block[..]);
            if is_readable(&root) {
                let depth = self.depth_of_root(&root)?;
                self.read_node(&mut reader, &root, depth, 0..LOGICAL_BLOCKS)?;
            }
        } else {
            self.read_tables(&mut reader, inode)?;
        }
        Ok(reader)
    }

    /// The depth of a tree: one more than that of a child. The root may say another.
    fn depth_of_root(&mut self, root: &ExtentNode<&[u8]>) -> Step<u16> {
        let mut extents = root.extents();
        let maps_data = extents.any(|extent| extent.len > 0 && self.is_data(&extent));
        if root.depth() == 0 && (maps_data || root.is_empty()) {
            return Ok(0);
        }
        for index in root.indexes() {
            if self.check.may_map(&only(index.child)) {
                let bytes = self.read(index.child)?;
                let child = ExtentNode::new(&bytes[..]);
                if child.magic() == MAGIC && child.depth() < DEPTH_READ_MAX {
                    return Ok(child.depth() + 1);
                }
            }
        }
        Ok(0)
    }

    fn is_data(&self, extent: &Extent) -> bool {
        let geometry = &self.check.geometry;
        geometry.contains_run(extent.start, extent.len.into())
    }

    /// Reads a node; only what is in the `range` of the file counts.
    fn read_node(
        &mut self,
        reader: &mut Reader,
        node: &ExtentNode<&[u8]>,
        depth: u16,
        range: Range<u64>,
    ) -> Step {
        if depth == 0 {
            return self.read_leaf(reader, node, &range);
        }
        for (at, index) in node.indexes().enumerate() {
            let block = index.child;
            let is_new = self.check.may_map(&only(block)) && reader.visited.insert(block.0);
            if !is_new {
                continue;
            }
            self.check.take(BYTES_EACH)?;
            let bytes = self.read(block)?;
            let child = ExtentNode::new(&bytes[..]);
            let place = DamageLocation::InodeBlock(reader.nr, block);
            let sealed = reader
                .seed
                .is_none_or(|seed| child.verify_checksum(seed, place).is_ok());
            if !self.is_child(reader, &child, block, depth - 1) {
                continue;
            }
            let next = node.key(at + 1).map_or(range.end, |key| key.0.into());
            let below = if sealed {
                range.clone()
            } else {
                range.start.max(index.logical.0.into())..range.end.min(next)
            };
            self.read_node(reader, &child, depth - 1, below)?;
        }
        Ok(())
    }

    /// Whether a block is a node of this depth. One that another structure claimed first has to be
    /// without damage.
    fn is_child(
        &self,
        reader: &Reader,
        node: &ExtentNode<&[u8]>,
        block: BlockNr,
        depth: u16,
    ) -> bool {
        let place = DamageLocation::InodeBlock(reader.nr, block);
        let expect = self.any_node();
        let is_sound = node.validate(&expect, place).is_ok();
        if lies_in(&reader.contested, self.check.clusters(only(block)).start) {
            let seed = reader.seed;
            let is_sealed = seed.is_none_or(|seed| node.verify_checksum(seed, place).is_ok());
            return is_sound && node.depth() == depth && is_sealed;
        }
        // A sound node of another depth belongs elsewhere in the tree.
        is_readable(node) && (node.depth() == depth || !is_sound)
    }

    /// What every node has to be, wherever it is.
    fn any_node(&self) -> Expect {
        let geometry = &self.check.geometry;
        Expect::root(geometry.first_data_block.into()..geometry.blocks_count)
    }

    fn read_leaf(
        &mut self,
        reader: &mut Reader,
        node: &ExtentNode<&[u8]>,
        range: &Range<u64>,
    ) -> Step {
        let place = DamageLocation::Inode(reader.nr);
        let is_sound = node.depth() == 0 && node.validate(&self.any_node(), place).is_ok();
        for extent in node.extents() {
            let is_inside = u64::from(extent.logical.0) >= range.start
                && extent.logical_end() <= range.end
                && extent.len > 0;
            if !is_inside {
                continue;
            }
            let run = extent.start.0..extent.physical_end();
            let kept = if is_sound && self.is_mappable(reader.nr, &run) {
                Some(extent)
            } else {
                self.free_part(extent)
            };
            if let Some(kept) = kept {
                self.check.take(BYTES_EACH)?;
                reader.extents.push(kept);
            }
        }
        Ok(())
    }

    /// Whether an inode may map these blocks.
    pub(super) fn is_mappable(&mut self, nr: InodeNr, run: &Range<u64>) -> bool {
        let is_spare = nr == InodeNr::BAD_BLOCKS && self.check.is_unwritten_table(run);
        is_spare || self.check.may_map(run)
    }

    /// The start of an extent up to the first block that another structure has.
    fn free_part(&self, extent: Extent) -> Option<Extent> {
        let geometry = &self.check.geometry;
        let start = extent.start.0;
        if !geometry.contains(extent.start) {
            return None;
        }
        let end = extent.physical_end().min(geometry.blocks_count);
        let end = end.min(self.check.clear_until(start));
        let clusters = self.check.clusters(start..end.max(start));
        let taken = self.check.claimed.runs_in(&clusters).first().cloned();
        let first = u64::from(geometry.first_data_block);
        let taken = taken.map(|run| first + (run.start << geometry.cluster_bits));
        let end = taken.map_or(end, |taken| end.min(taken));
        let len = u16::try_from(end.checked_sub(start)?).ok()?;
        (len > 0).then_some(Extent { len, ..extent })
    }

    fn read_tables(&mut self, reader: &mut Reader, inode: &Inode) -> Step {
        let per_table = self.check.block_bytes() / 4;
        let mut first = 0;
        for at in 0..ROOT_POINTERS {
            let level = clamp_u32(at + 1).saturating_sub(DIRECT_BLOCKS);
            self.read_pointer(reader, pointer(&inode.i_block, at), first, level)?;
            first += per_table.pow(level);
        }
        Ok(())
    }

    /// Reads what a pointer leads to: data at level 0, else a table.
    fn read_pointer(
        &mut self,
        reader: &mut Reader,
        block: BlockNr,
        first: u64,
        level: u32,
    ) -> Step {
        if level == 0 {
            return self.read_block(reader, block, first);
        }
        let Some(bytes) = self.read_table(block, &reader.contested, &mut reader.visited)? else {
            return Ok(());
        };
        let below = (self.check.block_bytes() / 4).pow(level - 1);
        for at in 0..bytes.len() / 4 {
            let logical = first + u64_of(at) * below;
            self.read_pointer(reader, pointer(&bytes, at), logical, level - 1)?;
        }
        Ok(())
    }

    fn read_block(&mut self, reader: &mut Reader, block: BlockNr, logical: u64) -> Step {
        let Ok(logical) = u32::try_from(logical) else {
            return Ok(());
        };
        if block.0 == 0 || !self.is_mappable(reader.nr, &only(block)) {
            return Ok(());
        }
        let before = reader.extents.len();
        let next = Extent {
            logical: LogicalBlock(logical),
            start: block,
            len: 1,
            state: ExtentState::Written,
        };
        append_extent(&mut reader.extents, next);
        self.check
            .take(u64_of(reader.extents.len() - before) * BYTES_EACH)
    }

    /// The bytes of a table that is met for the first time; `None` if there is none. One that
    /// another structure claimed first counts if it can be a table. The caller gives back the
    /// memory of what was visited.
    pub(super) fn read_table(
        &mut self,
        block: BlockNr,
        contested: &[Range<u64>],
        visited: &mut BTreeSet<u64>,
    ) -> Step<Option<Vec<u8>>> {
        if !self.check.may_map(&only(block)) || !visited.insert(block.0) {
            return Ok(None);
        }
        self.check.take(BYTES_EACH)?;
        let bytes = self.read(block)?;
        let is_own = !lies_in(contested, self.check.clusters(only(block)).start);
        let mut pointers = (0..bytes.len() / 4).map(|at| pointer(&bytes, at));
        let is_table =
            is_own || pointers.all(|block| block.0 == 0 || self.check.may_map(&only(block)));
        Ok(is_table.then_some(bytes))
    }
}

/// The run of one block.
pub(super) fn only(block: BlockNr) -> Range<u64> {
    block.0..block.0.saturating_add(1)
}

/// Whether a block is a node: by its magic, or else by the other numbers of its header.
fn is_readable(node: &ExtentNode<&[u8]>) -> bool {
    let has_limit = node.max() == node.capacity() && (1..=node.max()).contains(&node.count());
    node.magic() == MAGIC || (has_limit && node.depth() <= DEPTH_READ_MAX)
}
