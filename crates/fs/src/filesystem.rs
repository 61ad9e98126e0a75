//! The mounted file system: the shared state of all operations.

use crate::budget::Budget;
use crate::delayed::{Flusher, Pool};
use crate::dir::{DirConfig, NameMemory, SparseLeaves};
use crate::incidents::Incidents;
use crate::inode::{HiddenInodes, Inodes, LazyTimes};
use crate::map::ExtentStatus;
use crate::meta::Blocks;
use crate::mount::{Lifecycle, UnmountOnDrop};
use crate::orphan::Orphans;
use crate::quota::Quota;
use crate::settings::Settings;
use crate::space::Space;
use crate::superblock::Super;
use crate::xattr::{ExtraIsize, SharedBlocks};
use crate::{Error, Result};
use std::sync::Arc;
use uext4_device::BlockDevice;
use uext4_format::{
    BlockNr, Checksums, Corrupt, Features, GOOD_OLD_INODE_BYTES, Geometry, Place, Timestamp,
};
use uext4_journal::{Handle, Journal};
use uext4_sync::atomic::{AtomicU8, AtomicU64, Ordering};
use uext4_sync::{Clock, Mutex, OnceLock, Sharded, Turnstile};

/// A mounted file system. Cloning is cheap; the last clone that goes away unmounts.
#[derive(Clone)]
pub struct Filesystem {
    pub(crate) fs: Arc<Fs>,
    /// Unmounts with the last clone. Threads of the mount have references to `fs`, too.
    pub(crate) _last: Arc<UnmountOnDrop>,
}

/// The engine behind [`Filesystem`].
pub(crate) struct Fs {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) geometry: Geometry,
    pub(crate) features: Features,
    pub(crate) settings: Settings,
    pub(crate) journal: Arc<Journal>,
    pub(crate) superblock: Arc<Super>,
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
    pub(crate) names: Arc<NameMemory>,
    pub(crate) sparse_leaves: SparseLeaves,
    pub(crate) shared_xattrs: SharedBlocks,
    /// Serializes moves of directories between parents.
    pub(crate) rename: Mutex<()>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) state: MountState,
    /// Damage and failures met since the mount.
    pub(crate) incidents: Arc<Incidents>,
    /// Freeze barrier (`Turnstile`, as `sb_start_write`): every change is inside; closed while the
    /// file system is frozen.
    pub(crate) changes: Turnstile,
    /// State of mount, remount, freeze and unmount; each holds the lock for its whole run.
    pub(crate) lifecycle: Mutex<Lifecycle>,
    pub(crate) checksums: Checksums,
    pub(crate) extra_isize: ExtraIsize,
    /// Bound on the cost of one operation.
    pub(crate) budget: Option<Budget>,
    /// `metadata_cache`: bytes for inodes and metadata blocks that only the cache holds.
    pub(crate) metadata_cache: Arc<AtomicU64>,
    /// Calls of `relieve_memory`.
    pub(crate) reliefs: AtomicU64,
}

/// Random numbers for generations: each draw hashes a counter of the thread's shard.
pub(crate) struct Random {
    counters: Sharded<AtomicU64>,
    /// With a seed all threads use one counter, so that a run repeats.
    is_seeded: bool,
}

impl Random {
    /// From a seed, or from the system when there is none.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let system = || {
            use std::hash::{BuildHasher, Hasher};
            std::collections::hash_map::RandomState::new()
                .build_hasher()
                .finish()
        };
        let first = seed.unwrap_or_else(system);
        let start = |shard| uext4_sync::Rng::new(first.wrapping_add(shard as u64)).next_u64();
        Self {
            counters: Sharded::new(|shard| {
                AtomicU64::new(if shard == 0 { first } else { start(shard) })
            }),
            is_seeded: seed.is_some(),
        }
    }

    /// The next number.
    pub(crate) fn next(&self) -> u32 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let counter = match self.is_seeded {
            true => self.counters.slot(0),
            false => self.counters.local(),
        };
        let state = counter.fetch_add(STEP, Ordering::Relaxed);
        uext4_sync::Rng::new(state).next_u64() as u32
    }
}

/// Whether writes are allowed now.
pub(crate) struct MountState {
    word: AtomicU8,
    /// The error that ended writing; the first one stays.
    failure: OnceLock<Error>,
    incidents: Arc<Incidents>,
}

const READ_WRITE: u8 = 0;
const READ_ONLY: u8 = 1;
const FAILED: u8 = 2;
const CLOSED: u8 = 3;
const SHUT: u8 = 4;

