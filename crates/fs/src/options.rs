//! Mount options, in ext4's own words.
//!
//! Three sources, later ones win: what the superblock asks for (`tune2fs -o`, `-E mount_opts`), the
//! fields of [`MountOptions`], and the words given to [`MountOptions::parse`]. An option is acted
//! on, or refused with a reason; the only words that change nothing are those that the kernel
//! itself accepts and ignores, and those that belong to `mount(8)` and the VFS (`table`).
//!
//! References: kernel documentation, `admin-guide/ext4`; man page `ext4(5)`.

mod defaults;
mod table;
#[cfg(test)]
mod tests;
mod values;
mod words;

pub use words::OptionHelp;

use crate::Result;
use std::sync::Arc;
use std::time::Duration;
use uext4_device::BlockDevice;

/// Read-write or read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Changes are allowed.
    ReadWrite,
    /// Nothing is changed; a journal that needs replay is replayed in memory only.
    ReadOnly,
}

/// What to do when damage is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// As the superblock says.
    Superblock,
    /// Go on; the operation fails.
    Continue,
    /// Stop writing.
    RemountReadOnly,
    /// The kernel would panic. A server must not bring its machine down: done as
    /// `RemountReadOnly`.
    Panic,
}

/// How data and the journal go together (`data=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMode {
    /// Data is on the device before the transaction that maps it.
    Ordered,
    /// Any order is allowed. Done as `Ordered`, which is one of them.
    Writeback,
    /// Data goes through the journal. Not there: a mount that asks for it is refused, and one whose
    /// superblock does ([`crate::Filesystem::wants_data_journal`]) is `Ordered`.
    Journal,
}

/// Whose background work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Commit and checkpoint threads run beside the callers.
    Background,
    /// No threads: callers do the work themselves, so that a run repeats exactly.
    Inline,
}

/// How free space is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Buddy groups, visited one after the other (`allocator=linear`, `mb_optimize_scan=0`).
    Linear,
    /// Buddy groups, found by their largest and average free run (`allocator=optimized`,
    /// `mb_optimize_scan=1`).
    Optimized,
    /// Trees of free extents per flex group (`allocator=freespace-tree`, `freespace_tree`).
    FreespaceTree,
}

/// How things were done before, for experiments to compare with; nobody else wants them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseLines {
    /// Buddy groups are waited for, never passed over, and all searches share one goal.
    pub blocking_groups: bool,
    /// Orphans are not tracked: what a crash leaves of them leaks.
    pub untracked_orphans: bool,
}

/// Whose limits hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Those of users.
    pub user: bool,
    /// Those of groups.
    pub group: bool,
    /// Those of projects.
    pub project: bool,
}

