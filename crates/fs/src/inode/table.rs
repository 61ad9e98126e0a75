//! The inode cache, and loading from the inode table.

use super::{Inode, InodeRef, InodeState, Reclaim};
use crate::cache::{Allotment, Cache, Counts, ENTRY_BYTES, Found};
use crate::inode::state::{InodeFormat, STACK_BYTES};
use crate::{Error, Fs, Result};
use std::sync::Arc;
use uext4_format::{BlockNr, Corrupt, CorruptKind, Inode as DiskInode, InodeNr, Place};
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicU64, Ordering};

/// All inodes in memory.
pub(crate) struct Inodes {
    cache: Cache<InodeNr, Inode>,
    /// One copy per thread shard: every inode counts a reference, and one shared count would be a
    /// cache line that all threads write.
    shared: Sharded<Shared>,
    pub(crate) reclaim: Arc<Reclaim>,
}

/// State that every inode of a file system refers to.
struct Shared {
    format: Arc<InodeFormat>,
    reclaim: Arc<ReclaimDoor>,
}

/// Per-shard `Arc`, so that clones do not contend on one reference count.
pub(super) struct ReclaimDoor(pub(super) Arc<Reclaim>);

impl Inodes {
    /// An empty cache; half of `cache_bytes` is for idle inodes.
    pub(crate) fn new(cache_bytes: &Arc<AtomicU64>, format: &InodeFormat) -> Self {
        let reclaim: Arc<Reclaim> = Arc::default();
        let shared = |_| Shared {
            format: Arc::new(format.clone()),
            reclaim: Arc::new(ReclaimDoor(Arc::clone(&reclaim))),
        };
        let allotment = Allotment {
            bytes: Arc::clone(cache_bytes),
            parts: 2,
            object_bytes: size_of::<Inode>() as u64 + ENTRY_BYTES,
        };
        Self {
            cache: Cache::new(allotment),
            shared: Sharded::new(shared),
            reclaim,
        }
    }

    /// Layout of inodes on this file system.
    pub(crate) fn format(&self) -> &Arc<InodeFormat> {
        &self.shared.local().format
    }

    /// The inode, read from the table on a miss. It may be free or unlinked: callers check. For
    /// sequential numbers, the read also loads the other used inodes of the block.
    pub(crate) fn load(&self, fs: &Fs, nr: InodeNr) -> Result<Arc<Inode>> {
        self.cache.load(nr, || {
            let (block, offset) = self.place(fs, nr)?;
            let size = usize::from(self.format().geometry.inode_size);
            let Some(room) = fs.block_size().checked_sub(offset + size) else {
                let problem = CorruptKind::SlotOutside;
                return Err(Corrupt::new(Place::Inode(nr), "inode", problem).into());
            };
            let in_order = nr.0 > 1 && self.cache.contains(InodeNr(nr.0 - 1));
            let behind = if in_order { room / size } else { 0 };
            self.read_slots(fs, nr, (block, offset), 1 + behind)
        })
    }

    /// Reads inode `nr`, and the inodes in use among the slots that follow in the same block.
    fn read_slots(
        &self,
        fs: &Fs,
        nr: InodeNr,
        (block, offset): (BlockNr, usize),
        count: usize,
    ) -> Result<Found<InodeNr, Inode>> {
        let size = usize::from(self.format().geometry.inode_size);
        let mut on_stack = [0; STACK_BYTES];
        let mut on_heap = Vec::new();
        let slots = match on_stack.get_mut(..size * count) {
            Some(slots) => slots,
            None => {
                on_heap.resize(size * count, 0);
                &mut on_heap[..]
            }
        };
        fs.journal.read_part(block, offset, slots)?;
        let (first, others) = slots.split_at(size);
        let wanted = self.object(nr, (block, offset), self.parse(nr, first)?);
        let in_use = |(nr, slot): (u32, &[u8])| {
            let (nr, place) = (InodeNr(nr), self.place(fs, InodeNr(nr)).ok()?);
            let disk = self.parse(nr, slot).ok()?;
            let is_used = place.0 == block && disk.links > 0 && disk.file_type().is_some();
            is_used.then(|| (nr, self.object(nr, place, disk)))
        };
        let numbered = (nr.0.saturating_add(1)..).zip(others.chunks_exact(size));
        let beside = numbered.filter_map(in_use).collect();
        Ok(Found { wanted, beside })
    }

    fn parse(&self, nr: InodeNr, slot: &[u8]) -> Result<DiskInode> {
        let format = self.format();
        let disk = DiskInode::parse(slot, nr, &format.geometry, &format.checksums)?;
        Ok(disk)
    }

    fn object(&self, nr: InodeNr, place: (BlockNr, usize), disk: DiskInode) -> Inode {
        let Shared { format, reclaim } = self.shared.local();
        let state = InodeState::new(nr, disk, place, format.clone());
        Inode::new(nr, state, reclaim.clone())
    }

    /// The object of a number that has just been allocated: the cached one, or a new one with
    /// `disk`.
    pub(super) fn object_for(
        &self,
        nr: InodeNr,
        place: (BlockNr, usize),
        disk: &DiskInode,
    ) -> Arc<Inode> {
        self.cache.get(nr).unwrap_or_else(|| {
            let inode = self.object(nr, place, disk.clone());
            self.cache.get_or_insert(nr, inode)
        })
    }

    /// Block and byte offset of an inode's slot in the table.
    pub(super) fn place(&self, fs: &Fs, nr: InodeNr) -> Result<(BlockNr, usize)> {
        let bad = Corrupt::new(Place::Inode(nr), "inode number", CorruptKind::NumberRange);
        fs.space.inode_place(nr)?.ok_or(Error::Corrupt(bad))
    }

    /// Evicts some of the idle inodes; answers how many.
    pub(crate) fn shed(&self) -> u64 {
        self.cache.shed()
    }

    /// Counters and content of the cache.
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

    /// The inode, if it is in use and a name may refer to it. The caller has no inode locked.
    pub(crate) fn checked(&self, inode: InodeRef) -> Result<InodeRef> {
        self.check_served(&inode).map(|()| inode)
    }

    /// As [`Self::checked`].
    pub(crate) fn check_served(&self, inode: &Inode) -> Result<()> {
        self.hidden.refuse(inode)?;
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
            return Err(Corrupt::new(place, "inode", CorruptKind::FileType).into());
        }
        Ok(())
    }

    /// The root directory.
    ///
    /// # Errors
    /// `Corrupt` when it is free or no directory.
    pub(crate) fn root(&self) -> Result<InodeRef> {
        let bad = |problem| {
            let place = match self.inodes.place(self, InodeNr::ROOT) {
                Ok((block, _)) => Place::InodeBlock(InodeNr::ROOT, block),
                Err(_) => Place::Inode(InodeNr::ROOT),
            };
            Error::Corrupt(Corrupt::new(place, "root directory", problem))
        };
        match self.inode(InodeNr::ROOT) {
            Err(Error::Stale) => Err(bad(CorruptKind::InodeFree)),
            Ok(root) if !root.is_dir() => Err(bad(CorruptKind::NoDirectory)),
            other => other,
        }
    }
}