impl MountState {
    pub(crate) fn new(writable: bool, incidents: Arc<Incidents>) -> Self {
        let word = AtomicU8::new(if writable { READ_WRITE } else { READ_ONLY });
        Self {
            word,
            failure: OnceLock::new(),
            incidents,
        }
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.word.load(Ordering::Relaxed) == READ_WRITE
    }

    /// Goes from read-only to read-write or back. A mount that failed or is closed stays so.
    pub(crate) fn set_writable(&self, writable: bool) {
        let (from, to) = match writable {
            true => (READ_ONLY, READ_WRITE),
            false => (READ_WRITE, READ_ONLY),
        };
        let order = Ordering::SeqCst;
        let _failed_or_closed = self.word.compare_exchange(from, to, order, order);
    }

    /// Goes read-only for good after an error. A mount that is closed stays so.
    pub(crate) fn fail(&self, cause: &Error) {
        let order = Ordering::SeqCst;
        if self
            .word
            .compare_exchange(READ_WRITE, FAILED, order, order)
            .is_ok()
        {
            let _the_first_stays = self.failure.set(cause.clone());
            self.incidents.stopped(cause);
        }
    }

    /// Refuses all further operations; `lost` says why the device is not clean. A mount that is
    /// closed stays closed.
    pub(crate) fn shut_down(&self, lost: Option<&Error>) {
        let order = Ordering::SeqCst;
        let shut = |word| (word != CLOSED).then_some(SHUT);
        let was_open = self.word.fetch_update(order, order, shut).is_ok();
        if let Some(lost) = lost.filter(|_| was_open) {
            let _the_first_stays = self.failure.set(lost.clone());
            self.incidents.stopped(lost);
        }
    }

    /// True between shutdown and close.
    pub(crate) fn is_shut(&self) -> bool {
        self.word.load(Ordering::Relaxed) == SHUT
    }

    /// The error that made the mount read-only, if any.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// True after the close.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::SeqCst) == CLOSED
    }

    /// Marks the mount closed; true for the first caller.
    pub(crate) fn close(&self) -> bool {
        self.word.swap(CLOSED, Ordering::SeqCst) != CLOSED
    }
}

impl Fs {
    /// Answers `ReadOnly` (or `Shutdown`) unless writes are allowed.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.state.is_shut() {
            return Err(Error::Shutdown);
        }
        if !self.state.is_writable() {
            return Err(Error::ReadOnly);
        }
        // A background commit may have failed since the last check.
        self.journal.check().map_err(|cause| {
            self.state.fail(&cause.into());
            Error::ReadOnly
        })
    }

    /// Starts a handle that may log `credits` blocks; may wait for a commit.
    pub(crate) fn start(&self, credits: u32) -> Result<Handle<'_>> {
        self.writable()?;
        Ok(self.journal.start(credits + self.quota.credits())?)
    }

    /// The timestamp of changes made now, truncated to seconds where inodes store no fraction.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.wall();
        match self.time_granularity_ns() {
            1 => Timestamp::new(now.seconds, now.nanoseconds),
            _ => Timestamp::new(now.seconds, 0),
        }
    }

    /// Timestamp granularity: a nanosecond, or a second where inodes have no extra fields.
    pub(crate) fn time_granularity_ns(&self) -> u32 {
        match usize::from(self.geometry.inode_size) > GOOD_OLD_INODE_BYTES {
            true => 1,
            false => 1_000_000_000,
        }
    }

    /// Block size in bytes.
    pub(crate) fn block_size(&self) -> usize {
        self.geometry.block_size() as usize
    }

    /// Answers damage unless `nr` is a block that a file or directory may own.
    pub(crate) fn check_block(&self, nr: BlockNr, structure: &'static str) -> Result<()> {
        if self.space.may_hold_data(nr) {
            return Ok(());
        }
        let problem = "block number is outside the data area";
        Err(Corrupt::new(Place::Block(nr), structure, problem).into())
    }

    /// Records damage and failed metadata reads in the superblock, and applies `errors=`; passes
    /// the result on. A failed journal ends writing.
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            self.incidents.met(error);
            if !self.superblock.record_error(self, error) {
                self.note_failure(error);
            }
        })
    }

    /// As [`Self::note`], for callers that may not log: the record stays in memory until the
    /// superblock is written.
    pub(crate) fn note_quietly<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            self.incidents.met(error);
            if !self.superblock.keep_error(self, error) {
                self.note_failure(error);
            }
        })
    }

    fn note_failure(&self, error: &Error) {
        match error {
            Error::Journal(uext4_journal::Error::Late { .. }) => self.superblock.note_late(self),
            Error::Journal(_) => self.state.fail(error),
            _ => {}
        }
    }
}
