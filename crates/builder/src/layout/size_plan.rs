//! Numbers of the file system before the tree is known.

use uext4_format::Feature;
use uext4_mkfs::{Draft, InodeCount, JournalSize, MkfsOptions, Plan};

use crate::error::{Error, Result};
use crate::options::{BuildOptions, Size};

/// Blocks for descriptors, now and later, unless the options say otherwise. So the fixed places do
/// not depend on the size: up to 512 GiB in blocks of 4 KiB.
const DESCRIPTOR_BLOCKS: u64 = 64;

/// The numbers before anything is known of the tree, for the largest size whose descriptors need
/// [`DESCRIPTOR_BLOCKS`], or for a larger one that is given; and the most blocks of the image.
pub(crate) fn first_plan(size: Size, options: &mut MkfsOptions) -> Result<(Plan, u64)> {
    let block_size = *options.block_size.get_or_insert(4096);
    let given = match size {
        Size::Bytes(bytes) => Some(bytes / u64::from(block_size)),
        Size::Min | Size::MinPlusPercent(_) => None,
    };
    let wide = options.features.has(Feature::SIXTY_FOUR_BIT);
    let per_block = u64::from(block_size / if wide { 64 } else { 32 });
    let largest = |per_group: u64| {
        let blocks = DESCRIPTOR_BLOCKS * per_block * per_group;
        blocks.min(u64::from(u32::MAX))
    };
    let mut first = options.clone();
    first.journal = JournalSize::Auto;
    if given.is_none() && !matches!(first.inodes, InodeCount::BytesPerInode(_)) {
        first.inodes = InodeCount::AtLeast(1);
    }
    let per_group = options
        .blocks_per_group
        .map_or(group_blocks(block_size), u64::from);
    let probe = numbers(&mut first, given.unwrap_or(largest(per_group)))?;
    // Many inodes make smaller groups. All sizes have groups of the same length.
    let per_group = probe.superblock.blocks_per_group;
    options.blocks_per_group = Some(per_group);
    let most = largest(per_group.into());
    options.resize_max_blocks.get_or_insert(most);
    first.blocks_per_group = options.blocks_per_group;
    first.resize_max_blocks = options.resize_max_blocks;
    first.inodes = InodeCount::AtLeast(1);
    let plan = numbers(&mut first, most.max(given.unwrap_or(0)))?;
    Ok((plan, given.unwrap_or(most)))
}

/// The numbers of an image of this many bytes.
pub(crate) fn given_size(options: &BuildOptions, bytes: u64) -> Result<Plan> {
    numbers(&mut options.format.clone(), bytes / block_bytes(options))
}

/// The end of bitmaps and inode tables at the start of an image of a given size.
pub(crate) fn tables_end(options: &BuildOptions) -> Result<u64> {
    let Size::Bytes(bytes) = options.size else {
        return Err(refused(
            "tables at the start need an image of a known size".to_owned(),
            "give its size in bytes",
        ));
    };
    let mut draft = Draft::new(given_size(options, bytes)?, &options.format)?;
    draft.allocate_group_metadata()?;
    Ok(draft.end().0)
}

fn block_bytes(options: &BuildOptions) -> u64 {
    u64::from(options.format.block_size.unwrap_or(4096))
}

pub(crate) fn refused(problem: String, advice: &'static str) -> Error {
    Error::Refused {
        source_name: "the options".to_owned(),
        problem,
        advice,
    }
}

fn numbers(options: &mut MkfsOptions, blocks: u64) -> Result<Plan> {
    options.blocks_count = Some(blocks);
    let block_size = options.block_size.unwrap_or(4096);
    Ok(uext4_mkfs::plan(
        options,
        blocks.saturating_mul(block_size.into()),
    )?)
}

fn group_blocks(block_size: u32) -> u64 {
    u64::from((block_size * 8).min((1 << 16) - 8))
}
