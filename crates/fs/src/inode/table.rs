//! The cache of inodes and loading from the inode table.

use super::{Inode, InodeRef, InodeState, Reclaim};
use crate::cache::Cache;
use crate::inode::state::InodeFormat;
use crate::{Error, Fs, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uext4_format::{BlockNr, Corrupt, Inode as DiskInode, InodeNr, Place};

/// All inodes in memory.
pub(crate) struct Inodes {
    cache: Cache<InodeNr, Inode>,
    format: Arc<InodeFormat>,
    pub(super) reclaim: Arc<Reclaim>,
}

impl Inodes {
    /// An empty cache that keeps about `max_inodes` that nobody uses.
    pub(crate) fn new(max_inodes: usize, format: Arc<InodeFormat>) -> Self {
        Self {
            cache: Cache::new(max_inodes),
            format,
            reclaim: Arc::default(),
        }
    }

    /// How inodes are laid out on this file system.
    pub(crate) fn format(&self) -> &Arc<InodeFormat> {
        &self.format
    }

    /// The inode, if it is in memory.
    pub(crate) fn cached(&self, nr: InodeNr) -> Option<Arc<Inode>> {
        self.cache.get(nr)
    }

    /// The inode, read from the table if need be. It may be free or unlinked: callers check.
    pub(crate) fn load(&self, fs: &Fs, nr: InodeNr) -> Result<Arc<Inode>> {
        if let Some(inode) = self.cache.get(nr) {
            return Ok(inode);
        }
        let (block, offset) = self.place(fs, nr)?;
        let image = fs.journal.read_block(block)?;
        let size = usize::from(self.format.geometry.inode_size);
        let slot = image
            .get(offset..offset + size)
            .ok_or(Error::Corrupt(Corrupt::new(
                Place::Inode(nr),
                "inode",
                "slot is outside its block",
            )))?;
        let disk = DiskInode::parse(slot, nr, &self.format.geometry, &self.format.checksums)?;
        Ok(self.insert(
            nr,
            InodeState::new(nr, disk, (block, offset), self.format.clone()),
        ))
    }

    pub(super) fn insert(&self, nr: InodeNr, state: InodeState) -> Arc<Inode> {
        self.cache
            .insert_or_get(nr, Inode::new(nr, state, self.reclaim.clone()))
    }

    /// Block and byte offset of an inode's slot in the table.
    pub(super) fn place(&self, fs: &Fs, nr: InodeNr) -> Result<(BlockNr, usize)> {
        let bad = Corrupt::new(Place::Inode(nr), "inode number", "out of range");
        fs.space.inode_place(nr)?.ok_or(Error::Corrupt(bad))
    }

    /// Inodes in memory now.
    pub(crate) fn len(&self) -> usize {
        self.cache.len()
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
