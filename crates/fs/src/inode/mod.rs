//! Inodes in memory.
//!
//! Layout: an [`Inode`] is a live object (its [`InodeState`] renders to one slot of the inode
//! table) with the locks that operations take before a handle starts. [`InodeRef`] is how callers
//! hold one: while an `InodeRef` exists, an unlinked inode keeps its blocks.
//!
//! Invariants: one `Inode` per number while anybody holds it; a freed number that is allocated
//! again reuses the same object if it is still cached, so that its images stay in order.
//! Locking: `index` (DirIndex) and `io` (InodeIo) before a handle, the state (InodeState) after.

mod attr;
mod create;
mod evict;
mod state;
mod table;

pub(crate) use attr::{attr_of, linux_device};
pub(crate) use create::NewInode;
pub(crate) use evict::Reclaim;
pub(crate) use state::InodeState;
pub(crate) use table::Inodes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use uext4_format::{BlockNr, FileType, InodeNr};
use uext4_journal::{Live, Object};
use uext4_sync::{Rank, RwLock};

/// An inode in memory.
pub struct Inode {
    nr: InodeNr,
    live: Live<InodeState>,
    /// Shared to change entries of a directory, exclusive to change its blocks.
    pub(crate) index: RwLock<()>,
    /// Shared to read data, exclusive to write data or change the size.
    pub(crate) io: RwLock<()>,
    users: AtomicU32,
    unlinked: AtomicBool,
    /// Slot in the orphan file plus one, or `u64::MAX` for the legacy list; 0 when not tracked.
    pub(crate) orphan: AtomicU64,
    /// Where the last block of data was found (a hint for the next allocation).
    pub(crate) last_block: AtomicU64,
    reclaim: Arc<Reclaim>,
}

impl Object for Inode {
    type State = InodeState;
    fn live(&self) -> &Live<InodeState> {
        &self.live
    }
}

impl Inode {
    fn new(nr: InodeNr, state: InodeState, reclaim: Arc<Reclaim>) -> Self {
        let unlinked = state.disk.links == 0;
        Self {
            nr,
            live: Live::new(state),
            index: RwLock::new(Rank::DirIndex, ()),
            io: RwLock::new(Rank::InodeIo, ()),
            users: AtomicU32::new(0),
            unlinked: AtomicBool::new(unlinked),
            orphan: AtomicU64::new(0),
            last_block: AtomicU64::new(0),
            reclaim,
        }
    }

    /// The inode's number.
    pub fn nr(&self) -> InodeNr {
        self.nr
    }

    /// The live state's lock, to read.
    pub(crate) fn read(&self) -> uext4_sync::RwLockReadGuard<'_, InodeState> {
        self.live.read()
    }

    /// Type of file.
    pub fn kind(&self) -> FileType {
        self.read().disk.file_type()
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// Notes whether the inode still has a name; the last user of one without is who frees it.
    pub(crate) fn set_unlinked(&self, links: u16) {
        self.unlinked.store(links == 0, Ordering::SeqCst);
    }

    /// True when the last name is gone.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.unlinked.load(Ordering::SeqCst)
    }

    /// True when some `InodeRef` exists.
    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) != 0
    }

    /// A block near which new data of this inode should go.
    pub(crate) fn goal_hint(&self) -> Option<BlockNr> {
        match self.last_block.load(Ordering::Relaxed) {
            0 => None,
            block => Some(BlockNr(block)),
        }
    }
}

/// A counted hold on an inode. While one exists, an unlinked inode keeps its data.
pub struct InodeRef(Arc<Inode>);

impl InodeRef {
    pub(crate) fn new(inode: Arc<Inode>) -> Self {
        inode.users.fetch_add(1, Ordering::SeqCst);
        Self(inode)
    }

    pub(crate) fn arc(&self) -> &Arc<Inode> {
        &self.0
    }
}

impl Clone for InodeRef {
    fn clone(&self) -> Self {
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
        if self.0.users.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_unlinked() {
            self.0.reclaim.push(self.0.clone());
        }
    }
}
