//! The rows: a system and its mount options.

use super::EXPERIMENT;
use crate::measure::Key;
use crate::system::System;
use anyhow::{Result, bail};

/// One way to mount.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) system: System,
    pub(super) options: &'static str,
}

impl Row {
    /// The key of its samples.
    pub(super) fn key(&self) -> Key {
        Key {
            experiment: EXPERIMENT,
            system: self.system,
            variant: self.name.into(),
            workers: 1,
        }
    }
}

const fn ours(name: &'static str, options: &'static str) -> Row {
    Row {
        name,
        system: System::Uext4,
        options,
    }
}

const fn kernel(name: &'static str, options: &'static str) -> Row {
    Row {
        name,
        system: System::KernelExt4,
        options,
    }
}

/// All rows. The memory limit has space for about five trees of this fragmentation.
const ROWS: [Row; 17] = [
    ours("tree-0", "allocator=freespace-tree,cache_aggression=0"),
    ours("tree-1", "allocator=freespace-tree,cache_aggression=1"),
    ours("tree-2", "allocator=freespace-tree,cache_aggression=2"),
    ours("tree-3", "allocator=freespace-tree,cache_aggression=3"),
    ours(
        "tree-0-limit",
        "allocator=freespace-tree,cache_aggression=0,freespace_memory=4194304",
    ),
    ours(
        "tree-1-limit",
        "allocator=freespace-tree,cache_aggression=1,freespace_memory=4194304",
    ),
    ours(
        "tree-2-limit",
        "allocator=freespace-tree,cache_aggression=2,freespace_memory=4194304",
    ),
    ours(
        "tree-3-limit",
        "allocator=freespace-tree,cache_aggression=3,freespace_memory=4194304",
    ),
    ours(
        "tree-1-noprefetch",
        "allocator=freespace-tree,cache_aggression=1,no_prefetch_block_bitmaps",
    ),
    ours("optimized", "allocator=optimized"),
    ours("linear", "allocator=linear"),
    // Baselines: searches load every bitmap on their way, without reading ahead and with it.
    ours(
        "cold",
        "allocator=linear,no_prefetch_block_bitmaps,lab_cold_groups",
    ),
    ours("cold-prefetch", "allocator=linear,lab_cold_groups"),
    kernel("optimized", "mb_optimize_scan=1"),
    kernel(
        "optimized-noprefetch",
        "mb_optimize_scan=1,no_prefetch_block_bitmaps",
    ),
    kernel("linear", "mb_optimize_scan=0"),
    kernel(
        "linear-noprefetch",
        "mb_optimize_scan=0,no_prefetch_block_bitmaps",
    ),
];

/// The names of all rows, without duplicates.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The rows of these names (all, when none is given) for systems that can run here.
pub(super) fn pick(wanted: &[String], systems: &[System]) -> Result<Vec<&'static Row>> {
    let known = names();
    if let Some(name) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("{name} is no row: there are {}", known.join(", "));
    }
    Ok(ROWS
        .iter()
        .filter(|row| wanted.is_empty() || wanted.iter().any(|name| name == row.name))
        .filter(|row| systems.contains(&row.system) && row.system.missing().is_none())
        .collect())
}
