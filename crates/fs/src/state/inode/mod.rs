//! Inodes in memory.
//!
//! Layout: an [`Inode`] is a live object (its [`InodeState`] renders to one slot of the inode
//! table) with the locks that operations take before a handle starts. [`InodeRef`] is a counted
//! hold for callers: while one exists, an unlinked inode keeps its blocks.
//!
//! Invariants: one `Inode` per number while it is held. A freed number that is allocated again
//! reuses the cached object, so that its images stay in order.
//! Locking: `index` (DirIndex) and `io` (InodeIo) before a handle, the state (InodeState) after.

mod changed_ranges;
mod evict_queue;
mod extra_isize;
mod facts;
pub(crate) mod flags;
mod hidden;
mod holds;
mod lazy_times;
mod new;
mod state;
mod table;

pub(crate) use evict_queue::{EvictQueues, Queue};
pub(crate) use extra_isize::ExtraIsize;
pub(crate) use facts::PublishedAttrs;
use facts::PublishedFacts;
pub(crate) use hidden::refuse_hidden;
use holds::{Holds, Life};
pub(crate) use lazy_times::{DAY_SECONDS, LazyTimes};
pub(crate) use new::NewInode;
pub(crate) use state::{InodeFormat, InodeState};
use table::EvictDoor;
pub(crate) use table::Inodes;

use crate::cache::dcache::DirBlocks;
use crate::state::delayed::{Buffer, FlushGeneration, LazyBuffer, WriteErrors};
use crate::state::space::{FilePreallocation, LastFlex, Near};
use uext4_format::{BlockNr, FileType, InodeFlags, InodeNr};
use uext4_journal::{Live, Object};
use uext4_sync::atomic::{AtomicU8, AtomicU64, Ordering};
use uext4_sync::{Arc, OnceLock, Rank, RwLock, VersionedLock, shared_count};

/// The inode has no access control list.
const NOTE_NO_ACL: u8 = 1;
/// The inode holds the value of an attribute.
const NOTE_VALUE: u8 = 2;
const NOTE_DIRECTORY: u8 = 4;
/// A truncate of the file spans several transactions and is not finished.
const NOTE_CUTTING: u8 = 8;

fn kind_bits(state: &InodeState) -> u8 {
    let note = |is: bool, note| if is { note } else { 0 };
    let is_directory = state.disk.file_type() == Some(FileType::Directory);
    note(state.disk.flags.contains(InodeFlags::EA_INODE), NOTE_VALUE)
        | note(is_directory, NOTE_DIRECTORY)
}

/// An inode in memory; all users of an inode number share one object.
pub struct Inode {
    nr: InodeNr,
    live: Live<InodeState>,
    /// Optimistic lock of a directory's structure: held exclusively to change its blocks, not held
    /// to change entries in one block.
    pub(crate) index: VersionedLock,
    /// Shared to read data, exclusive to write data or change the size. Guards the data with
    /// delayed allocation.
    pub(crate) io: RwLock<LazyBuffer>,
    /// Delayed blocks, and clusters reserved for them, as of the last change.
    delayed_blocks: AtomicU64,
    delayed_clusters: AtomicU64,
    /// Writeback errors, and the open files that know them (errseq semantics).
    pub(crate) write_errors: WriteErrors,
    /// Whether data on the device may be lost.
    pub(crate) flush_generation: FlushGeneration,
    holds: Holds,
    /// Slot in the orphan file plus one, or `u64::MAX` for the legacy list; 0 when not tracked.
    pub(crate) orphan: AtomicU64,
    /// Where the last block of data was found (a hint for the next allocation).
    pub(crate) last_block: AtomicU64,
    /// Of a directory: where an inode was last created in it.
    last_flex: LastFlex,
    /// Cached facts: `NOTE_*` bits. They change with the state locked.
    notes: AtomicU8,
    /// Of a directory: the published facts. They stay when the number is reused for a file.
    published: OnceLock<Arc<PublishedFacts>>,
    /// Of a directory: its cached blocks.
    dir_blocks: OnceLock<Box<DirBlocks>>,
    /// Space preallocated for the next writes; none until the first write.
    preallocation: OnceLock<Arc<FilePreallocation>>,
    evictions: Arc<EvictDoor>,
}

impl crate::cache::clock::Cached for Inode {
    fn more_bytes(&self) -> usize {
        self.dir_blocks.get().map_or(0, |known| known.bytes())
    }
}

impl Object for Inode {
    type State = InodeState;
    fn live(&self) -> &Live<InodeState> {
        &self.live
    }
}

