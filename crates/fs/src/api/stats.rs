//! Statistics of a mounted file system.

use crate::cache::clock::Counts;
use crate::cache::extent_status::ExtentStatusStats;
use crate::ops::filesystem::Filesystem;
use crate::state::inode::Inode;
use serde::Serialize;
use std::collections::BTreeMap;
use uext4_alloc::{Criterion, Effort, Stat};
use uext4_format::GroupNr;
use uext4_journal::FullReason;
use uext4_num::u64_of;
use uext4_sync::atomic::Ordering::Relaxed;

/// All statistics; see [`Filesystem::stats`].
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Name of the allocator, as in `allocator=`.
    pub engine: &'static str,
    /// Counters of the allocator since the mount (`mb_stats`), by name.
    pub allocator: BTreeMap<&'static str, u64>,
    /// Results and cost of the passes by each criterion (`mb_stats`), by name.
    pub criteria: BTreeMap<&'static str, CriterionStats>,
    /// Clusters and inodes by state, at present.
    pub space: SpaceStats,
    /// Groups by the size of their free space (`mb_structs_summary`); empty for free-space trees.
    pub orders: Vec<OrderStats>,
    /// Memory of the free-space trees; `None` for buddy groups.
    pub trees: Option<TreeStats>,
    /// Commits and checkpoints of the journal.
    pub journal: JournalStats,
    /// Number, length and content of fast commits.
    pub fast_commits: FastCommitStats,
    /// Requests that took a full commit instead, by reason; one may have several.
    pub full_commits: BTreeMap<&'static str, u64>,
    /// Waits for locks since the process started, in the lock order.
    pub locks: Vec<LockStats>,
    /// Objects in the caches of inodes and metadata blocks.
    pub caches: CacheStats,
    /// The extent status cache (`es_shrinker_info`).
    pub extent_status: ExtentStatusStats,
    /// Calls of [`Filesystem::reclaim_memory`] since the mount.
    pub memory_reliefs: u64,
    /// Memory of the dentry cache, in bytes.
    pub name_table_bytes: u64,
}

/// Passes over the groups by one criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CriterionStats {
    /// Requests that this criterion served.
    pub hits: u64,
    /// Groups examined by their summary.
    pub groups_considered: u64,
    /// Free runs that searches examined.
    pub extents_scanned: u64,
    /// Passes that found nothing.
    pub useless_loops: u64,
}

/// Clusters by state, at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SpaceStats {
    /// Free and not claimed; those that wait for a commit are `pending_clusters`.
    pub free_clusters: u64,
    /// Of these, preallocated for files and threads.
    pub preallocated_clusters: u64,
    /// Reserved for delayed allocation (`delayed_allocation_blocks`).
    pub delayed_clusters: u64,
    /// Reserved for the map blocks of delayed allocation.
    pub delayed_tree_clusters: u64,
    /// Bytes of data with delayed allocation.
    pub delayed_bytes: u64,
    /// Freed, and waiting for a commit.
    pub pending_clusters: u64,
    /// Inodes that are not in use.
    pub free_inodes: u64,
}

/// Groups of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OrderStats {
    /// Power of two, in clusters.
    pub order: u32,
    /// Groups with a largest free chunk of this order.
    pub groups_by_largest: u32,
    /// Groups with an average free run of this order.
    pub groups_by_average: u32,
}

/// Memory of the free-space trees of `allocator=freespace-tree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TreeStats {
    /// Bytes they use (`frsp_tree_usage`).
    pub used_bytes: u64,
    /// Bytes they may use.
    pub limit_bytes: u64,
    /// Trees built since the mount.
    pub loads: u64,
    /// Trees dropped since the mount.
    pub evictions: u64,
    /// Trees in memory now.
    pub cached: u64,
    /// Regions with an unknown longest free run.
    pub unknown_regions: u64,
}

