//! The legacy orphan list: a chain through `i_dtime`, newest first, headed by the superblock.

use super::ON_LIST;
use crate::state::base::Base;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::Result;
use std::collections::HashMap;
use uext4_journal::Handle;
use uext4_sync::atomic::Ordering;
use uext4_sync::{Arc, Mutex, Rank};

/// Neighbours on the chain: on disk `newer` points at this inode, which points at `older`.
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
    /// Mirrors the on-disk chain, newest first, into an empty list.
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

    /// Inserts `inode` at the head of the chain, unless it is tracked.
    pub(super) fn add(&self, base: &Base, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        let nr = inode.nr().0;
        let mut chain = self.chain.lock();
        let older = chain.head;
        {
            let mut state = handle.write(inode);
            if inode.is_orphan() {
                return Ok(());
            }
            state.disk.dtime = older;
            inode.orphan.store(ON_LIST, Ordering::Release);
        }
        if let Some(link) = chain.links.get_mut(&older) {
            link.newer = nr;
        }
        let link = Link {
            inode: inode.clone(),
            newer: 0,
            older,
        };
        chain.links.insert(nr, link);
        chain.head = nr;
        base.superblock.update(handle, |disk| disk.last_orphan = nr);
        Ok(())
    }

    /// Removes `inode` from the chain if it is there and `is_due` holds for its state.
    pub(super) fn remove_if(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        is_due: impl Fn(&InodeState) -> bool,
    ) -> Result<()> {
        let mut chain = self.chain.lock();
        {
            let mut state = handle.write(inode);
            if inode.orphan.load(Ordering::Acquire) != ON_LIST || !is_due(&state) {
                return Ok(());
            }
            state.disk.dtime = 0;
            inode.orphan.store(0, Ordering::Release);
        }
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
                base.superblock
                    .update(handle, |disk| disk.last_orphan = link.older);
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chain.lock().links.is_empty()
    }
}
