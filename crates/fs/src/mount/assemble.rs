//! Assembles the engine of a mount, and does its first writes.

use super::fast_commit::Outcome;
use super::open::{Plan, Purpose};
use super::quiesce::say_in_use;
use crate::cache::dcache::{DentryMemory, SparseLeaves};
use crate::cache::extent_status::{ExtentStatus, Order};
use crate::cache::mbcache::SharedBlocks;
use crate::cache::meta::Blocks;
use crate::parts::{orphan_recovery, quota_files};
use crate::state::base::{Base, Budget, MountState, Random};
use crate::state::engine::Fs;
use crate::state::incidents::Incidents;
use crate::state::inode::{ExtraIsize, InodeFormat, Inodes, LazyTimes};
use crate::state::lifecycle::Lifecycle;
use crate::state::name_log::NameLog;
use crate::state::orphan::Orphans;
use crate::state::quota::Quota;
use crate::state::space::Space;
use crate::state::superblock::{Super, failed_write};
use crate::state::writeback::{Flusher, Pool};
use crate::types::dir_config::DirConfig;
use crate::types::error::{Error, Result};
use crate::types::memory::part_of_memory;
use crate::types::options::{Access, MountOptions, Threads};
use crate::types::settings::Settings;
use uext4_device::BlockDevice;
use uext4_format::superblock::state;
use uext4_format::{Feature, Features};
use uext4_journal::{Checksums, Config, FastCommits, Journal, Log, Start, Width};
use uext4_num::nonnegative;
use uext4_sync::atomic::AtomicU64;
use uext4_sync::{Arc, FreezeBarrier, Latest, Mutex, Rank};
use uext4_volume::mmp::MmpGuard;
use uext4_volume::{HiddenInodes, Media};

/// Default size of the metadata cache: the memory of this process divided by this, ...
const CACHE_PART: u64 = 16;
/// ... at most this many bytes.
const CACHE_BYTES_MAX: u64 = 1 << 30;

/// Limit of the caches in bytes: `metadata_cache=`, or a part of the memory.
pub(super) fn metadata_cache_bytes(options: &MountOptions) -> u64 {
    options
        .metadata_cache_bytes
        .unwrap_or_else(|| part_of_memory(CACHE_PART, CACHE_BYTES_MAX))
}

/// Builds the engine and begins the mount: marks the file system in use, frees orphans.
pub(super) fn assemble(media: Media, plan: Plan, mmp: Option<MmpGuard>) -> Result<Fs> {
    let writable = plan.options.access == Access::ReadWrite;
    let log = plan.log.clone().filter(|_| writable);
    let fs = engine(media, &plan, mmp, log)?;
    if writable {
        match plan.purpose {
            Purpose::Use => begin(&fs)?,
            Purpose::Recovery => {
                refuse_errors(&fs)?;
                fs.mark_in_use()?;
            }
        }
        if plan.recovering {
            orphan_recovery::recover(&fs)?;
        }
        fs.space.set_learning(&plan.options);
    }
    Ok(fs)
}

/// Refuses a file system with the error state, which the replay may have set: e2fsck must run.
fn refuse_errors(fs: &Fs) -> Result<()> {
    match fs.base.superblock.read().disk.state & state::ERROR {
        0 => Ok(()),
        _ => Err(Error::Mount("it is marked with errors".into())),
    }
}

/// Builds the engine without a write. `log` is the log to write to, if any.
pub(super) fn engine(
    media: Media,
    plan: &Plan,
    mmp: Option<MmpGuard>,
    log: Option<Log>,
) -> Result<Fs> {
    let device: Arc<dyn BlockDevice> = media.home.clone();
    let writable = plan.options.access == Access::ReadWrite;
    let checksums = plan.superblock.checksums();
    let incidents = Arc::new(Incidents::new(plan.geometry.block_bits));
    let space = Space::load(&device, &plan.superblock, &plan.geometry, &plan.options)?;
    space.set_incidents(&incidents);
    let journal = Journal::open(journal_config(&device, plan, &space, log))?;
    let format = InodeFormat {
        geometry: plan.geometry,
        checksums,
    };
    let block_bytes = u64::from(plan.geometry.block_size());
    let metadata_cache = Arc::new(AtomicU64::new(metadata_cache_bytes(&plan.options)));
    let base = base(device, plan, journal, incidents);
    let base_lines = plan.options.base_lines();
    let mut fs = Fs {
        base,
        space,
        inodes: Inodes::new(&metadata_cache, &format),
        hidden: HiddenInodes::of(&plan.superblock, &plan.geometry),
        lazy_times: LazyTimes::default(),
        blocks: Blocks::new(&metadata_cache, block_bytes, checksums.metadata),
        names: DentryMemory::new(&metadata_cache),
        name_hasher: Default::default(),
        name_log: NameLog::new(),
        metadata_cache,
        extent_status: Arc::new(ExtentStatus::new(
            plan.options.extent_cache_bytes,
            if base_lines.sorted_shrinker {
                Order::ByUse
            } else {
                Order::Round
            },
            plan.options.clock.clone(),
        )),
        orphans: Orphans::new(base_lines),
        quota: Quota::default(),
        delayed: Pool::new(plan.options.delalloc_memory_bytes),
        flusher: Flusher::new(),
        dirs: DirConfig::new(&plan.superblock, plan.options.max_dir_size_kib),
        sparse_leaves: SparseLeaves::default(),
        shared_xattrs: SharedBlocks::default(),
        rename: Mutex::new(Rank::Rename, ()),
        lifecycle: Mutex::new(Rank::Mount, lifecycle(media, plan, mmp)?),
        extra_isize: ExtraIsize::of(&plan.superblock, &plan.geometry),
        reclaims: AtomicU64::new(0),
    };
    fs.space.protect_journal(journal_blocks(plan));
    let file = orphan_recovery::load_file(&fs)?;
    fs.orphans.set_file(file);
    fs.quota = if writable {
        quota_files::load(&fs)?
    } else {
        quota_files::load_to_read(&fs)?
    };
    fs.quota.check(plan.options.quota_limits)?;
    fs.root()?;
    Ok(fs)
}

