//! The map of the resize inode: the descriptor blocks reserved for growth, and their copies.
//!
//! Layout: the inode's double indirect block is a table of the reserved blocks after the primary
//! descriptors, each at its index as a descriptor block. Each of them is a table of its copies in
//! other groups.

use uext4_format::indirect::set_pointer;
use uext4_format::{BlockNr, Geometry, GroupNr};
use uext4_num::{u64_of, usize_of};

/// Contents of the blocks that the resize inode maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeMap {
    /// Content of the double indirect block.
    pub table: Vec<u8>,
    /// The reserved blocks of group 0, ascending.
    pub reserved: Vec<(BlockNr, Vec<u8>)>,
    /// Space of the inode, in sectors of 512 bytes.
    pub sectors: u64,
}

/// Contents of the blocks for `geometry`, as mkfs or resize writes them.
pub fn resize_map(geometry: &Geometry) -> ResizeMap {
    let mut table = vec![0; usize_of(geometry.block_size())];
    let mut reserved = Vec::new();
    let mut blocks = 1;
    if let Some(primary) = geometry.reserved_gdt_run(GroupNr(0)) {
        let copies: Vec<GroupNr> = geometry.reserved_gdt_copies().collect();
        for i in 0..primary.len_blocks {
            let index = (geometry.descriptor_blocks_count() + i) % (geometry.block_size() / 4);
            let nr = BlockNr(primary.start.0 + u64::from(i));
            set_pointer(&mut table, usize_of(index), nr);
            reserved.push((nr, table_of_copies(geometry, nr, &copies)));
        }
        blocks += u64::from(primary.len_blocks) * (1 + u64_of(copies.len()));
    }
    ResizeMap {
        table,
        reserved,
        sectors: blocks * (geometry.cluster_size() >> 9),
    }
}

/// Content of a reserved block of group 0.
fn table_of_copies(geometry: &Geometry, primary: BlockNr, copies: &[GroupNr]) -> Vec<u8> {
    let mut bytes = vec![0; usize_of(geometry.block_size())];
    for (at, group) in copies.iter().enumerate() {
        set_pointer(&mut bytes, at, geometry.reserved_gdt_copy(primary, *group));
    }
    bytes
}
