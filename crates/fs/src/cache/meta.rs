//! Metadata blocks as live objects, and their cache.
//!
//! Layout: a [`MetaBlock`] holds one file system block (directory leaf, index node, extent node,
//! indirect block, xattr block, orphan block): its bytes ([`state`]), and the checksum rule that
//! rendering applies ([`seal`]).
//!
//! Invariants: a block is in the cache at most once, with one seal. If a caller expects another
//! seal than the cached one, two structures claim the block, which is damage.
//! Locking: `Rank::MetaBlock` per block; the cache's shards are `Rank::CacheShard`.

mod seal;
mod state;

pub(crate) use seal::Seal;
pub(crate) use state::BlockState;

use crate::cache::clock::{Allotment, Cache, Cached, Counts, ENTRY_BYTES, Found};
use crate::types::error::{Error, Result};
use uext4_device::prefetch;
use uext4_format::dirent::LeafTable;
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, LogicalBlock, Seed};
use uext4_journal::{Handle, Image, Live, Object};
use uext4_num::{low_u16, u64_of};
use uext4_sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Arc, RwLockReadGuard};

/// Size of the counts of an `Arc`, which precede its value.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// One metadata block. It fits in two cache lines with the counts of its `Arc`, because in a large
/// directory nearly every look-up meets a block that is in no CPU cache.
pub(crate) struct MetaBlock {
    nr: BlockNr,
    /// The block was freed; holders of a remembered reference must look it up again.
    is_gone: AtomicBool,
    /// Used through a remembered reference, without a cache look-up, since the cache asked last.
    is_used: AtomicBool,
    /// Digest of the addresses of the block's parts that its directory noted last.
    noted: AtomicU16,
    /// Logical block number in the directory, if it is a directory block.
    logical: AtomicU32,
    live: Live<BlockState>,
}

impl Cached for MetaBlock {
    fn take_used(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    fn more_bytes(&self) -> usize {
        let state = self.live.try_read();
        let table = state.as_ref().and_then(|state| state.table());
        table.map_or(0, LeafTable::heap_bytes)
    }
}

impl Object for MetaBlock {
    type State = BlockState;
    fn live(&self) -> &Live<BlockState> {
        &self.live
    }
}

impl MetaBlock {
    pub(crate) fn nr(&self) -> BlockNr {
        self.nr
    }

    /// True once the block was freed.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Address of the allocation, which begins with the counts of the `Arc`.
    pub(crate) fn address(block: &Arc<Self>) -> usize {
        Arc::as_ptr(block).addr() - COUNTS_BYTES
    }

    /// Prefetches the cache lines of a block that was at `address`.
    pub(crate) fn prefetch(address: usize) {
        let from = std::ptr::without_provenance(address);
        prefetch(from, COUNTS_BYTES + size_of::<Self>());
    }

    /// Marks the block as used for holders that bypass the cache; usually one load.
    pub(crate) fn mark_used(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the block's logical number in its directory.
    pub(crate) fn set_logical(&self, logical: LogicalBlock) {
        self.logical.store(logical.0, Ordering::Relaxed);
        self.noted.store(0, Ordering::Relaxed);
    }

    /// The block's logical number in its directory; `u32::MAX` until it is set.
    pub(crate) fn logical(&self) -> LogicalBlock {
        LogicalBlock(self.logical.load(Ordering::Relaxed))
    }

    /// Whether the addresses of the parts of `state`, which is the block's, differ from those noted
    /// last; notes the new ones.
    pub(crate) fn has_new_addresses(&self, state: &BlockState) -> bool {
        let (rows, counts) = state.addresses();
        let both = u64_of(rows ^ counts.rotate_left(24));
        // The low bits of addresses carry no information.
        let digest = low_u16(both >> 4 ^ both >> 20 ^ both >> 36);
        let is_new = self.noted.load(Ordering::Relaxed) != digest;
        if is_new {
            self.noted.store(digest, Ordering::Relaxed);
        }
        is_new
    }

    /// The block's lock, to read.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, BlockState> {
        self.live.read()
    }