/// As `/proc/fs/jbd2/*/info`, with the time spent in each phase of the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JournalStats {
    /// Number of committed transactions.
    pub transactions: u64,
    /// Of these, requested; the others were due.
    pub requested: u64,
    /// Limit of one transaction, in blocks.
    pub transaction_limit_blocks: u32,
    /// Number of handles that ended.
    pub handles: u64,
    /// Handles that had to wait for a transaction.
    pub handle_waits: u64,
    /// Total time that handles waited.
    pub handle_wait_ns: u64,
    /// Time from the first change of a transaction until no handle could join it any more.
    pub running_ns: u64,
    /// Time from then to the end of the commit; the phases below are parts of it.
    pub commit_ns: u64,
    /// Images committed, in blocks.
    pub image_blocks: u64,
    /// Blocks written to the log.
    pub log_blocks: u64,
    /// Blocks named in revoke records of the log.
    pub revoked_blocks: u64,
    /// Blocks written home by checkpoints.
    pub checkpointed_blocks: u64,
    /// Number of passes of checkpoints.
    pub checkpoints: u64,
    /// Time of these passes.
    pub checkpoint_ns: u64,
    /// Time to record the newest images and those written home, in commits and checkpoints.
    pub bookkeeping_ns: u64,
    /// Time to free images that were superseded, written home, or of freed blocks.
    pub freeing_ns: u64,
    /// Committed images that wait for their home write, in blocks.
    pub waiting_blocks: u64,
    /// Blocks of the log that transactions can use; 0 without a log.
    pub log_len_blocks: u32,
    /// Of these, not in use now.
    pub log_free_blocks: u32,
    /// Time in which no handle could start.
    pub drain_ns: u64,
    /// Time to render and merge images.
    pub render_ns: u64,
    /// Time to checksum and describe what goes to the log.
    pub encode_ns: u64,
    /// Time to write the log.
    pub write_ns: u64,
    /// Time to flush the devices, in nanoseconds.
    pub flush_ns: u64,
    /// Time to publish the committed images.
    pub publish_ns: u64,
}

/// Fast commits (feature `fast_commit`), as `/proc/fs/ext4/*/fc_info`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FastCommitStats {
    /// Number of fast commits of any length.
    pub commits: u64,
    /// Those of one block.
    pub of_one_block: u64,
    /// Those of two blocks.
    pub of_two_blocks: u64,
    /// Fast commits of three blocks or more.
    pub of_more_blocks: u64,
    /// Blocks that all fast commits wrote.
    pub blocks: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Inodes in their records.
    pub inodes: u64,
    /// Time to write and flush them.
    pub write_ns: u64,
}

/// Waits for the locks of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockStats {
    /// Name of the rank in [`uext4_sync::Rank`].
    pub rank: String,
    /// Acquisitions that found the lock taken.
    pub waits: u64,
    /// Total time of these waits, in nanoseconds.
    pub wait_ns: u64,
}

/// Objects in the caches of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// The inode cache.
    pub inodes: CacheCounts,
    /// Metadata blocks: directories, maps, attributes.
    pub blocks: CacheCounts,
}

/// State and use of one cache (`es_shrinker_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheCounts {
    /// Number of objects in the cache.
    pub entries: u64,
    /// Of these, held only by the cache: they may be evicted.
    pub idle: u64,
    /// Bytes of the objects, the name tables of leaves and the block lists of directories; without
    /// other heap memory of inodes.
    pub bytes: u64,
    /// Look-ups that found their object.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Number of objects that were evicted.
    pub evictions: u64,
}

/// One row of `mb_groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupStats {
    /// Number of the group, from 0.
    pub group: u32,
    /// Clusters that can be allocated.
    pub free_clusters: u32,
    /// Free runs; 0 while the bitmap is not loaded.
    pub fragments: u32,
    /// Offset of the first free cluster.
    pub first_free: Option<u32>,
    /// Free chunks per order; empty while the bitmap is not loaded.
    pub chunks: Vec<u32>,
}

impl Filesystem {
    /// Current statistics. Takes no lock that operations wait for.
    pub fn stats(&self) -> Stats {
        Stats {
            engine: self.fs.space.engine().name(),
            allocator: self.allocator_stats(),
            criteria: self.criterion_stats(),
            space: self.space_stats(),
            orders: self.order_stats(),
            trees: self.tree_stats(),
            journal: self.journal_stats(),
            fast_commits: self.fast_commit_stats(),
            full_commits: self.full_commit_stats(),
            locks: lock_stats(),
            caches: CacheStats {
                inodes: cache_counts(self.fs.inodes.counts(), size_of::<Inode>()),
                blocks: cache_counts(self.fs.blocks.counts(), self.fs.block_size()),
            },
            extent_status: self.fs.extent_status.stats(),
            memory_reliefs: self.fs.reclaims.load(Relaxed),
            name_table_bytes: self.fs.names.used_bytes(),
        }
    }

