//! Table of Prometheus metrics: name, place in the JSON, help.

/// Source of the samples of a metric.
pub(super) enum Samples {
    /// One number at this JSON pointer.
    One(&'static str),
    /// One field of every value of the object at this pointer; the key becomes the label.
    Keys(&'static str, &'static str, &'static str),
    /// One field of every element of the list at this pointer; another field becomes the label.
    List(&'static str, &'static str, &'static str),
}

use Samples::{Keys, List, One};

pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Samples,
}

const fn metric(name: &'static str, samples: Samples, help: &'static str) -> Metric {
    Metric {
        name,
        help,
        samples,
    }
}

/// All metrics except `uext4_info` and the histogram.
pub(super) const METRICS: &[Metric] = &[
    metric(
        "uext4_free_clusters",
        One("/space/free_clusters"),
        "Free clusters that are not claimed.",
    ),
    metric(
        "uext4_preallocated_clusters",
        One("/space/preallocated_clusters"),
        "Of the free clusters, those held in advance for files and threads.",
    ),
    metric(
        "uext4_delayed_clusters",
        One("/space/delayed_clusters"),
        "Clusters claimed for data that wait for their blocks.",
    ),
    metric(
        "uext4_delayed_tree_clusters",
        One("/space/delayed_tree_clusters"),
        "Clusters claimed for the maps of files whose data wait.",
    ),
    metric(
        "uext4_delayed_bytes",
        One("/space/delayed_bytes"),
        "Data that wait for their blocks.",
    ),
    metric(
        "uext4_pending_clusters",
        One("/space/pending_clusters"),
        "Freed clusters that wait for a commit.",
    ),
    metric(
        "uext4_free_inodes",
        One("/space/free_inodes"),
        "Free inodes.",
    ),
    metric(
        "uext4_alloc_requests_total",
        One("/allocator/requests"),
        "Requests for clusters.",
    ),
    metric(
        "uext4_alloc_success_total",
        One("/allocator/success"),
        "Requests that got at least what they needed.",
    ),
    metric(
        "uext4_alloc_clusters_total",
        One("/allocator/clusters"),
        "Clusters handed out.",
    ),
    metric(
        "uext4_alloc_groups_scanned_total",
        One("/allocator/groups_scanned"),
        "Groups whose free space was searched under the lock.",
    ),
    metric(
        "uext4_alloc_goal_hits_total",
        One("/allocator/goal_hits"),
        "Requests served exactly at their goal.",
    ),
    metric(
        "uext4_alloc_length_goal_hits_total",
        One("/allocator/length_goal_hits"),
        "Requests that got all that they wanted.",
    ),
    metric(
        "uext4_alloc_stream_goal_hits_total",
        One("/allocator/stream_goal_hits"),
        "Stream requests served in the group of their stream goal.",
    ),
    metric(
        "uext4_alloc_busy_skips_total",
        One("/allocator/busy_skips"),
        "Groups passed over because their lock was taken.",
    ),
    metric(
        "uext4_alloc_breaks_total",
        One("/allocator/breaks"),
        "Searches ended by mb_max_to_scan.",
    ),
    metric(
        "uext4_alloc_lost_total",
        One("/allocator/lost"),
        "Remembered best runs that another thread took.",
    ),
    metric(
        "uext4_alloc_loads_total",
        One("/allocator/loads"),
        "Bitmaps turned into buddy levels or trees.",
    ),
    metric(
        "uext4_alloc_load_seconds_total",
        One("/allocator/load_ns"),
        "Time that this took, without reading.",
    ),
    metric(
        "uext4_alloc_surveys_total",
        One("/allocator/surveys"),
        "Regions or groups whose free runs were looked at, and not kept.",
    ),
    metric(
        "uext4_alloc_bitmaps_read_total",
        One("/allocator/bitmaps_read"),
        "Block bitmaps read from the device.",
    ),
    metric(
        "uext4_alloc_bitmaps_ahead_total",
        One("/allocator/bitmaps_ahead"),
        "Block bitmaps that the device was told of ahead of their use.",
    ),
    metric(
        "uext4_alloc_evictions_total",
        One("/allocator/evictions"),
        "Groups or trees dropped from memory.",
    ),
    metric(
        "uext4_alloc_preallocated_clusters_total",
        One("/allocator/preallocated"),
        "Clusters taken in advance.",
    ),
    metric(
        "uext4_alloc_discarded_clusters_total",
        One("/allocator/discarded"),
        "Clusters taken in advance and given back unused.",
    ),
    metric(
        "uext4_alloc_deferred_frees_total",
        One("/allocator/deferred_frees"),
        "Runs whose free was put off until a commit.",
    ),
    metric(
        "uext4_alloc_deferred_merges_total",
        One("/allocator/deferred_merges"),
        "Such runs that were merged with a neighbour at once.",
    ),
    metric(
        "uext4_alloc_give_back_groups_total",
        One("/allocator/give_back_groups"),
        "Groups given back to by commits.",
    ),
    metric(
        "uext4_alloc_criterion_hits_total",
        Keys("/criteria", "criterion", "hits"),
        "Requests served by a criterion.",
    ),
    metric(
        "uext4_alloc_criterion_groups_considered_total",
        Keys("/criteria", "criterion", "groups_considered"),
        "Groups that the summary was asked about.",
    ),
    metric(
        "uext4_alloc_criterion_extents_scanned_total",
        Keys("/criteria", "criterion", "extents_scanned"),
        "Free runs looked at.",
    ),
    metric(
        "uext4_alloc_criterion_useless_loops_total",
        Keys("/criteria", "criterion", "useless_loops"),
        "Passes over the groups that found nothing.",
    ),
    metric(
        "uext4_groups_by_largest",
        List("/orders", "order", "groups_by_largest"),
        "Groups whose largest free chunk has this order.",
    ),
    metric(
        "uext4_groups_by_average",
        List("/orders", "order", "groups_by_average"),
        "Groups whose average free run has this order.",
    ),
    metric(
        "uext4_trees_used_bytes",
        One("/trees/used_bytes"),
        "Memory of the free-space trees.",
    ),
    metric(
        "uext4_trees_limit_bytes",
        One("/trees/limit_bytes"),
        "Memory that free-space trees may use.",
    ),
    metric(
        "uext4_trees_loads_total",
        One("/trees/loads"),
        "Free-space trees built.",
    ),
    metric(
        "uext4_trees_evictions_total",
        One("/trees/evictions"),
        "Free-space trees dropped.",
    ),
    metric(
        "uext4_trees_cached",
        One("/trees/cached"),
        "Free-space trees in memory.",
    ),
    metric(
        "uext4_trees_unknown_regions",
        One("/trees/unknown_regions"),
        "Regions whose longest free run is not known yet.",
    ),
    metric(
        "uext4_cache_entries",
        Keys("/caches", "cache", "entries"),
        "Objects in memory.",
    ),
    metric(
        "uext4_cache_idle",
        Keys("/caches", "cache", "idle"),
        "Unused objects in memory.",
    ),
    metric(
        "uext4_cache_bytes",
        Keys("/caches", "cache", "bytes"),
        "Bytes of these objects, without what hangs on them.",
    ),
    metric(
        "uext4_cache_hits_total",
        Keys("/caches", "cache", "hits"),
        "Look-ups that found their object.",
    ),
    metric(
        "uext4_cache_misses_total",
        Keys("/caches", "cache", "misses"),
        "Look-ups that did not.",
    ),
    metric(
        "uext4_cache_evictions_total",
        Keys("/caches", "cache", "evictions"),
        "Objects that made room for others.",
    ),
    metric(
        "uext4_nodes_known",
        One("/nodes/known"),
        "Inodes that the kernel remembers.",
    ),
    metric(
        "uext4_nodes_held",
        One("/nodes/held"),
        "Of these, open or without a name: they stay in memory.",
    ),
    metric(
        "uext4_nodes_bytes",
        One("/nodes/bytes"),
        "Memory of the table of these.",
    ),
    metric(
        "uext4_reads_in_place_total",
        One("/reads_in_place"),
        "Reads answered with pages of the image.",
    ),
    metric(
        "uext4_memory_reliefs_total",
        One("/memory_reliefs"),
        "Times that memory was short and caches gave some back.",
    ),
    metric(
        "uext4_name_table_bytes",
        One("/name_table_bytes"),
        "Memory of the tables that say what names in directories mean.",
    ),
    metric(
        "uext4_extent_status_entries",
        One("/extent_status/entries"),
        "Extents known of the maps of files.",
    ),
    metric(
        "uext4_extent_status_used_bytes",
        One("/extent_status/used_bytes"),
        "Their memory.",
    ),
    metric(
        "uext4_extent_status_budget_bytes",
        One("/extent_status/budget_bytes"),
        "Memory that they may use.",
    ),
    metric(
        "uext4_extent_status_files",
        One("/extent_status/files"),
        "Files with something known.",
    ),
    metric(
        "uext4_extent_status_hits_total",
        One("/extent_status/hits"),
        "Look-ups that found their extent.",
    ),
    metric(
        "uext4_extent_status_misses_total",
        One("/extent_status/misses"),
        "Look-ups that did not.",
    ),
    metric(
        "uext4_extent_status_shrinker_calls_total",
        One("/extent_status/shrinker_calls"),
        "Rounds of the shrinker.",
    ),
    metric(
        "uext4_extent_status_shrinker_scanned_total",
        One("/extent_status/shrinker_scanned"),
        "Extents that it looked at.",
    ),
    metric(
        "uext4_extent_status_shrinker_dropped_total",
        One("/extent_status/shrinker_dropped"),
        "Extents that it dropped.",
    ),
    metric(
        "uext4_extent_status_shrinker_seconds_total",
        One("/extent_status/shrinker_ns"),
        "Time of these rounds.",
    ),
    metric(
        "uext4_extent_status_worst_call_seconds",
        One("/extent_status/worst_call_ns"),
        "The longest round.",
    ),
    metric(
        "uext4_extent_status_shrinker_thread_seconds_total",
        One("/extent_status/shrinker_thread_ns"),
        "Time that these rounds had a processor.",
    ),
    metric(
        "uext4_extent_status_worst_call_thread_seconds",
        One("/extent_status/worst_call_thread_ns"),
        "The most time that a round had a processor.",
    ),
    metric(
        "uext4_extent_status_tail_call_seconds",
        One("/extent_status/p999_call_ns"),
        "999 of 1000 rounds took at most this.",
    ),
    metric(
        "uext4_extent_status_tail_call_thread_seconds",
        One("/extent_status/p999_call_thread_ns"),
        "999 of 1000 rounds had a processor for at most this.",
    ),
    metric(
        "uext4_journal_transactions_total",
        One("/journal/transactions"),
        "Transactions committed.",
    ),
    metric(
        "uext4_journal_requested_total",
        One("/journal/requested"),
        "Transactions committed on request.",
    ),
    metric(
        "uext4_journal_handles_total",
        One("/journal/handles"),
        "Handles that ended.",
    ),
    metric(
        "uext4_journal_handle_waits_total",
        One("/journal/handle_waits"),
        "Handles that waited for a transaction.",
    ),
    metric(
        "uext4_journal_handle_wait_seconds_total",
        One("/journal/handle_wait_ns"),
        "How long they waited.",
    ),
    metric(
        "uext4_journal_running_seconds_total",
        One("/journal/running_ns"),
        "From the first change of a transaction until no handle could join it.",
    ),
    metric(
        "uext4_journal_commit_seconds_total",
        One("/journal/commit_ns"),
        "From then to the end of the commit.",
    ),
    metric(
        "uext4_journal_drain_seconds_total",
        One("/journal/drain_ns"),
        "Commit phase: no handle could start.",
    ),
    metric(
        "uext4_journal_render_seconds_total",
        One("/journal/render_ns"),
        "Commit phase: rendering, and reading what was not rendered.",
    ),
    metric(
        "uext4_journal_encode_seconds_total",
        One("/journal/encode_ns"),
        "Commit phase: checksums and descriptors of the log.",
    ),
    metric(
        "uext4_journal_write_seconds_total",
        One("/journal/write_ns"),
        "Commit phase: writing the log.",
    ),
    metric(
        "uext4_journal_flush_seconds_total",
        One("/journal/flush_ns"),
        "Commit phase: flushing.",
    ),
    metric(
        "uext4_journal_publish_seconds_total",
        One("/journal/publish_ns"),
        "Commit phase: publishing what was committed.",
    ),
    metric(
        "uext4_journal_image_blocks_total",
        One("/journal/image_blocks"),
        "Images committed, in blocks.",
    ),
    metric(
        "uext4_journal_log_blocks_total",
        One("/journal/log_blocks"),
        "Blocks written to the log.",
    ),
    metric(
        "uext4_journal_revoked_blocks_total",
        One("/journal/revoked_blocks"),
        "Blocks revoked.",
    ),
    metric(
        "uext4_journal_checkpoints_total",
        One("/journal/checkpoints"),
        "Passes of checkpoints.",
    ),
    metric(
        "uext4_journal_checkpoint_seconds_total",
        One("/journal/checkpoint_ns"),
        "Time of these passes.",
    ),
    metric(
        "uext4_journal_bookkeeping_seconds_total",
        One("/journal/bookkeeping_ns"),
        "Time to note which images are the newest and which went home.",
    ),
    metric(
        "uext4_journal_freeing_seconds_total",
        One("/journal/freeing_ns"),
        "Time to free images that were replaced, went home or were revoked.",
    ),
    metric(
        "uext4_journal_checkpointed_blocks_total",
        One("/journal/checkpointed_blocks"),
        "Blocks written home by checkpoints.",
    ),
    metric(
        "uext4_journal_waiting_blocks",
        One("/journal/waiting_blocks"),
        "Committed images that wait for their home write.",
    ),
    metric(
        "uext4_journal_log_len_blocks",
        One("/journal/log_len_blocks"),
        "Blocks of the log that transactions can use.",
    ),
    metric(
        "uext4_journal_log_free_blocks",
        One("/journal/log_free_blocks"),
        "Of these, not in use now.",
    ),
    metric(
        "uext4_journal_transaction_limit_blocks",
        One("/journal/transaction_limit_blocks"),
        "Most blocks of one transaction.",
    ),
    metric(
        "uext4_fast_commit_commits_total",
        One("/fast_commits/commits"),
        "Fast commits.",
    ),
    metric(
        "uext4_fast_commit_blocks_total",
        One("/fast_commits/blocks"),
        "Blocks of fast commits.",
    ),
    metric(
        "uext4_fast_commit_bytes_total",
        One("/fast_commits/bytes"),
        "Bytes of their records.",
    ),
    metric(
        "uext4_fast_commit_inodes_total",
        One("/fast_commits/inodes"),
        "Inodes in their records.",
    ),
    metric(
        "uext4_fast_commit_write_seconds_total",
        One("/fast_commits/write_ns"),
        "Time to write and flush them.",
    ),
    metric(
        "uext4_lock_waits_total",
        List("/locks", "rank", "waits"),
        "Acquisitions that found a lock of this rank taken.",
    ),
    metric(
        "uext4_lock_wait_seconds_total",
        List("/locks", "rank", "wait_ns"),
        "How long they waited.",
    ),
    metric(
        "uext4_request_errors_total",
        List("/requests", "name", "errors"),
        "Requests of the kernel that were answered with an error.",
    ),
];
