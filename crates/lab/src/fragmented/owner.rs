//! Assigns the blocks of the pattern to an owner: the bad-blocks inode, which needs no name.
//!
//! Its map is a block table with 4 bytes per block, wherever that is; the first of the owned blocks
//! hold the table itself.

use anyhow::{Context, Result, ensure};
use uext4::device::BlockDevice;
use uext4::format::indirect::DIRECT_BLOCKS;
use uext4::format::{BlockNr, Checksums, Geometry, Inode, InodeNr};

const BLOCK_BYTES: usize = 4096;
const SECTORS: u64 = BLOCK_BYTES as u64 / 512;
const DIRECT: usize = DIRECT_BLOCKS as usize;
const POINTERS: usize = BLOCK_BYTES / 4;
/// Blocks mapped by a pointer of each level of indirection.
const REACH: [usize; 3] = [
    POINTERS,
    POINTERS * POINTERS,
    POINTERS * POINTERS * POINTERS,
];

/// Assigns the ascending `blocks` to the inode.
pub(super) fn adopt(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    checksums: &Checksums,
    inode_table: BlockNr,
    blocks: &[u32],
) -> Result<()> {
    let (own, data) = blocks.split_at(table_blocks(blocks.len()));
    let data = padded(data, own.len());
    let mut table = Table {
        device,
        own: own.iter(),
    };
    let mut inode = Inode::new(geometry, 32);
    let root = table.write_root(&data)?;
    for (slot, block) in inode.i_block.chunks_exact_mut(4).zip(root) {
        slot.copy_from_slice(&block.to_le_bytes());
    }
    inode.size = data.len() as u64 * BLOCK_BYTES as u64;
    inode.set_sectors((blocks.len() - table.own.len()) as u64 * SECTORS, geometry)?;
    ensure!(table.own.len() == 0, "the table is smaller than planned");
    let mut bytes = vec![0; usize::from(geometry.inode_size)];
    inode.write_to(&mut bytes, InodeNr::BAD_BLOCKS, geometry, checksums);
    let (block, offset) = geometry.inode_location(inode_table, 0);
    let at = block.0 * BLOCK_BYTES as u64 + u64::from(offset);
    Ok(device.write_at(at, &bytes)?)
}

/// How many of `all` blocks hold the table that maps the others.
fn table_blocks(all: usize) -> usize {
    let mut own = table_for(all);
    while own > 0 && table_for(all - own + 1) < own {
        own -= 1;
    }
    own
}

/// Pads the data with holes so that the table takes exactly `own` blocks.
fn padded(data: &[u32], own: usize) -> Vec<u32> {
    let mut data = data.to_vec();
    while table_for(data.len()) < own {
        data.push(0);
    }
    data
}

/// Table blocks for this many data blocks.
fn table_for(data: usize) -> usize {
    let mut left = data.saturating_sub(DIRECT);
    let mut blocks = 0;
    for (level, reach) in REACH.into_iter().enumerate() {
        let here = left.min(reach);
        left -= here;
        blocks += (0..=level)
            .map(|below| here.div_ceil(REACH[below]))
            .sum::<usize>();
    }
    blocks
}

struct Table<'a> {
    device: &'a dyn BlockDevice,
    own: std::slice::Iter<'a, u32>,
}

impl Table<'_> {
    /// Writes the block pointers of the inode.
    fn write_root(&mut self, data: &[u32]) -> Result<Vec<u32>> {
        let (direct, mut rest) = data.split_at(DIRECT.min(data.len()));
        let mut root = direct.to_vec();
        for (level, reach) in REACH.into_iter().enumerate() {
            let (here, after) = rest.split_at(reach.min(rest.len()));
            rest = after;
            if !here.is_empty() {
                root.push(self.write_node(here, level)?);
            }
        }
        ensure!(rest.is_empty(), "too many blocks for a block table");
        Ok(root)
    }

    fn write_node(&mut self, data: &[u32], level: usize) -> Result<u32> {
        let block = *self
            .own
            .next()
            .context("the table is larger than planned")?;
        let pointers = match level {
            0 => data.to_vec(),
            _ => data
                .chunks(REACH[level - 1])
                .map(|part| self.write_node(part, level - 1))
                .collect::<Result<_>>()?,
        };
        let mut bytes = [0; BLOCK_BYTES];
        for (slot, pointer) in bytes.chunks_exact_mut(4).zip(pointers) {
            slot.copy_from_slice(&pointer.to_le_bytes());
        }
        let at = u64::from(block) * BLOCK_BYTES as u64;
        self.device.write_at(at, &bytes)?;
        Ok(block)
    }
}