    /// The current bytes, shared; a later change copies them first (copy-on-write).
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub(crate) fn image(&self) -> Image {
        self.live.read().image()
    }
}

/// Cache of metadata blocks.
pub(crate) struct Blocks {
    cache: Cache<BlockNr, MetaBlock>,
    /// Checksum seed of the file system, with `metadata_csum`.
    fs_seed: Option<Seed>,
}

impl Blocks {
    /// An empty cache; half of `cache_bytes` is for clean blocks.
    pub(crate) fn new(
        cache_bytes: &Arc<AtomicU64>,
        block_bytes: u64,
        fs_seed: Option<Seed>,
    ) -> Self {
        let allotment = Allotment {
            bytes: Arc::clone(cache_bytes),
            parts: 2,
            object_bytes: block_bytes
                + block_bytes / 4
                + u64_of(size_of::<MetaBlock>())
                + ENTRY_BYTES,
        };
        Self {
            cache: Cache::new(allotment),
            fs_seed,
        }
    }

    /// The seal of extended attribute blocks.
    pub(crate) fn xattr_seal(&self) -> Seal {
        Seal::Xattr(self.fs_seed.unwrap_or(Seed::ONES))
    }

    /// The block; on a miss, read by `read` and its checksum verified. `check` validates the bytes
    /// once per load.
    pub(crate) fn load(
        &self,
        nr: BlockNr,
        seal: Seal,
        read: impl Fn() -> Result<Image>,
        check: impl Fn(&[u8]) -> std::result::Result<(), Corrupt>,
    ) -> Result<Arc<MetaBlock>> {
        let block = self.cache.load(nr, || {
            let bytes = read()?;
            if self.fs_seed.is_some() {
                seal.verify(nr, &bytes)?;
            }
            check(&bytes)?;
            Ok::<_, Error>(Found::alone(self.object(nr, seal, bytes)))
        })?;
        self.expect(block, seal)
    }

    /// The block, if it is in memory with this seal.
    pub(crate) fn cached(&self, nr: BlockNr, seal: Seal) -> Option<Arc<MetaBlock>> {
        self.cache
            .get(nr)
            .filter(|block| block.live.read().seal() == seal)
    }

    /// A new block with these bytes, logged to the handle's transaction. The block must have been
    /// allocated under the same handle.
    pub(crate) fn create(
        &self,
        handle: &Handle<'_>,
        nr: BlockNr,
        seal: Seal,
        bytes: Image,
    ) -> Arc<MetaBlock> {
        // Atomic, because an outdated look-up may load the block at any moment.
        let (block, before) = self.cache.replace(nr, self.object(nr, seal, bytes));
        if let Some(before) = before {
            before.is_gone.store(true, Ordering::Release);
        }
        drop(handle.write(&block));
        block
    }

    /// Frees the block under `handle`: revokes it, and never writes it again.
    pub(crate) fn forget(&self, handle: &Handle<'_>, nr: BlockNr) {
        match self.take(nr) {
            Some(block) => handle.forget(&block, nr),
            None => handle.revoke(nr),
        }
    }

    fn take(&self, nr: BlockNr) -> Option<Arc<MetaBlock>> {
        let block = self.cache.remove(nr)?;
        block.is_gone.store(true, Ordering::Release);
        Some(block)
    }

    /// Drops some of the clean blocks; returns how many.
    pub(crate) fn shed(&self) -> u64 {
        self.cache.shed()
    }

    /// Counters and content of the cache.
    pub(crate) fn counts(&self) -> Counts {
        self.cache.counts()
    }

    fn object(&self, nr: BlockNr, seal: Seal, bytes: Image) -> MetaBlock {
        let state = BlockState::new(nr, seal, self.fs_seed.is_some(), bytes);
        MetaBlock {
            nr,
            is_gone: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            noted: AtomicU16::new(0),
            logical: AtomicU32::new(u32::MAX),
            live: Live::new(state),
        }
    }

    fn expect(&self, block: Arc<MetaBlock>, seal: Seal) -> Result<Arc<MetaBlock>> {
        let found = block.live.read().seal();
        if found == seal {
            return Ok(block);
        }
        let problem = CorruptKind::SharedBlock;
        Err(Error::Corrupt(Corrupt::new(
            DamageLocation::Block(block.nr),
            seal.name(),
            problem,
        )))
    }
}

// Two cache lines; see [`MetaBlock`].
#[cfg(all(target_pointer_width = "64", not(shuttle)))]
const _: () = assert!(size_of::<MetaBlock>() + COUNTS_BYTES <= 128);
