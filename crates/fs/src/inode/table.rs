//! The cache of inodes and loading from the inode table.

use super::{Inode, InodeRef, InodeState, Reclaim};
use crate::cache::{Cache, Counts};
use crate::inode::state::{InodeFormat, STACK_BYTES};
use crate::{Error, Fs, Result};
use std::sync::Arc;
use uext4_format::{BlockNr, Corrupt, Inode as DiskInode, InodeNr, Place};
use uext4_sync::Sharded;
use uext4_sync::atomic::Ordering;

/// All inodes in memory.
pub(crate) struct Inodes {
    cache: Cache<InodeNr, Inode>,
    /// One copy per thread shard: an inode counts a reference, and all inodes on one count would be
    /// a line that every thread writes.
    shared: Sharded<Shared>,
    pub(crate) reclaim: Arc<Reclaim>,
}

/// What every inode of a file system refers to.
struct Shared {
    format: Arc<InodeFormat>,
    reclaim: Arc<ReclaimDoor>,
}

/// A way to the queue with a reference count of its own.
pub(super) struct ReclaimDoor(pub(super) Arc<Reclaim>);

impl Inodes {
    /// An empty cache that keeps about `max_inodes` that nobody uses.
    pub(crate) fn new(max_inodes: usize, format: &InodeFormat) -> Self {
        let reclaim: Arc<Reclaim> = Arc::default();
        let shared = |_| Shared {
            format: Arc::new(format.clone()),
            reclaim: Arc::new(ReclaimDoor(Arc::clone(&reclaim))),
        };
        Self {
            cache: Cache::new(max_inodes),
            shared: Sharded::new(shared),
            reclaim,
        }
    }

    /// How inodes are laid out on this file system.
    pub(super) fn format(&self) -> &Arc<InodeFormat> {
        &self.shared.local().format
    }

    /// The inode, read from the table if need be. It may be free or unlinked: callers check.
    pub(crate) fn load(&self, fs: &Fs, nr: InodeNr) -> Result<Arc<Inode>> {
        if let Some(inode) = self.cache.get(nr) {
            return Ok(inode);
        }
        let place = self.place(fs, nr)?;
        let disk = self.read_slot(fs, nr, place)?;
        Ok(self.insert_with(nr, place, || disk))
    }

    fn read_slot(
        &self,
        fs: &Fs,
        nr: InodeNr,
        (block, offset): (BlockNr, usize),
    ) -> Result<DiskInode> {
        let format = self.format();
        let size = usize::from(format.geometry.inode_size);
        if offset + size > fs.block_size() {
            let problem = "slot is outside its block";
            return Err(Corrupt::new(Place::Inode(nr), "inode", problem).into());
        }
        let mut on_stack = [0; STACK_BYTES];
        let mut on_heap = Vec::new();
        let slot = match on_stack.get_mut(..size) {
            Some(slot) => slot,
            None => {
                on_heap.resize(size, 0);
                &mut on_heap[..]
            }
        };
        fs.journal.read_part(block, offset, slot)?;
        Ok(DiskInode::parse(
            slot,
            nr,
            &format.geometry,
            &format.checksums,
        )?)
    }

    /// The inode in memory; when there is none, one with what `disk` answers.
    pub(super) fn insert_with(
        &self,
        nr: InodeNr,
        place: (BlockNr, usize),
        disk: impl FnOnce() -> DiskInode,
    ) -> Arc<Inode> {
        let Shared { format, reclaim } = self.shared.local();
        self.cache.get_or_insert_with(nr, || {
            let state = InodeState::new(nr, disk(), place, format.clone());
            Inode::new(nr, state, reclaim.clone())
        })
    }

    /// Block and byte offset of an inode's slot in the table.
    pub(super) fn place(&self, fs: &Fs, nr: InodeNr) -> Result<(BlockNr, usize)> {
        let bad = Corrupt::new(Place::Inode(nr), "inode number", "out of range");
        fs.space.inode_place(nr)?.ok_or(Error::Corrupt(bad))
    }

    /// Drops some of the inodes that nobody uses; answers how many.
    pub(crate) fn shed(&self) -> u64 {
        self.cache.shed()
    }

    /// What the cache did and holds.
    pub(crate) fn counts(&self) -> Counts {
        self.cache.counts()
    }

    /// Every inode in memory.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Inode>> {
        self.cache.snapshot()
    }
}

impl Fs {
    /// A counted hold on an inode that must be in use.
    pub(crate) fn inode(&self, nr: InodeNr) -> Result<InodeRef> {
        self.checked(InodeRef::new(self.inodes.load(self, nr)?))
    }

    /// The inode, if it is in use. No inode may be locked.
    pub(crate) fn checked(&self, inode: InodeRef) -> Result<InodeRef> {
        if inode.is_freed() {
            return Err(Error::Stale);
        }
        let (links, kind) = {
            let state = inode.read();
            (state.disk.links, state.disk.file_type())
        };
        if links == 0 && inode.orphan.load(Ordering::Acquire) == 0 {
            return Err(Error::Stale);
        }
        if kind.is_none() {
            let place = Place::Inode(inode.nr());
            return Err(Corrupt::new(place, "inode", "mode names no file type").into());
        }
        Ok(inode)
    }
}
