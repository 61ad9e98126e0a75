//! The legacy orphan list: a chain through `i_dtime`, newest first, headed by the superblock.

use crate::inode::Inode;
use crate::{Fs, Result};
use std::collections::HashMap;
use std::sync::Arc;
use uext4_journal::Handle;
use uext4_sync::{Mutex, Rank};

/// Neighbours on the chain: `newer` points at us on disk, we point at `older`.
struct Link {
    inode: Arc<Inode>,
    newer: u32,
    older: u32,
}

#[derive(Default)]
struct Chain {
    head: u32,
    links: HashMap<u32, Link>,
}

/// The list in memory, a mirror of the chain on disk.
pub(super) struct OrphanList {
    chain: Mutex<Chain>,
}

impl Default for OrphanList {
    fn default() -> Self {
        Self {
            chain: Mutex::new(Rank::OrphanList, Chain::default()),
        }
    }
}

impl OrphanList {
    /// Mirrors the chain that is on disk, newest first, into a list that is empty.
    pub(super) fn adopt(&self, inodes: &[Arc<Inode>]) {
        let number = |at: usize| inodes.get(at).map_or(0, |inode| inode.nr().0);
        let mut chain = self.chain.lock();
        chain.head = number(0);
        let mut newer = 0;
        for (at, inode) in inodes.iter().enumerate() {
            let link = Link {
                inode: inode.clone(),
                newer,
                older: number(at + 1),
            };
            newer = inode.nr().0;
            chain.links.insert(newer, link);
        }
    }

    /// Puts `inode` at the head of the chain.
    pub(super) fn add(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        let nr = inode.nr().0;
        let mut chain = self.chain.lock();
        let older = chain.head;
        if let Some(link) = chain.links.get_mut(&older) {
            link.newer = nr;
        }
        chain.links.insert(
            nr,
            Link {
                inode: inode.clone(),
                newer: 0,
                older,
            },
        );
        chain.head = nr;
        handle.write(inode).disk.dtime = older;
        fs.superblock.update(handle, |disk| disk.last_orphan = nr);
        Ok(())
    }

    /// Takes `inode` out of the chain.
    pub(super) fn remove(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        let mut chain = self.chain.lock();
        let Some(link) = chain.links.remove(&inode.nr().0) else {
            return Ok(());
        };
        if let Some(older) = chain.links.get_mut(&link.older) {
            older.newer = link.newer;
        }
        match chain.links.get_mut(&link.newer) {
            Some(newer) => {
                newer.older = link.older;
                let newer = newer.inode.clone();
                handle.write(&newer).disk.dtime = link.older;
            }
            None => {
                chain.head = link.older;
                fs.superblock
                    .update(handle, |disk| disk.last_orphan = link.older);
            }
        }
        handle.write(&link.inode).disk.dtime = 0;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chain.lock().links.is_empty()
    }
}
