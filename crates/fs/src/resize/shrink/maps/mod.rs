//! Maps of files at rest: read as a list of extents, and made anew with other blocks.
//!
//! A new map has all its nodes in new blocks (copy on write), so a change of it is the change of
//! one inode.

mod read;

use super::plan::Moved;
use crate::mount::AtRest;
use crate::{Error, Result};
use std::ops::Range;
use uext4_format::extent::{Extent, ROOT_CAPACITY, block_capacity};
use uext4_format::indirect::{DIRECT_BLOCKS, pointer, set_pointer};
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, FileType, Inode, InodeFlags, InodeNr, LogicalBlock, Place,
};
use uext4_mkfs::extent_tree;
use uext4_num::{clamp_u16, clamp_u32, u64_of, usize_of};

/// What a file maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) format: Format,
    /// Ascending in the file.
    pub(crate) extents: Vec<Extent>,
    /// Blocks of the map itself.
    pub(crate) nodes: Vec<BlockNr>,
}

/// How a file maps its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Extents,
    Tables,
}

/// Whether an inode has a map, and not its data or a device number in that place.
pub(crate) fn has_map(inode: &Inode) -> bool {
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        return false;
    }
    let has_extents = inode.flags.contains(InodeFlags::EXTENTS);
    match inode.file_type() {
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => has_extents || inode.size >= u64_of(inode.i_block.len()),
        _ => false,
    }
}

impl Map {
    /// Runs of blocks of data, then blocks of the map.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<u64>> {
        let extents = self.extents.iter();
        let extents = extents.map(|extent| extent.start.0..extent.physical_end());
        extents.chain(self.nodes.iter().map(|node| node.0..node.0 + 1))
    }

    /// Number of nodes that the map has with these extents.
    pub(super) fn nodes_with(&self, extents: usize, block_size: u32) -> usize {
        if self.format == Format::Tables {
            return self.nodes.len();
        }
        let (mut level, mut nodes) = (extents, 0);
        while level > usize::from(ROOT_CAPACITY) {
            level = level.div_ceil(block_capacity(usize_of(block_size)).into());
            nodes += level;
        }
        nodes
    }

    /// `i_block`, and the contents of `nodes`, of the map whose blocks `moved` names.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn remade(
        &self,
        rest: &AtRest,
        (nr, inode): (InodeNr, &Inode),
        moved: &[Moved],
        nodes: &[BlockNr],
    ) -> Result<uext4_mkfs::FileMap> {
        let mut left = nodes.iter().copied();
        let mut take = || left.next().ok_or_else(|| damaged(nr, BlockNr(0)));
        if self.format == Format::Extents {
            let seed = rest.superblock.checksums().inode_seed(nr, inode.generation);
            let extents = translated(&self.extents, moved);
            return extent_tree(&extents, rest.geometry.block_size(), seed, &mut take);
        }
        let mut made = uext4_mkfs::FileMap {
            i_block: inode.i_block,
            nodes: Vec::new(),
        };
        let mut root = made.i_block;
        for at in 0..DIRECT_BLOCKS + 3 {
            let old = pointer(&root, usize_of(at));
            let new = match at.checked_sub(DIRECT_BLOCKS) {
                None => place(moved, old),
                Some(level) => remake_table(rest, old, level, moved, &mut take, &mut made.nodes)?,
            };
            set_pointer(&mut root, usize_of(at), new);
        }
        made.i_block = root;
        Ok(made)
    }
}

/// Copies a table to a new block, with what is below; answers where it is.
fn remake_table(
    rest: &AtRest,
    table: BlockNr,
    level: u32,
    moved: &[Moved],
    take: &mut dyn FnMut() -> Result<BlockNr>,
    made: &mut Vec<(BlockNr, Vec<u8>)>,
) -> Result<BlockNr> {
    if table.0 == 0 {
        return Ok(table);
    }
    let mut bytes = rest.read(table)?;
    for at in 0..bytes.len() / 4 {
        let old = pointer(&bytes, at);
        let new = match level {
            0 => place(moved, old),
            _ => remake_table(rest, old, level - 1, moved, take, made)?,
        };
        set_pointer(&mut bytes, at, new);
    }
    let nr = take()?;
    made.push((nr, bytes));
    Ok(nr)
}

/// Where a block is after the moves.
fn place(moved: &[Moved], block: BlockNr) -> BlockNr {
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

/// The extents after the moves.
pub(super) fn translated(extents: &[Extent], moved: &[Moved]) -> Vec<Extent> {
    let mut all = Vec::with_capacity(extents.len());
    for extent in extents {
        for (part, start) in parts(*extent, moved) {
            push(&mut all, Extent { start, ..part });
        }
    }
    all
}

/// Appends an extent, or adds it to the last one.
fn push(extents: &mut Vec<Extent>, next: Extent) {
    match extents.last_mut().filter(|last| last.joins(&next)) {
        Some(last) => last.len += next.len,
        None => extents.push(next),
    }
}

fn damaged(nr: InodeNr, block: BlockNr) -> Error {
    let place = Place::InodeBlock(nr, block);
    Corrupt::new(place, "inode map", CorruptKind::MapShared).into()
}
