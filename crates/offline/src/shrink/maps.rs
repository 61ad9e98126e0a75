//! Maps of files made anew with other blocks.
//!
//! A new map has all its nodes in new blocks (copy on write), so a change of it is the change of
//! one inode.

use super::plan::Moved;
use std::ops::Range;
use uext4_format::extent::Extent;
use uext4_format::indirect::{DIRECT_BLOCKS, pointer, set_pointer};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Inode, InodeNr, LogicalBlock};
use uext4_mkfs::extent_tree;
use uext4_num::{clamp_u16, clamp_u32, usize_of};
use uext4_volume::{FileMap, MapFormat, Result, Volume, append_extent};

/// `i_block`, and the contents of `nodes`, of the map whose blocks `moved` names.
///
/// # Errors
/// Those of the device.
pub(super) fn remade(
    map: &FileMap,
    volume: &Volume,
    (nr, inode): (InodeNr, &Inode),
    moved: &[Moved],
    nodes: &[BlockNr],
) -> Result<uext4_mkfs::FileMap> {
    let mut left = nodes.iter().copied();
    let mut take = || left.next().ok_or_else(|| missing_node(nr));
    if map.format == MapFormat::Extents {
        let seed = volume
            .superblock()
            .checksums()
            .inode_seed(nr, inode.generation);
        let extents = translated(&map.extents, moved);
        return extent_tree(&extents, volume.geometry().block_size(), seed, &mut take);
    }
    let mut made = uext4_mkfs::FileMap {
        i_block: inode.i_block,
        nodes: Vec::new(),
    };
    let mut root = made.i_block;
    for at in 0..DIRECT_BLOCKS + 3 {
        let old = pointer(&root, usize_of(at));
        let new = match at.checked_sub(DIRECT_BLOCKS) {
            None => moved_to(moved, old),
            Some(level) => remake_table(volume, old, level, moved, &mut take, &mut made.nodes)?,
        };
        set_pointer(&mut root, usize_of(at), new);
    }
    made.i_block = root;
    Ok(made)
}

/// Copies a table to a new block, with what is below; returns where it is.
fn remake_table(
    volume: &Volume,
    table: BlockNr,
    level: u32,
    moved: &[Moved],
    take: &mut dyn FnMut() -> Result<BlockNr>,
    made: &mut Vec<(BlockNr, Vec<u8>)>,
) -> Result<BlockNr> {
    if table.0 == 0 {
        return Ok(table);
    }
    let mut bytes = volume.read(table)?;
    for at in 0..bytes.len() / 4 {
        let old = pointer(&bytes, at);
        let new = match level {
            0 => moved_to(moved, old),
            _ => remake_table(volume, old, level - 1, moved, take, made)?,
        };
        set_pointer(&mut bytes, at, new);
    }
    let nr = take()?;
    made.push((nr, bytes));
    Ok(nr)
}

/// Where a block is after the moves.
fn moved_to(moved: &[Moved], block: BlockNr) -> BlockNr {
    let after = moved.partition_point(|run| run.old.end <= block.0);
    match moved.get(after).filter(|run| run.old.start <= block.0) {
        Some(run) => BlockNr(run.new + (block.0 - run.old.start)),
        None => block,
    }
}

/// The parts of an extent, each at its new place: of one run of `moved`, or of none.
pub(super) fn parts(extent: Extent, moved: &[Moved]) -> impl Iterator<Item = (Extent, BlockNr)> {
    let mut at = extent.start.0;
    let mut next = moved.partition_point(|run| run.old.end <= at);
    std::iter::from_fn(move || {
        if at >= extent.physical_end() {
            return None;
        }
        let run = moved
            .get(next)
            .filter(|run| run.old.start < extent.physical_end());
        let (end, to) = match run {
            None => (extent.physical_end(), at),
            Some(run) if run.old.start > at => (run.old.start, at),
            Some(run) => {
                next += 1;
                let end = run.old.end.min(extent.physical_end());
                (end, run.new + (at - run.old.start))
            }
        };
        let part = cut(extent, at..end);
        at = end;
        Some((part, BlockNr(to)))
    })
}

/// The part of an extent with these blocks of the device.
fn cut(extent: Extent, blocks: Range<u64>) -> Extent {
    let skip = clamp_u32(blocks.start - extent.start.0);
    Extent {
        logical: LogicalBlock(extent.logical.0 + skip),
        start: BlockNr(blocks.start),
        len: clamp_u16(blocks.end - blocks.start),
        ..extent
    }
}

/// The extents as they are after the moves.
pub(super) fn translated(extents: &[Extent], moved: &[Moved]) -> Vec<Extent> {
    let mut all = Vec::with_capacity(extents.len());
    for extent in extents {
        for (part, start) in parts(*extent, moved) {
            append_extent(&mut all, Extent { start, ..part });
        }
    }
    all
}

fn missing_node(nr: InodeNr) -> uext4_volume::Error {
    let place = DamageLocation::InodeBlock(nr, BlockNr(0));
    Corrupt::new(place, "inode map", CorruptKind::MapShared).into()
}
