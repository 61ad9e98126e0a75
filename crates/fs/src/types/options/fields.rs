//! The options of a mount as data, and their defaults.

use crate::types::base_lines::BaseLines;
use std::time::Duration;
use uext4_device::BlockDevice;
use uext4_sync::Arc;
use uext4_volume::{Access, OpenOptions, Purpose};

/// Reaction to damage (`errors=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The setting of the superblock (`s_errors`) decides.
    Superblock,
    /// The operation fails, and the mount goes on.
    Continue,
    /// The mount writes nothing any more.
    RemountReadOnly,
    /// The kernel would panic. Handled as `RemountReadOnly`, because a server must not stop its
    /// machine.
    Panic,
}

/// Journalling mode of data (`data=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMode {
    /// Data is on the device before the transaction that maps it.
    Ordered,
    /// Any order is allowed. Handled as `Ordered`, which is one such order.
    Writeback,
    /// Data go through the journal. Not supported: a mount option for it is refused, and a
    /// superblock default for it ([`crate::Filesystem::wants_data_journal`]) is handled as
    /// `Ordered`.
    Journal,
}

/// Which threads do the background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Commit and checkpoint threads run beside the callers.
    Background,
    /// No threads: callers do the work, so that runs are deterministic.
    Inline,
}

/// How free space is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Buddy groups, scanned in order (`allocator=linear`, `mb_optimize_scan=0`).
    Linear,
    /// Buddy groups, found by their largest and average free run (`allocator=optimized`,
    /// `mb_optimize_scan=1`).
    Optimized,
    /// Trees of free extents per flex group (`allocator=freespace-tree`, `freespace_tree`).
    FreespaceTree,
}

/// Which quota limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Limits of users (`usrquota`).
    pub user: bool,
    /// Limits of groups (`grpquota`).
    pub group: bool,
    /// Limits of projects (`prjquota`).
    pub project: bool,
}

