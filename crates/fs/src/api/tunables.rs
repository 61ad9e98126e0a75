//! Allocation limits that may change while mounted, by their names in `/sys/fs/ext4`.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::types::error::{Error, Result};
use uext4_num::clamp_u32;
use uext4_sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

enum Slot<'a> {
    Word(&'a AtomicU32),
    Bytes(&'a AtomicU64),
    /// A number that cannot be set.
    Reading(u64),
}

impl Filesystem {
    /// Every name that [`Self::tunable`] knows.
    pub const TUNABLES: [&'static str; 18] = [
        "mb_stream_req",
        "mb_group_prealloc",
        "mb_max_to_scan",
        "mb_min_to_scan",
        "mb_order2_req",
        "mb_max_linear_groups",
        "mb_best_avail_max_trim_order",
        "mb_prefetch",
        "mb_prefetch_limit",
        "mb_frsp_max_mem",
        "frsp_cache_aggression",
        "frsp_tree_usage",
        "mb_preallocated",
        "extent_cache",
        "metadata_cache",
        "delalloc_memory",
        "delalloc_expire_centisecs",
        "delayed_allocation_blocks",
    ];

    /// The value now; `None` for a name that is not in [`Self::TUNABLES`]. `mb_stream_req` is in
    /// blocks, `mb_group_prealloc`, `mb_preallocated` and `delayed_allocation_blocks` in
    /// clusters, `mb_frsp_max_mem`, `frsp_tree_usage`, `extent_cache`, `metadata_cache` and
    /// `delalloc_memory` in bytes.
    pub fn tunable(&self, name: &str) -> Option<u64> {
        Some(match slot(&self.fs, name)? {
            Slot::Word(value) => value.load(Relaxed).into(),
            Slot::Bytes(value) => value.load(Relaxed),
            Slot::Reading(value) => value,
        })
    }

    /// Sets a value; requests that begin later see it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown name, [`Error::NotPermitted`] for a read-only one,
    /// [`Error::Invalid`] for a value out of range, or if the allocator in use does not read it.
    pub fn set_tunable(&self, name: &str, value: u64) -> Result<()> {
        let slot = slot(&self.fs, name).ok_or(Error::NotFound)?;
        let max = match name {
            "mb_group_prealloc" => u64::from(self.fs.base.geometry.clusters_per_group),
            "frsp_cache_aggression" => 3,
            _ => u64::from(u32::MAX),
        };
        match slot {
            Slot::Reading(_) => Err(Error::NotPermitted),
            Slot::Word(_) if value > max || (name == "mb_group_prealloc" && value == 0) => {
                Err(Error::Invalid("the value is out of range"))
            }
            Slot::Word(slot) => {
                self.check_looked_at(name)?;
                slot.store(clamp_u32(value), Relaxed); // at most `max`
                Ok(())
            }
            Slot::Bytes(slot) => {
                self.check_looked_at(name)?;
                slot.store(value, Relaxed);
                Ok(())
            }
        }
    }

    /// Refuses a value that the allocator in use does not read.
    fn check_looked_at(&self, name: &str) -> Result<()> {
        let engine = self.fs.space.engine().name();
        let wanted = LOOKED_AT.iter().find(|(these, ..)| these.contains(&name));
        match wanted {
            Some((_, engines, why)) if !engines.contains(&engine) => Err(Error::Invalid(why)),
            _ => Ok(()),
        }
    }
}

/// Allocators that read a tunable, where not all of them do, and the error text for the others.
const LOOKED_AT: &[(&[&str], &[&str], &str)] = &[
    (
        &["mb_frsp_max_mem", "frsp_cache_aggression"],
        &["freespace-tree"],
        "only allocator=freespace-tree looks at it",
    ),
    (
        &["mb_order2_req", "mb_prefetch", "mb_prefetch_limit"],
        &["linear", "optimized"],
        "allocator=freespace-tree does not look at it",
    ),
    (
        &["mb_max_linear_groups", "mb_best_avail_max_trim_order"],
        &["optimized"],
        "only allocator=optimized looks at it",
    ),
];

fn slot<'a>(fs: &'a Fs, name: &str) -> Option<Slot<'a>> {
    let engine = fs.space.engine();
    let (limits, shaping) = (engine.tunables(), fs.space.shaping());
    Some(match name {
        "mb_stream_req" => Slot::Word(&shaping.stream_req_blocks),
        "mb_group_prealloc" => Slot::Word(&shaping.group_prealloc_clusters),
        "mb_max_to_scan" => Slot::Word(&limits.max_to_scan),
        "mb_min_to_scan" => Slot::Word(&limits.min_to_scan),
        "mb_order2_req" => Slot::Word(&limits.order2_req),
        "mb_max_linear_groups" => Slot::Word(&limits.max_linear_groups),
        "mb_best_avail_max_trim_order" => Slot::Word(&limits.best_avail_max_trim_order),
        "mb_prefetch" => Slot::Word(&limits.prefetch),
        "mb_prefetch_limit" => Slot::Word(&limits.prefetch_limit),
        "mb_frsp_max_mem" => Slot::Bytes(&limits.freespace_memory_bytes),
        "frsp_cache_aggression" => Slot::Word(&limits.cache_aggression),
        "frsp_tree_usage" => {
            Slot::Reading(engine.tree_memory().map_or(0, |memory| memory.used_bytes))
        }
        "mb_preallocated" => Slot::Reading(fs.space.preallocated_clusters()),
        "extent_cache" => Slot::Bytes(fs.extent_status.budget_bytes()),
        "metadata_cache" => Slot::Bytes(&fs.metadata_cache),
        "delalloc_memory" => Slot::Bytes(&fs.delayed.limit_bytes),
        "delalloc_expire_centisecs" => Slot::Word(&fs.delayed.expire_centisecs),
        "delayed_allocation_blocks" => Slot::Reading(fs.space.delayed_clusters()),
        _ => return None,
    })
}