impl Inode {
    fn new(nr: InodeNr, mut state: InodeState, evictions: Arc<EvictDoor>) -> Self {
        // A slot without links is free. Recovery identifies the orphans among them. The blocks in a
        // free slot's map may belong to other files, so its last user must not free them.
        let life = match state.disk.links {
            0 => Life::Freed,
            _ => Life::Named,
        };
        let notes = AtomicU8::new(kind_bits(&state));
        let published = OnceLock::new();
        facts::publish_in(&published, &mut state);
        Self {
            nr,
            live: Live::new(state),
            index: VersionedLock::new(Rank::DirIndex),
            io: RwLock::new(Rank::InodeIo, LazyBuffer::default()),
            delayed_blocks: AtomicU64::new(0),
            delayed_clusters: AtomicU64::new(0),
            write_errors: WriteErrors::default(),
            flush_generation: FlushGeneration::default(),
            holds: Holds::new(life),
            orphan: AtomicU64::new(0),
            last_block: AtomicU64::new(0),
            last_flex: LastFlex::default(),
            notes,
            published,
            dir_blocks: OnceLock::new(),
            preallocation: OnceLock::new(),
            evictions,
        }
    }

    /// The inode's number; constant. Takes no lock.
    pub fn nr(&self) -> InodeNr {
        self.nr
    }

    /// The live state's lock, to read.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub(crate) fn read(&self) -> uext4_sync::RwLockReadGuard<'_, InodeState> {
        self.live.read()
    }

    /// Type of the file. Takes the state's lock shared.
    pub fn kind(&self) -> FileType {
        // Loading refuses an inode in use without a type.
        self.read().disk.file_type().unwrap_or(FileType::Regular)
    }

    /// True for a directory. Takes no lock.
    pub fn is_dir(&self) -> bool {
        self.notes.load(Ordering::Acquire) & NOTE_DIRECTORY != 0
    }

    /// Updates the link state; the last user of an inode without a name frees it.
    pub(crate) fn set_links(&self, links: u16) {
        self.holds.set_life(Life::with_links(links));
    }

    /// Marks a new file that has no name yet, and may get one.
    pub(crate) fn set_unnamed(&self) {
        self.holds.set_life(Life::Unnamed);
    }

    /// True for a file that never had a name.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.holds.life() == Life::Unnamed
    }

    /// Claims the right to free an inode without names that has at most `users` holds. Only one
    /// caller gets it.
    pub(crate) fn claim_free(&self, users: u32) -> bool {
        self.holds.claim(users)
    }

    /// Resets the object for a newly allocated inode of the same number.
    fn reborn(&self, state: &mut InodeState) {
        facts::publish_in(&self.published, state);
        self.notes.store(kind_bits(state), Ordering::Release);
        self.orphan.store(0, Ordering::SeqCst);
        self.last_block.store(0, Ordering::Relaxed);
        self.write_errors.reset();
        self.flush_generation.reset();
        if let Some(blocks) = self.dir_blocks.get() {
            blocks.clear();
        }
        self.holds.set_life(Life::Named);
    }

    /// True when the inode surely has no access control list.
    pub(crate) fn lacks_acl(&self) -> bool {
        self.notes.load(Ordering::Acquire) & NOTE_NO_ACL != 0
    }

    /// Records that there is no access control list; `_state` is this inode's, locked.
    pub(crate) fn set_no_acl(&self, _state: &InodeState) {
        self.notes.fetch_or(NOTE_NO_ACL, Ordering::Release);
    }

    /// Clears that record before a list is set; `_state` is this inode's, locked to change.
    pub(crate) fn forget_no_acl(&self, _state: &mut InodeState) {
        self.notes.fetch_and(!NOTE_NO_ACL, Ordering::Release);
    }

    /// True for an inode that holds the value of an attribute. Takes no lock.
    pub(crate) fn holds_value(&self) -> bool {
        self.notes.load(Ordering::Acquire) & NOTE_VALUE != 0
    }

    /// Whether the inode is in use without a name: its last user frees it. Takes no lock.
    pub fn is_nameless(&self) -> bool {
        self.holds.life().ends_unheld()
    }

    /// Whether the inode is free or being freed.
    pub(crate) fn is_freed(&self) -> bool {
        self.holds.life() == Life::Freed
    }

    /// True while the inode is tracked as an orphan.
    pub(crate) fn is_orphan(&self) -> bool {
        self.orphan.load(Ordering::Acquire) != 0
    }

    /// Whether the inode must be an orphan: it has no name, or a truncate is unfinished.
    pub(crate) fn needs_tracking(&self, state: &InodeState) -> bool {
        state.disk.links == 0 || self.notes.load(Ordering::Acquire) & NOTE_CUTTING != 0
    }

    /// Sets whether a truncate continues in further transactions; `_state` is this inode's, locked
    /// to change.
    pub(crate) fn set_truncating(&self, _state: &mut InodeState, goes_on: bool) {
        if goes_on {
            self.notes.fetch_or(NOTE_CUTTING, Ordering::Release)
        } else {
            self.notes.fetch_and(!NOTE_CUTTING, Ordering::Release)
        };
    }

    /// True for a directory flagged as top of hierarchies (`chattr +T`).
    fn is_top_dir(&self) -> bool {
        self.facts().flags.contains(InodeFlags::TOPDIR)
    }

    /// Placement of a new inode of this type near this one; `hash` spreads tops of hierarchies.
    pub(crate) fn near(&self, kind: FileType, hash: u32) -> Near<'_> {
        let is_top = kind == FileType::Directory && (self.nr == InodeNr::ROOT || self.is_top_dir());
        Near {
            parent: self.nr,
            top: is_top.then_some(hash),
            last_flex: &self.last_flex,
        }
    }

    /// Of a directory: its cached blocks.
    pub(crate) fn dir_blocks(&self) -> &DirBlocks {
        self.dir_blocks.get_or_init(Box::default)
    }

    /// As [`Self::dir_blocks`], without creating the cache.
    pub(crate) fn known_dir_blocks(&self) -> Option<&DirBlocks> {
        self.dir_blocks.get().map(Box::as_ref)
    }

    /// The preallocated space, if there ever was any.
    pub(crate) fn preallocation(&self) -> Option<&Arc<FilePreallocation>> {
        self.preallocation.get()
    }

    /// The preallocated space, created on first use.
    pub(crate) fn preallocation_or_new(&self) -> &Arc<FilePreallocation> {
        self.preallocation
            .get_or_init(|| Arc::new(FilePreallocation::new(self.nr)))
    }

    fn holds_space(&self) -> bool {
        self.preallocation
            .get()
            .is_some_and(|held| !held.is_empty())
    }

    /// Whether data wait for allocation, or are being written out. Takes no lock.
    pub fn has_delayed(&self) -> bool {
        self.delayed_blocks.load(Ordering::Acquire) != 0
    }

    /// Blocks with delayed allocation. Takes no lock.
    pub(crate) fn delayed_blocks(&self) -> u64 {
        self.delayed_blocks.load(Ordering::Acquire)
    }

    /// Clusters reserved for delayed allocation. Takes no lock.
    pub(crate) fn delayed_clusters(&self) -> u64 {
        self.delayed_clusters.load(Ordering::Relaxed)
    }

    /// Publishes the counts of `buffer`, which is this inode's.
    pub(crate) fn publish_delayed(&self, buffer: &Buffer) {
        let clusters = buffer.claimed_clusters();
        self.delayed_clusters.store(clusters, Ordering::Relaxed);
        let blocks = buffer.len_blocks();
        self.delayed_blocks.store(blocks, Ordering::Release);
    }

    /// True when there are no holds.
    pub(crate) fn is_unused(&self) -> bool {
        self.holds.is_unheld()
    }

    /// A block near which new data of this inode should go.
    pub(crate) fn goal_hint(&self) -> Option<BlockNr> {
        match self.last_block.load(Ordering::Relaxed) {
            0 => None,
            block => Some(BlockNr(block)),
        }
    }

    /// Sets that block, until data are allocated.
    pub(crate) fn set_goal_hint(&self, block: BlockNr) {
        self.last_block.store(block.0, Ordering::Relaxed);
    }
}