fn base(
    device: Arc<dyn BlockDevice>,
    plan: &Plan,
    journal: Arc<Journal>,
    incidents: Arc<Incidents>,
) -> Base {
    let block_bytes = u64::from(plan.geometry.block_size());
    let writable = plan.options.access == Access::ReadWrite;
    Base {
        device,
        geometry: Latest::new(plan.geometry),
        features: plan.superblock.features(),
        checksums: plan.superblock.checksums(),
        settings: Settings::new(&plan.options),
        journal,
        superblock: Super::new(plan.superblock.clone(), block_bytes),
        clock: plan.options.clock.clone(),
        random: Random::new(plan.options.seed),
        state: MountState::new(writable, incidents.clone()),
        incidents,
        changes: FreezeBarrier::default(),
        budget: Budget::of(&plan.options, block_bytes),
    }
}

fn lifecycle(media: Media, plan: &Plan, mmp: Option<MmpGuard>) -> Result<Lifecycle> {
    let is_read_only = plan.options.access == Access::ReadOnly;
    Ok(Lifecycle {
        options: plan.options.clone(),
        left: media.superblock_below()?,
        media,
        log: plan.log.clone(),
        mmp,
        is_frozen: false,
        keeps_fast_commits: plan.fast_commits == Outcome::Replayed && is_read_only,
        must_recover: plan.recovering && is_read_only,
    })
}

fn journal_config(
    device: &Arc<dyn BlockDevice>,
    plan: &Plan,
    space: &Arc<Space>,
    log: Option<Log>,
) -> Config {
    let features = plan.superblock.features();
    let writable = plan.options.access == Access::ReadWrite;
    let (checksums, width, fast_commits) = log_format(features, &plan.options);
    Config {
        log,
        failed_write: failed_write(plan.options.on_error, &plan.superblock),
        observer: space.clone(),
        threads: match plan.options.threads {
            Threads::Background => uext4_journal::Threads::Background,
            Threads::Inline => uext4_journal::Threads::Inline,
        },
        start: if writable { Start::Open } else { Start::Quiet },
        commit_interval: plan.options.commit_interval,
        max_batch: plan.options.max_batch,
        transaction_max_blocks: transaction_max_blocks(plan.geometry.block_size()),
        checksums,
        width,
        fast_commits,
        #[cfg(feature = "experiments")]
        tracking: plan.options.base_lines().tracking(),
        clock: plan.options.clock.clone(),
        ..Config::new(device.clone(), plan.geometry.block_size())
    }
}

/// Limit of a transaction: a sixteenth of the memory, but enough blocks to amortize its flushes.
fn transaction_max_blocks(block_bytes: u32) -> u32 {
    const MEMORY_PART: u64 = 16;
    const LEAST_BLOCKS: u32 = 4096;
    let blocks = part_of_memory(MEMORY_PART, u64::MAX) / u64::from(block_bytes);
    u32::try_from(blocks).unwrap_or(u32::MAX).max(LEAST_BLOCKS)
}

/// Encoding of the log, by the features and the mount options.
pub(super) fn log_format(
    features: Features,
    options: &MountOptions,
) -> (Checksums, Width, FastCommits) {
    let by_feature = features.has(Feature::METADATA_CSUM);
    let checksums = if options.journal_checksum.unwrap_or(by_feature) {
        Checksums::V3
    } else {
        Checksums::None
    };
    let width = if features.has(Feature::SIXTY_FOUR_BIT) {
        Width::Wide
    } else {
        Width::Narrow
    };
    // Records have neither the usage of owners nor the clusters that two ranges share.
    let unrecorded = [Feature::QUOTA, Feature::BIGALLOC];
    let is_recorded = !unrecorded.iter().any(|feature| features.has(*feature));
    let fast_commits = if features.has(Feature::FAST_COMMIT) && is_recorded {
        FastCommits::Written
    } else {
        FastCommits::Never
    };
    (checksums, width, fast_commits)
}

/// Blocks of the file system's own device that hold the log. The inode may have more behind them.
fn journal_blocks(plan: &Plan) -> Vec<std::ops::Range<u64>> {
    let internal = plan.superblock.journal_inum != 0;
    let Some(log) = plan.log.as_ref().filter(|_| internal) else {
        return Vec::new();
    };
    let superblock = uext4_journal::recovery::read_superblock(log, plan.geometry.block_size());
    let len_blocks = superblock.map_or(log.len_blocks, |found| found.max_len_blocks);
    log.runs
        .iter()
        .map(|run| {
            let len = len_blocks.saturating_sub(run.log_start).min(run.len);
            run.device_block..run.device_block + u64::from(len)
        })
        .collect()
}

/// Marks the file system in use. The mark must be durable before any other write.
pub(super) fn begin(fs: &Fs) -> Result<()> {
    let now = fs.now();
    let handle = fs.start(1)?;
    {
        let mut state = handle.write(&fs.base.superblock);
        state.disk.mtime = nonnegative(now.seconds);
        state.disk.mnt_count = state.disk.mnt_count.saturating_add(1);
        say_in_use(&mut state);
    }
    drop(handle);
    super::close::write_superblock(fs)?;
    fs.base.journal.flush_device()?;
    Ok(fs.base.journal.commit_running()?)
}