/// How to mount. Build one with [`MountOptions::default`] and the fields, or [`Self::parse`].
#[derive(Clone)]
pub struct MountOptions {
    /// Read-write or read-only.
    pub access: Access,
    /// `errors=`.
    pub on_error: OnError,
    /// `commit=SECONDS`: how long a change may stay out of the journal.
    pub commit_interval: Duration,
    /// `barrier` / `nobarrier`: whether flushes are sent to the device. Without them a change is
    /// handed to the device in the right order, and durable when the device likes.
    pub barrier: bool,
    /// `noload`/`norecovery`: do not replay (read-only mounts only).
    pub replay: bool,
    /// `grpid`: new files take their group from the parent directory.
    pub group_from_parent: bool,
    /// `minixdf`: statfs counts metadata as space.
    pub minix_df: bool,
    /// `acl` / `noacl`.
    pub acl: bool,
    /// `usrquota`, `grpquota`, `prjquota`, `noquota`: whose limits hold. Use is counted anyway.
    pub quota_limits: QuotaLimits,
    /// `user_xattr` / `nouser_xattr`.
    pub user_xattr: bool,
    /// `delalloc` / `nodelalloc`: whether blocks are chosen when data are written out, not when
    /// they are accepted. `None`: they are.
    pub delalloc: Option<bool>,
    /// `auto_da_alloc` / `noauto_da_alloc`: a file that replaces another by rename, or its own old
    /// content, is written out at once.
    pub auto_da_alloc: bool,
    /// `delalloc_memory=BYTES`: limit for data that wait for their blocks; `None` takes a
    /// sixteenth of the machine's memory, at most 256 MiB.
    pub delalloc_memory_bytes: Option<u64>,
    /// `noatime`.
    pub no_atime: bool,
    /// `nodiratime`: reading a directory leaves its access time.
    pub no_dir_atime: bool,
    /// `relatime` (the default of Linux) against `strictatime`.
    pub relatime: bool,
    /// `lazytime`: a change of nothing but times stays in memory until the inode is logged for
    /// another reason, `fsync`, `sync`, or a day.
    pub lazytime: bool,
    /// `sync`: what changes is durable when the operation returns.
    pub sync: bool,
    /// `dirsync`: the same for names.
    pub dirsync: bool,
    /// `resuid=`: this user may use reserved blocks.
    pub reserved_uid: Option<u32>,
    /// `resgid=`: this group may use reserved blocks.
    pub reserved_gid: Option<u32>,
    /// `sb=`: where the superblock stands, in units of 1 KiB.
    pub superblock_kib: Option<u64>,
    /// `discard`: freed blocks are discarded after their transaction committed.
    pub discard: bool,
    /// `allocator=`; `None` takes the linear scan below 16 groups and the optimized one from there.
    pub allocator: Option<Allocator>,
    /// `cache_aggression=` (`frsp_cache_aggression=`): how eagerly free-space trees are built, 0 to
    /// 3.
    pub cache_aggression: u8,
    /// `no_prefetch_block_bitmaps` clears it: threads look where the long free runs are, but for
    /// free-space trees that are built with reluctance (`cache_aggression` is 0).
    pub prefetch_bitmaps: bool,
    /// `freespace_memory=SIZE`: limit for free-space trees; 0 takes the default of the volume.
    pub freespace_memory_bytes: u64,
    /// `stripe=BLOCKS` of a RAID array; 0 for none.
    pub stripe_blocks: u32,
    /// `journal_checksum` / `nojournal_checksum`; `None`: as the feature `metadata_csum` is.
    pub journal_checksum: Option<bool>,
    /// `data=`.
    pub data: DataMode,
    /// `nombcache` clears it: attribute blocks with the same content are one block.
    pub share_xattr_blocks: bool,
    /// Device of an external journal (`journal_path=` names one for the tool).
    pub journal_device: Option<Arc<dyn BlockDevice>>,
    /// `journal_path=`.
    pub journal_path: Option<std::path::PathBuf>,
    /// `max_dir_size_kb=`.
    pub max_dir_size_kib: Option<u64>,
    /// Background threads or none.
    pub threads: Threads,
    /// `metadata_cache=BYTES`: memory for inodes and metadata blocks that nobody uses, half of it
    /// for each, and an eighth besides for what names mean; `None` takes a sixteenth of the
    /// memory that there is, at most 1 GiB.
    pub metadata_cache_bytes: Option<u64>,
    /// `extent_cache=BYTES`: memory for what is known of the maps of files.
    pub extent_cache_bytes: u64,
    /// `operation_bytes=BYTES`: metadata that one operation may look at; `None` for no bound.
    pub operation_bytes: Option<u64>,
    /// `operation_seconds=SECONDS`: how long one operation may take; `None` for no bound.
    pub operation_time: Option<Duration>,
    /// Source of time; a manual one for runs that must repeat exactly.
    pub clock: Arc<dyn uext4_sync::Clock>,
    /// Seed of random choices (generations); `None` takes one from the system.
    pub seed: Option<u64>,
    /// For experiments: no list of options sets any.
    pub base_lines: BaseLines,
    /// The lists given to [`Self::parse`], which win over what the superblock asks for.
    pub words: Vec<String>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            access: Access::ReadWrite,
            on_error: OnError::Superblock,
            commit_interval: Duration::from_secs(5),
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
            allocator: None,
            cache_aggression: 1,
            prefetch_bitmaps: true,
            freespace_memory_bytes: 0,
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

    /// Options for changes that can be repeated: this is the time of all of them, random numbers
    /// are the same each time, and no thread works in the background.
    pub fn at_time(self, time: crate::Timestamp) -> Self {
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

    /// Reads a comma separated list as `mount -o` takes it, on top of `self`.
    ///
    /// # Errors
    /// [`crate::Error::Option`] names an option that is unknown, has a bad value or is not there.
    pub fn parse(mut self, list: &str) -> Result<Self> {
        words::apply_list(&mut self, list)?;
        self.words.push(list.to_owned());
        Ok(self)
    }

    /// Every word that [`Self::parse`] takes, and those of ext4 that it refuses with a reason, in
    /// the order of help pages.
    pub fn help() -> Vec<OptionHelp> {
        words::help()
    }

    /// Whether new data wait for their blocks.
    pub(crate) fn delays(&self) -> bool {
        self.delalloc != Some(false)
    }

    /// What a mount of this superblock uses.
    pub(crate) fn settled(&self, superblock: &uext4_format::Superblock) -> Result<Self> {
        let mut options = self.clone();
        defaults::apply(&mut options, superblock);
        for list in &self.words {
            words::apply_list(&mut options, list)?;
        }
        // A program may force a read-only mount after it read the words.
        options.access = self.access;
        options.check_together()?;
        Ok(options)
    }

    /// Refuses what does not go together.
    pub(crate) fn check_together(&self) -> Result<()> {
        words::check_together(self)
    }
}