    /// The rows of `mb_groups`, one per group.
    pub fn group_stats(&self) -> impl Iterator<Item = GroupStats> + '_ {
        (0..self.fs.base.geometry.group_count).map(|nr| {
            let report = self.fs.space.engine().report(GroupNr(nr));
            GroupStats {
                group: nr,
                free_clusters: report.free_clusters,
                fragments: report.fragments,
                first_free: report.first_free,
                chunks: report.chunks,
            }
        })
    }

    fn allocator_stats(&self) -> BTreeMap<&'static str, u64> {
        let stats = self.fs.space.engine().stats();
        Stat::NAMES
            .into_iter()
            .map(|(stat, name)| (name, stats.get(stat)))
            .collect()
    }

    fn criterion_stats(&self) -> BTreeMap<&'static str, CriterionStats> {
        let stats = self.fs.space.engine().stats();
        Criterion::ALL
            .into_iter()
            .map(|(criterion, name)| {
                let row = CriterionStats {
                    hits: stats.get(criterion.hits()),
                    groups_considered: stats.effort(criterion, Effort::GroupsConsidered),
                    extents_scanned: stats.effort(criterion, Effort::ExtentsScanned),
                    useless_loops: stats.effort(criterion, Effort::UselessLoops),
                };
                (name, row)
            })
            .collect()
    }

    fn space_stats(&self) -> SpaceStats {
        let space = &self.fs.space;
        SpaceStats {
            free_clusters: space.unclaimed_clusters(),
            preallocated_clusters: space.preallocated_clusters(),
            delayed_clusters: space.delayed_clusters(),
            delayed_tree_clusters: space.delayed_tree_clusters(),
            delayed_bytes: self.fs.delayed.bytes(),
            pending_clusters: space.engine().pending().clusters(),
            free_inodes: self.statfs().inodes_free,
        }
    }

    fn order_stats(&self) -> Vec<OrderStats> {
        let counts = self.fs.space.engine().groups_by_order();
        (0..)
            .zip(counts)
            .map(
                |(order, (groups_by_largest, groups_by_average))| OrderStats {
                    order,
                    groups_by_largest,
                    groups_by_average,
                },
            )
            .collect()
    }

    fn tree_stats(&self) -> Option<TreeStats> {
        let engine = self.fs.space.engine();
        let memory = engine.tree_memory()?;
        // Evictions first: a tree evicted in between was loaded before, so the difference stays
        // valid.
        let evictions = engine.stats().get(Stat::Evictions);
        let loads = engine.stats().get(Stat::Loads);
        Some(TreeStats {
            used_bytes: memory.used_bytes,
            limit_bytes: memory.limit_bytes,
            loads,
            evictions,
            cached: loads.saturating_sub(evictions),
            unknown_regions: engine.unknown_regions().into(),
        })
    }

    fn journal_stats(&self) -> JournalStats {
        let stats = self.fs.base.journal.stats();
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        JournalStats {
            transactions: stats.transactions,
            requested: stats.requested,
            handle_waits: stats.handle_waits,
            handle_wait_ns: ns(stats.handle_wait),
            running_ns: ns(stats.running),
            commit_ns: ns(stats.commit),
            checkpoints: stats.checkpoints,
            checkpoint_ns: ns(stats.checkpoint),
            bookkeeping_ns: ns(stats.bookkeeping),
            freeing_ns: ns(stats.freeing),
            waiting_blocks: stats.waiting_blocks,
            log_len_blocks: stats.log_len_blocks,
            log_free_blocks: stats.log_free_blocks,
            transaction_limit_blocks: stats.transaction_limit_blocks,
            handles: stats.handles,
            image_blocks: stats.image_blocks,
            log_blocks: stats.log_blocks,
            revoked_blocks: stats.revoked_blocks,
            checkpointed_blocks: stats.checkpointed_blocks,
            drain_ns: ns(stats.drain),
            render_ns: ns(stats.render),
            encode_ns: ns(stats.encode),
            write_ns: ns(stats.write),
            flush_ns: ns(stats.flush),
            publish_ns: ns(stats.publish),
        }
    }
}

impl Filesystem {
    fn fast_commit_stats(&self) -> FastCommitStats {
        let fast = self.fs.base.journal.stats().fast;
        let [of_one_block, of_two_blocks, of_more_blocks] = fast.by_blocks;
        FastCommitStats {
            commits: fast.commits,
            of_one_block,
            of_two_blocks,
            of_more_blocks,
            blocks: fast.blocks,
            bytes: fast.bytes,
            inodes: fast.inodes,
            write_ns: u64::try_from(fast.time.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn full_commit_stats(&self) -> BTreeMap<&'static str, u64> {
        let full = self.fs.base.journal.stats().fast.full;
        let reasons = FullReason::ALL.iter().map(|reason| reason.name());
        reasons.zip(full).collect()
    }
}

fn lock_stats() -> Vec<LockStats> {
    uext4_sync::lock_waits()
        .into_iter()
        .map(|wait| LockStats {
            rank: format!("{:?}", wait.rank),
            waits: wait.waits,
            wait_ns: wait.wait_ns,
        })
        .collect()
}

fn cache_counts(counts: Counts, object_bytes: usize) -> CacheCounts {
    CacheCounts {
        entries: counts.entries,
        idle: counts.idle,
        bytes: counts.entries * u64_of(object_bytes) + counts.more_bytes,
        hits: counts.hits,
        misses: counts.misses,
        evictions: counts.evictions,
    }
}
