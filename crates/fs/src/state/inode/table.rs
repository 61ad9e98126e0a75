//! The inode cache, and loading from the inode table.

use super::{EvictQueues, Inode, InodeState};
use crate::cache::clock::{Allotment, Cache, Counts, ENTRY_BYTES, Found};
use crate::state::base::Base;
use crate::state::inode::state::{InodeFormat, STACK_BYTES};
use crate::state::space::Space;
use crate::types::error::{Error, Result};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Inode as DiskInode, InodeNr};
use uext4_journal::Handle;
use uext4_num::u64_of;
use uext4_sync::atomic::AtomicU64;
use uext4_sync::{Arc, Sharded};

/// All inodes in memory.
pub(crate) struct Inodes {
    cache: Cache<InodeNr, Inode>,
    /// One copy per thread shard: every inode counts a reference, and one shared count would be a
    /// cache line that all threads write.
    shared: Sharded<Shared>,
    pub(crate) evictions: Arc<EvictQueues>,
}

/// State that every inode of a file system refers to.
struct Shared {
    format: Arc<InodeFormat>,
    evictions: Arc<EvictDoor>,
}

/// Per-shard `Arc`, so that clones do not contend on one reference count.
pub(super) struct EvictDoor(pub(super) Arc<EvictQueues>);

impl Inodes {
    /// An empty cache; half of `cache_bytes` is for idle inodes.
    pub(crate) fn new(cache_bytes: &Arc<AtomicU64>, format: &InodeFormat) -> Self {
        let evictions: Arc<EvictQueues> = Arc::default();
        let shared = |_| Shared {
            format: Arc::new(format.clone()),
            evictions: Arc::new(EvictDoor(Arc::clone(&evictions))),
        };
        let allotment = Allotment {
            bytes: Arc::clone(cache_bytes),
            parts: 2,
            object_bytes: u64_of(size_of::<Inode>()) + ENTRY_BYTES,
        };
        Self {
            cache: Cache::new(allotment),
            shared: Sharded::new(shared),
            evictions,
        }
    }

    /// Layout of inodes on this file system.
    pub(crate) fn format(&self) -> &Arc<InodeFormat> {
        &self.shared.local().format
    }

    /// The inode, read from the table on a miss. It may be free or unlinked: callers check. For
    /// sequential numbers, the read also loads the other used inodes of the block.
    pub(crate) fn load(&self, base: &Base, space: &Space, nr: InodeNr) -> Result<Arc<Inode>> {
        self.cache.load(nr, || {
            let (block, offset) = self.location(space, nr)?;
            let size = usize::from(self.format().geometry.inode_size);
            let Some(room) = base.block_size().checked_sub(offset + size) else {
                let problem = CorruptKind::SlotOutside;
                return Err(Corrupt::new(DamageLocation::Inode(nr), "inode", problem).into());
            };
            let in_order = nr.0 > 1 && self.cache.contains(InodeNr(nr.0 - 1));
            let behind = if in_order { room / size } else { 0 };
            self.read_slots((base, space), nr, (block, offset), 1 + behind)
        })
    }

    /// The inode, if it is in memory. A miss is not counted: the caller loads it then.
    pub(crate) fn cached(&self, nr: InodeNr) -> Option<Arc<Inode>> {
        self.cache.hit(nr)
    }

    /// Reads inode `nr`, and the inodes in use among the slots that follow in the same block.
    fn read_slots(
        &self,
        (base, space): (&Base, &Space),
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
        base.journal.read_part(block, offset, slots)?;
        let (first, others) = slots.split_at(size);
        let wanted = self.object(nr, (block, offset), self.parse(nr, first)?);
        let numbered = (nr.0.saturating_add(1)..).zip(others.chunks_exact(size));
        let beside = numbered
            .filter_map(|(nr, slot)| {
                let (nr, place) = (InodeNr(nr), self.location(space, InodeNr(nr)).ok()?);
                let disk = self.parse(nr, slot).ok()?;
                let is_used = place.0 == block && disk.links > 0 && disk.file_type().is_some();
                is_used.then(|| (nr, self.object(nr, place, disk)))
            })
            .collect();
        Ok(Found { wanted, beside })
    }

    fn parse(&self, nr: InodeNr, slot: &[u8]) -> Result<DiskInode> {
        let format = self.format();
        let disk = DiskInode::parse(slot, nr, &format.geometry, &format.checksums)?;
        Ok(disk)
    }

    fn object(&self, nr: InodeNr, place: (BlockNr, usize), disk: DiskInode) -> Inode {
        let Shared { format, evictions } = self.shared.local();
        let state = InodeState::new(nr, disk, place, format.clone());
        Inode::new(nr, state, evictions.clone())
    }

    /// The live object of a number that was just allocated. If the previous inode of the number is
    /// still in memory (its images may wait for a commit), its object is reused.
    pub(crate) fn insert_new(
        &self,
        space: &Space,
        handle: &Handle<'_>,
        nr: InodeNr,
        disk: &DiskInode,
    ) -> Result<Arc<Inode>> {
        let place = self.location(space, nr)?;
        let inode = self.object_for(nr, place, disk);
        let mut state = handle.write(&inode);
        state.status.clear();
        drop(state.take_changed());
        state.disk.clone_from(disk);
        state.disksize = u64::MAX;
        inode.reborn(&mut state);
        drop(state);
        Ok(inode)
    }

    /// The object of a number that has just been allocated: the cached one, or a new one with
    /// `disk`.
    fn object_for(&self, nr: InodeNr, place: (BlockNr, usize), disk: &DiskInode) -> Arc<Inode> {
        self.cache.get(nr).unwrap_or_else(|| {
            let inode = self.object(nr, place, disk.clone());
            self.cache.get_or_insert(nr, inode)
        })
    }

    /// Block and byte offset of an inode's slot in the table.
    pub(crate) fn location(&self, space: &Space, nr: InodeNr) -> Result<(BlockNr, usize)> {
        let bad = Corrupt::new(
            DamageLocation::Inode(nr),
            "inode number",
            CorruptKind::NumberRange,
        );
        space.inode_location(nr)?.ok_or(Error::Corrupt(bad))
    }

    /// Evicts some of the idle inodes; returns how many.
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
