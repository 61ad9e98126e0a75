//! Removal of entries from the tree of a quota file.
//!
//! A node that becomes empty goes to the list of unused blocks. A block of entries stays in the
//! list of those with free slots, also without any entry.

use super::tree::{Patch, QuotaTree, ROOT, Unused, byte_of, entry_at, header_patch, pointer_at};
use super::{
    ENTRIES_PER_LEAF, LEAF_HEADER_BYTES, LeafHeader, QUOTA_BLOCK_BYTES, QUOTA_ENTRY_BYTES,
};
use crate::bytes::get_u32;
use uext4_num::{clamp_u32, clamp_usize, u64_of};

impl QuotaTree {
    /// Removes the entry of an identifier, which is at byte `at` of the file; returns the writes.
    /// `None` if the tree does not have it there.
    pub fn remove(&mut self, id: u32, at: u64) -> Option<Vec<Patch>> {
        let path = self.path_of(id)?;
        let (leaf, slot) = block_and_slot(at);
        if path.last()?.child != leaf {
            return None;
        }
        let mut patches = Vec::new();
        self.free_slot(leaf, slot, &mut patches)?;
        for step in path.iter().rev() {
            self.point(step.node, step.pointer, 0, &mut patches);
            if step.node == ROOT || !self.is_empty_node(step.node) {
                break;
            }
            self.free_node(step.node, &mut patches);
        }
        patches.push(self.info_patch());
        Some(patches)
    }

    /// The nodes of an identifier from the root on, each with its pointer to the next.
    fn path_of(&self, id: u32) -> Option<Vec<Step>> {
        let mut path = Vec::new();
        let mut node = ROOT;
        for byte in id.to_be_bytes() {
            let pointer = pointer_at(byte);
            let child = get_u32(&self.nodes.get(&node)?[..], pointer);
            path.push(Step {
                node,
                pointer,
                child,
            });
            node = child;
        }
        Some(path)
    }

    fn free_slot(&mut self, block: u32, slot: usize, patches: &mut Vec<Patch>) -> Option<()> {
        let leaf = self.leaves.get_mut(&block)?;
        if slot >= ENTRIES_PER_LEAF || leaf.used & 1 << slot == 0 {
            return None;
        }
        let was_full = usize::from(leaf.header.entries) >= ENTRIES_PER_LEAF;
        leaf.used &= !(1 << slot);
        leaf.header.entries = leaf.header.entries.saturating_sub(1);
        patches.push(Patch {
            at: byte_of(block, entry_at(slot)),
            bytes: vec![0; QUOTA_ENTRY_BYTES],
        });
        let header = leaf.header;
        if was_full {
            self.list_leaf(block, patches);
        } else {
            patches.push(header_patch(block, &header));
        }
        Some(())
    }

    /// Puts a block of entries that was full at the front of the list of those with free slots.
    fn list_leaf(&mut self, block: u32, patches: &mut Vec<Patch>) {
        let next = std::mem::replace(&mut self.info.free_leaf, block);
        if let Some(leaf) = self.leaves.get_mut(&next) {
            leaf.header.previous = block;
            patches.push(header_patch(next, &leaf.header));
        }
        if let Some(leaf) = self.leaves.get_mut(&block) {
            (leaf.header.next, leaf.header.previous) = (next, 0);
            patches.push(header_patch(block, &leaf.header));
        }
    }

    fn is_empty_node(&self, node: u32) -> bool {
        let bytes = self.nodes.get(&node);
        bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    }

    fn free_node(&mut self, node: u32, patches: &mut Vec<Patch>) {
        self.nodes.remove(&node);
        let next = std::mem::replace(&mut self.info.free_block, node);
        self.unused.push(Unused { block: node, next });
        let header = LeafHeader {
            next,
            ..LeafHeader::default()
        };
        patches.push(header_patch(node, &header));
    }
}

/// A node, and its pointer to the next one.
struct Step {
    node: u32,
    pointer: usize,
    child: u32,
}

/// Block and slot of an entry at a byte of the file.
fn block_and_slot(at: u64) -> (u32, usize) {
    const BLOCK: u64 = u64_of(QUOTA_BLOCK_BYTES);
    let within = clamp_usize(at.checked_rem(BLOCK).unwrap_or(0));
    let behind = within.saturating_sub(LEAF_HEADER_BYTES);
    let slot = behind.checked_div(QUOTA_ENTRY_BYTES).unwrap_or(0);
    (clamp_u32(at.checked_div(BLOCK).unwrap_or(0)), slot)
}