/// A counted hold on an inode. While one exists, an unlinked inode keeps its data.
pub struct InodeRef(Arc<Inode>);

impl InodeRef {
    pub(crate) fn new(inode: Arc<Inode>) -> Self {
        inode.holds.acquire();
        Self(inode)
    }

    pub(crate) fn arc(&self) -> &Arc<Inode> {
        &self.0
    }
}

impl Clone for InodeRef {
    fn clone(&self) -> Self {
        shared_count(&self.0);
        Self::new(self.0.clone())
    }
}

impl std::ops::Deref for InodeRef {
    type Target = Inode;
    fn deref(&self) -> &Inode {
        &self.0
    }
}

impl std::fmt::Debug for InodeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inode {}", self.0.nr)
    }
}

impl Drop for InodeRef {
    fn drop(&mut self) {
        shared_count(&self.0);
        let Some(life) = self.0.holds.release() else {
            return;
        };
        if life.ends_unheld() || self.0.holds_space() {
            self.0.evictions.0.push(self.0.clone());
        }
    }
}

// Cached in large numbers: eight cache lines with the counts of its `Arc`, which is a size class of
// allocators.
#[cfg(all(target_pointer_width = "64", not(shuttle)))]
const _: () = assert!(size_of::<Inode>() + 2 * size_of::<usize>() <= 512);
