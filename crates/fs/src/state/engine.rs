//! The engine: shared state of all operations of one mount.
//!
//! Operations are functions on [`Fs`] in the modules above this one. State types are below it and
//! take [`Base`] where they need the journal, the device or the settings: operations pass
//! `fs.base`. Its most frequent questions are methods of [`Fs`] too.

use crate::cache::dcache::{DentryMemory, HashedName, NameHasher, SparseLeaves};
use crate::cache::extent_status::ExtentStatus;
use crate::cache::mbcache::SharedBlocks;
use crate::cache::meta::{Blocks, MetaBlock, Seal};
use crate::state::base::Base;
use crate::state::inode::{ExtraIsize, Inode, Inodes, LazyTimes};
use crate::state::lifecycle::Lifecycle;
use crate::state::name_log::NameLog;
use crate::state::orphan::Orphans;
use crate::state::quota::Quota;
use crate::state::space::Space;
use crate::state::writeback::{Flusher, Pool};
use crate::types::dir_config::DirConfig;
use crate::types::error::Result;
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, InodeNr, Timestamp};
use uext4_journal::Handle;
use uext4_num::nonnegative;
use uext4_sync::atomic::AtomicU64;
use uext4_sync::{Arc, Mutex};
use uext4_volume::HiddenInodes;

/// State of one mount, shared by all handles of [`Filesystem`].
pub(crate) struct Fs {
    pub(crate) base: Base,
    pub(crate) space: Arc<Space>,
    pub(crate) inodes: Inodes,
    pub(crate) hidden: HiddenInodes,
    pub(crate) lazy_times: LazyTimes,
    pub(crate) blocks: Blocks,
    pub(crate) extent_status: Arc<ExtentStatus>,
    pub(crate) orphans: Orphans,
    pub(crate) quota: Quota,
    /// Files with delayed allocation.
    pub(crate) delayed: Pool,
    pub(crate) flusher: Flusher,
    pub(crate) dirs: DirConfig,
    pub(crate) names: Arc<DentryMemory>,
    pub(crate) name_hasher: NameHasher,
    pub(crate) name_log: NameLog,
    pub(crate) sparse_leaves: SparseLeaves<Inode>,
    pub(crate) shared_xattrs: SharedBlocks,
    /// Serializes moves of directories between parents.
    pub(crate) rename: Mutex<()>,
    /// State of mount, remount, freeze and unmount; each holds the lock for its whole run.
    pub(crate) lifecycle: Mutex<Lifecycle>,
    pub(crate) extra_isize: ExtraIsize,
    /// `metadata_cache`: bytes for inodes and metadata blocks that only the cache holds.
    pub(crate) metadata_cache: Arc<AtomicU64>,
    pub(crate) reclaims: AtomicU64,
}

impl Fs {
    pub(crate) fn writable(&self) -> Result<()> {
        self.base.writable()
    }

    /// Marks the mount as failed if a commit in the background has failed.
    pub(crate) fn poll_failed_commit(&self) {
        let _read_only = self.base.writable();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.base.now()
    }

    /// Block size in bytes.
    pub(crate) fn block_size(&self) -> usize {
        self.base.block_size()
    }

    /// Block size in bytes, for sizes and offsets of files.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.base.block_bytes()
    }

    /// Starts a handle that may log `credits` blocks; may wait for a commit.
    pub(crate) fn start(&self, credits: u32) -> Result<Handle<'_>> {
        self.writable()?;
        Ok(self.base.journal.start(credits + self.quota.credits())?)
    }

    /// As [`Self::start`], for an operation whose whole effect fast-commit records have
    /// ([`Handle::promise_records`]).
    pub(crate) fn start_recorded(&self, credits: u32) -> Result<Handle<'_>> {
        let handle = self.start(credits)?;
        handle.promise_records();
        Ok(handle)
    }

    /// The name with its hashes, to be passed through one operation.
    pub(crate) fn hashed<'a>(&self, name: &'a [u8]) -> HashedName<'a> {
        self.name_hasher.hashed(name)
    }

    /// Updates the lazy totals of the superblock in the handle's transaction.
    pub(crate) fn log_counts(&self, handle: &Handle<'_>) {
        let (blocks, inodes) = self.space.free_on_disk();
        let now = self.now();
        self.base.superblock.update(handle, |disk| {
            disk.free_blocks_count = blocks;
            disk.free_inodes_count = inodes;
            disk.wtime = nonnegative(now.seconds);
        });
    }

    /// A metadata block; on a miss, read from the journal or device and its checksum verified.
    /// `check` validates the bytes once per load.
    pub(crate) fn read_block(
        &self,
        nr: BlockNr,
        seal: Seal,
        check: impl Fn(&[u8]) -> std::result::Result<(), Corrupt>,
    ) -> Result<Arc<MetaBlock>> {
        self.base.spend_block(nr, seal.name())?;
        self.blocks.load(
            nr,
            seal,
            || {
                self.check_block(nr, seal.name())?;
                Ok(self.base.journal.read_block(nr)?)
            },
            check,
        )
    }

    /// The inode, read from the table on a miss. It may be free or unlinked: callers check.
    pub(crate) fn load_inode(&self, nr: InodeNr) -> Result<Arc<Inode>> {
        self.inodes.load(&self.base, &self.space, nr)
    }

    /// Returns damage unless `nr` is a block that a file or directory may own.
    pub(crate) fn check_block(&self, nr: BlockNr, structure: &'static str) -> Result<()> {
        if self.space.may_contain_data(nr) {
            return Ok(());
        }
        let problem = CorruptKind::BlockNumber;
        Err(Corrupt::new(DamageLocation::Block(nr), structure, problem).into())
    }
}
