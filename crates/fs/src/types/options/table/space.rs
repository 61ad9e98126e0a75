//! Words for space, memory and limits.

use super::super::fields::Allocator;
use super::super::values::{allocator, bound, limited, seconds, size, size_of_memory};
use super::row::{Section, flag, row, value};
use uext4_num::{clamp_u8, clamp_u32, clamp_usize};

pub(super) const SPACE: Section = Section {
    title: "Space and memory",
    rows: &[
        row(
            &[
                flag("delalloc", |o| o.delalloc = Some(true)),
                flag("nodelalloc", |o| o.delalloc = Some(false)),
            ],
            "allocate blocks at writeback (default), or when write is called",
        ),
        row(
            &[value("delalloc_memory", "BYTES", |o, name, value| {
                o.delalloc_memory_bytes = Some(size_of_memory(name, value)?);
                Ok(())
            })],
            "limit of delayed data (default: 1/16 of the memory, at most 256M)",
        ),
        row(
            &[
                flag("auto_da_alloc", |o| o.auto_da_alloc = true),
                flag("noauto_da_alloc", |o| o.auto_da_alloc = false),
                value("auto_da_alloc", "0|1", |o, name, value| {
                    o.auto_da_alloc = limited(name, value, u64::MAX)? != 0;
                    Ok(())
                }),
            ],
            "when a file replaces another by rename, or is rewritten after truncation, write it \
             out at once (default), or not",
        ),
        row(
            &[
                flag("discard", |o| o.discard = true),
                flag("nodiscard", |o| o.discard = false),
            ],
            "discard freed blocks after the commit, or not (default)",
        ),
        row(
            &[value("stripe", "BLOCKS", |o, name, value| {
                o.stripe_blocks = clamp_u32(limited(name, value, u32::MAX.into())?);
                Ok(())
            })],
            "stripe width of the RAID array (default: as in the superblock)",
        ),
        row(
            &[
                value(
                    "allocator",
                    "linear|optimized|freespace-tree",
                    |o, _, value| {
                        o.allocator = allocator(value)?;
                        Ok(())
                    },
                ),
                value("mb_optimize_scan", "0|1", |o, name, value| {
                    let scans = [Allocator::Linear, Allocator::Optimized];
                    o.allocator = scans[clamp_usize(limited(name, value, 1)?)];
                    Ok(())
                }),
                flag("freespace_tree", |o| o.allocator = Allocator::FreespaceTree),
            ],
            "search for free space: linear scan of the groups (mb_optimize_scan=0), groups by \
             the length of their free runs (1), or free-space trees (default)",
        ),
        row(
            &[
                value("cache_aggression", "0..3", |o, name, value| {
                    o.cache_aggression = clamp_u8(limited(name, value, 3)?);
                    Ok(())
                }),
                value("frsp_cache_aggression", "0..3", |o, name, value| {
                    o.cache_aggression = clamp_u8(limited(name, value, 3)?);
                    Ok(())
                }),
            ],
            "how eagerly free-space trees read cold regions of the volume (default 1)",
        ),
        row(
            &[value("freespace_memory", "BYTES", |o, name, value| {
                o.freespace_memory_bytes = size(name, value, u64::MAX)?;
                Ok(())
            })],
            "memory limit of the free-space trees (default 0: depends on the size of the volume)",
        ),
        row(
            &[value("growth_limit", "BYTES", |o, name, value| {
                o.growth_limit_bytes = bound(size(name, value, u64::MAX)?);
                Ok(())
            })],
            "size up to which the file system can be grown while mounted (default: 16 times its \
             size, at most 4096 more groups)",
        ),
        row(
            &[
                flag("prefetch_block_bitmaps", |o| o.prefetch_bitmaps = true),
                flag("no_prefetch_block_bitmaps", |o| o.prefetch_bitmaps = false),
            ],
            "prefetch block bitmaps in the background after the mount (default), or not",
        ),
        row(
            &[value("metadata_cache", "BYTES", |o, name, value| {
                o.metadata_cache_bytes = Some(size_of_memory(name, value)?);
                Ok(())
            })],
            "cache for unused inodes and metadata blocks (default: 1/16 of the memory, at most \
             256M)",
        ),
        row(
            &[value("extent_cache", "BYTES", |o, name, value| {
                o.extent_cache_bytes = size(name, value, u64::MAX)?;
                Ok(())
            })],
            "memory limit of the extent status cache (default 32M)",
        ),
        row(
            &[
                flag("bsddf", |o| o.minix_df = false),
                flag("minixdf", |o| o.minix_df = true),
            ],
            "statfs leaves metadata overhead out of the total size (default), or includes it",
        ),
    ],
};

pub(super) const BOUNDS: Section = Section {
    title: "Limits",
    rows: &[
        row(
            &[value("operation_bytes", "BYTES", |o, name, value| {
                o.operation_bytes = bound(size(name, value, u64::MAX)?);
                Ok(())
            })],
            "limit of metadata that one operation reads (default 0: no limit)",
        ),
        row(
            &[value("operation_seconds", "SECONDS", |o, name, value| {
                o.operation_time = seconds(name, value)?;
                Ok(())
            })],
            "time limit of one operation (default 0: no limit)",
        ),
        row(
            &[value("max_dir_size_kb", "N", |o, name, value| {
                o.max_dir_size_kib = bound(limited(name, value, u32::MAX.into())?);
                Ok(())
            })],
            "size limit of directories in KiB (default 0: no limit)",
        ),
    ],
};