/// Options of a mount. Build them with [`MountOptions::default`] and the fields, or
/// [`Self::parse`].
#[derive(Clone)]
pub struct MountOptions {
    /// `ro` / `rw`: whether the mount may write.
    pub access: Access,
    /// `errors=`: reaction to damage.
    pub on_error: OnError,
    /// `commit=SECONDS`: longest time until a change is committed.
    pub commit_interval: Duration,
    /// `max_batch_time=MICROSECONDS`: longest time for which a commit waits for further callers of
    /// `fsync`.
    pub max_batch: Duration,
    /// `barrier` / `nobarrier`: whether flushes are sent to the device. Without them writes are
    /// issued in order, but the device decides when they become durable.
    pub barrier: bool,
    /// `noload`/`norecovery`: do not replay (read-only mounts only).
    pub replay: bool,
    /// `grpid`: new files take their group from the parent directory.
    pub group_from_parent: bool,
    /// `minixdf`: statfs counts metadata as space.
    pub minix_df: bool,
    /// `acl` / `noacl`: whether POSIX access control lists count.
    pub acl: bool,
    /// `usrquota`, `grpquota`, `prjquota`, `noquota`: which limits are enforced. Usage is counted
    /// anyway.
    pub quota_limits: QuotaLimits,
    /// `user_xattr` / `nouser_xattr`: whether attributes `user.*` are accessible.
    pub user_xattr: bool,
    /// `delalloc` / `nodelalloc`: whether blocks are allocated at writeback instead of at the
    /// write. `None`: at writeback.
    pub delalloc: Option<bool>,
    /// `auto_da_alloc` / `noauto_da_alloc`: a file that replaces another by rename, or its own old
    /// content after a truncate, is written out at once.
    pub auto_da_alloc: bool,
    /// `delalloc_memory=BYTES`: limit for data without allocated blocks; `None` takes a sixteenth
    /// of the memory that this process may use, at most 256 MiB.
    pub delalloc_memory_bytes: Option<u64>,
    /// `noatime`: reads update no access time.
    pub no_atime: bool,
    /// `nodiratime`: reading a directory does not update its access time.
    pub no_dir_atime: bool,
    /// `relatime` (the default of Linux) against `strictatime`.
    pub relatime: bool,
    /// `lazytime`: a change of timestamps alone stays in memory until the inode is logged for
    /// another reason, `fsync`, `sync`, or a day has passed.
    pub lazytime: bool,
    /// `sync`: changes are durable when the operation returns.
    pub sync: bool,
    /// `dirsync`: the same for directory entries.
    pub dirsync: bool,
    /// `resuid=`: this user may use reserved blocks.
    pub reserved_uid: Option<u32>,
    /// `resgid=`: this group may use reserved blocks.
    pub reserved_gid: Option<u32>,
    /// `sb=`: offset of the superblock, in units of 1 KiB.
    pub superblock_kib: Option<u64>,
    /// `discard`: freed blocks are discarded after the commit of their transaction.
    pub discard: bool,
    /// `allocator=`: the block allocator.
    pub allocator: Allocator,
    /// `cache_aggression=` (`frsp_cache_aggression=`): how eagerly free-space trees are built, 0 to
    /// 3.
    pub cache_aggression: u8,
    /// `no_prefetch_block_bitmaps` clears it: threads load bitmaps ahead to find the long free
    /// runs. Not for free-space trees with `cache_aggression` 0.
    pub prefetch_bitmaps: bool,
    /// `freespace_memory=SIZE`: limit for free-space trees; 0 takes the default of the volume.
    pub freespace_memory_bytes: u64,
    /// `growth_limit=SIZE`: the mount keeps memory for this size, up to which it can grow
    /// ([`crate::Filesystem::grow`]). `None`: 16 times the present one, and at most 4096 groups
    /// more.
    pub growth_limit_bytes: Option<u64>,
    /// `stripe=BLOCKS` of a RAID array; 0 for none.
    pub stripe_blocks: u32,
    /// `journal_checksum` / `nojournal_checksum`; `None` follows the feature `metadata_csum`.
    pub journal_checksum: Option<bool>,
    /// `data=`: order between data and the metadata that map them.
    pub data: DataMode,
    /// `nombcache` clears it: identical attribute blocks are shared.
    pub share_xattr_blocks: bool,
    /// Device of an external journal (`journal_path=` names one for the tool).
    pub journal_device: Option<Arc<dyn BlockDevice>>,
    /// `journal_path=`: path of an external journal's device.
    pub journal_path: Option<std::path::PathBuf>,
    /// `max_dir_size_kb=`: largest size of a directory, in KiB; `None`: no limit.
    pub max_dir_size_kib: Option<u64>,
    /// Background threads or none.
    pub threads: Threads,
    /// `metadata_cache=BYTES`: memory for idle inodes and metadata blocks, half of it for each,
    /// plus an eighth for the dentry cache. `None` takes a sixteenth of the memory that this
    /// process may use, at most 1 GiB; a mount by FUSE takes at most 256 MiB then.
    pub metadata_cache_bytes: Option<u64>,
    /// `extent_cache=BYTES`: memory of the extent status cache.
    pub extent_cache_bytes: u64,
    /// `operation_bytes=BYTES`: metadata that one operation may read; `None` for no bound.
    pub operation_bytes: Option<u64>,
    /// `operation_seconds=SECONDS`: how long one operation may take; `None` for no bound.
    pub operation_time: Option<Duration>,
    /// Clock; a manual one for deterministic runs.
    pub clock: Arc<dyn uext4_sync::Clock>,
    /// Seed of random numbers (generations); `None` takes one from the system.
    pub seed: Option<u64>,
    /// For experiments: no option word sets it.
    #[cfg(feature = "experiments")]
    pub base_lines: BaseLines,
    /// The lists given to [`Self::parse`], which override the defaults in the superblock.
    pub words: Vec<String>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            access: Access::ReadWrite,
            on_error: OnError::Superblock,
            commit_interval: Duration::from_secs(5),
            max_batch: Duration::from_millis(15),
            barrier: true,
            replay: true,
            group_from_parent: false,
            minix_df: false,
            acl: true,
            quota_limits: QuotaLimits::default(),
            user_xattr: true,
            delalloc: None,
            auto_da_alloc: true,
            delalloc_memory_bytes: None,
            no_atime: false,
            no_dir_atime: false,
            relatime: true,
            lazytime: false,
            sync: false,
            dirsync: false,
            reserved_uid: None,
            reserved_gid: None,
            superblock_kib: None,
            discard: false,
            allocator: Allocator::FreespaceTree,
            cache_aggression: 1,
            prefetch_bitmaps: true,
            freespace_memory_bytes: 0,
            growth_limit_bytes: None,
            stripe_blocks: 0,
            journal_checksum: None,
            data: DataMode::Ordered,
            share_xattr_blocks: true,
            journal_device: None,
            journal_path: None,
            max_dir_size_kib: None,
            threads: Threads::Background,
            metadata_cache_bytes: None,
            extent_cache_bytes: 32 << 20,
            operation_bytes: None,
            operation_time: None,
            clock: Arc::new(uext4_sync::RealClock::new()),
            seed: None,
            #[cfg(feature = "experiments")]
            base_lines: BaseLines::default(),
            words: Vec::new(),
        }
    }
}

impl MountOptions {
    /// Options for a read-only mount.
    pub fn read_only() -> Self {
        Self {
            access: Access::ReadOnly,
            ..Self::default()
        }
    }

    /// Options for deterministic changes: a fixed clock at `time`, a fixed seed, and no background
    /// threads.
    pub fn at_time(self, time: crate::types::attr::Timestamp) -> Self {
        let start = uext4_sync::WallTime {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        };
        Self {
            clock: Arc::new(uext4_sync::ManualClock::new(start)),
            seed: Some(0),
            threads: Threads::Inline,
            ..self
        }
    }

    /// Earlier designs to measure against.
    #[cfg(feature = "experiments")]
    pub(crate) fn base_lines(&self) -> BaseLines {
        self.base_lines
    }

    /// Without experiments there are none.
    #[cfg(not(feature = "experiments"))]
    pub(crate) fn base_lines(&self) -> BaseLines {
        BaseLines::default()
    }

    /// Whether delayed allocation is on.
    pub(crate) fn delays(&self) -> bool {
        self.delalloc != Some(false)
    }

    /// How a file system is opened with these options.
    pub(crate) fn open_options(&self) -> OpenOptions {
        self.options_for(Purpose::Files)
    }

    /// How a file system is opened for a purpose.
    pub(crate) fn options_for(&self, purpose: Purpose) -> OpenOptions {
        OpenOptions {
            purpose,
            access: self.access,
            replay: self.replay,
            superblock_kib: self.superblock_kib,
            barrier: self.barrier,
            journal_device: self.journal_device.clone(),
            clock: self.clock.clone(),
        }
    }
}
