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
            "choose blocks when data are written out (default), or when they are accepted",
        ),
        row(
            &[value("delalloc_memory", "BYTES", |o, name, value| {
                o.delalloc_memory_bytes = Some(size_of_memory(name, value)?);
                Ok(())
            })],
            "most data that wait for their blocks (default: a 16th, 256M at most)",
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
            "write out a file at once that takes the place of another, or of its own old content \
             (default), or not",
        ),
        row(
            &[
                flag("discard", |o| o.discard = true),
                flag("nodiscard", |o| o.discard = false),
            ],
            "give freed blocks back to the device after their commit, or not (default)",
        ),
        row(
            &[value("stripe", "BLOCKS", |o, name, value| {
                o.stripe_blocks = clamp_u32(limited(name, value, u32::MAX.into())?);
                Ok(())
            })],
            "width of a stripe of the RAID array below (default: as the superblock says)",
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
            "how free space is searched: group after group (mb_optimize_scan=0), by the length of \
             free runs (1), or in trees (default)",
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
            "how eagerly free-space trees are built (default 1)",
        ),
        row(
            &[value("freespace_memory", "BYTES", |o, name, value| {
                o.freespace_memory_bytes = size(name, value, u64::MAX)?;
                Ok(())
            })],
            "memory for free-space trees (0, the default, goes by the volume)",
        ),
        row(
            &[value("growth_limit", "BYTES", |o, name, value| {
                o.growth_limit_bytes = bound(size(name, value, u64::MAX)?);
                Ok(())
            })],
            "size up to which it can grow while mounted (default: 16 times its size, and 4096 \
             groups more at most)",
        ),
        row(
            &[
                flag("prefetch_block_bitmaps", |o| o.prefetch_bitmaps = true),
                flag("no_prefetch_block_bitmaps", |o| o.prefetch_bitmaps = false),
            ],
            "read block bitmaps in the background after the mount (default), or not",
        ),
        row(
            &[value("metadata_cache", "BYTES", |o, name, value| {
                o.metadata_cache_bytes = Some(size_of_memory(name, value)?);
                Ok(())
            })],
            "cache of unused inodes and metadata blocks (default: a 16th, 256M at most)",
        ),
        row(
            &[value("extent_cache", "BYTES", |o, name, value| {
                o.extent_cache_bytes = size(name, value, u64::MAX)?;
                Ok(())
            })],
            "memory for what is known of the maps of files (default 32M)",
        ),
        row(
            &[
                flag("bsddf", |o| o.minix_df = false),
                flag("minixdf", |o| o.minix_df = true),
            ],
            "df counts the space of metadata as used from the start (default), or as space",
        ),
    ],
};

pub(super) const BOUNDS: Section = Section {
    title: "Bounds",
    rows: &[
        row(
            &[value("operation_bytes", "BYTES", |o, name, value| {
                o.operation_bytes = bound(size(name, value, u64::MAX)?);
                Ok(())
            })],
            "metadata that one operation may look at (0, the default: no bound)",
        ),
        row(
            &[value("operation_seconds", "SECONDS", |o, name, value| {
                o.operation_time = seconds(name, value)?;
                Ok(())
            })],
            "how long one operation may take (0, the default: no bound)",
        ),
        row(
            &[value("max_dir_size_kb", "N", |o, name, value| {
                o.max_dir_size_kib = bound(limited(name, value, u32::MAX.into())?);
                Ok(())
            })],
            "directories do not grow beyond N KiB (0, the default: no bound)",
        ),
    ],
};
