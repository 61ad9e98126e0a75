//! Node table: what the server knows of the nodes that the kernel remembers.
//!
//! Layout: a node id is the inode number, except for the root (id 1, inode 2); inode 1 is never
//! exposed. A node is one word: the answered entries that the kernel has not yet forgotten, and a
//! flag. Its inode is in the library's cache, or is read again. Few nodes hold their inode: open
//! files, for their write errors, writers and preallocated space; and inodes without a name, which
//! are freed when the last hold is dropped.
//!
//! Invariants: the kernel knows no inode without a name that is not held here. The last name goes
//! before [`Nodes::keep`], and [`Nodes::insert`] and [`Nodes::close`] look at the names under the
//! shard's lock. So whichever of two comes second sees the other: `keep` finds the node, or
//! `insert` and `close` find no name. Until then the caller holds the inode.
//! Locking: one lock per shard, never held over a call of the library, and no inode is dropped
//! under it.

mod shard;

use crate::attributes::Writers;
use crate::errno::Errno;
use crate::protocol::ROOT_ID;
use serde::Serialize;
use shard::{Held, Known, STRIPE_BITS, Shard, shrink, table_bytes};
use uext4::InodeRef;
use uext4_format::InodeNr;
use uext4_num::u64_of;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Rank, RwLock, stripe_shard};

/// Shards of the table; a power of two.
const SHARDS: usize = 64;

/// Sharded table of nodes.
pub(crate) struct Nodes {
    shards: Box<[RwLock<Shard>]>,
    /// The image is being closed: no inode is in use for the kernel any more.
    is_cleared: AtomicBool,
}

/// Rights of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Opened for writing while it was append-only.
    Appends,
    Any,
}

/// What is left of a node after the close of one of its files.
pub(crate) struct Closed {
    /// Its inode; none if the node was not open.
    pub(crate) inode: Option<InodeRef>,
    /// Whether other files of the node are open for writing.
    pub(crate) writers: Writers,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NodeCounts {
    /// Nodes that the kernel remembers.
    known: u64,
    /// Nodes that hold their inode.
    held: u64,
    /// Memory of the table, without the inodes.
    bytes: u64,
}

/// Node id of an inode.
pub(crate) fn node_of(inode: InodeNr) -> u64 {
    if inode == InodeNr::ROOT {
        ROOT_ID
    } else {
        u64::from(inode.0)
    }
}

/// Inode number of a node id.
pub(crate) fn inode_of(node: u64) -> Result<InodeNr, Errno> {
    match u32::try_from(node) {
        Ok(_) if node == ROOT_ID => Ok(InodeNr::ROOT),
        Ok(nr) if nr > InodeNr::ROOT.0 => Ok(InodeNr(nr)),
        _ => Err(Errno::ESTALE),
    }
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS)
                .map(|_| RwLock::new(Rank::CacheShard, Shard::default()))
                .collect(),
            is_cleared: AtomicBool::new(false),
        }
    }

    fn shard(&self, node: u64) -> &RwLock<Shard> {
        &self.shards[stripe_shard::<STRIPE_BITS>(node, SHARDS)]
    }

    /// Counts a lookup of an inode and returns its node id.
    pub(crate) fn insert(&self, inode: &InodeRef) -> u64 {
        let id = node_of(inode.nr());
        let mut shard = self.shard(id).write();
        shard.known.entry(id).or_default().0 += Known::LOOKUP;
        if inode.is_nameless() {
            shard.held.entry(id).or_insert_with(|| Held::new(inode));
        }
        id
    }

    /// Holds an inode that lost its last name, if the kernel knows it; else returns it.
    pub(crate) fn keep(&self, inode: InodeRef) -> Option<InodeRef> {
        let id = node_of(inode.nr());
        let is_known = {
            let mut shard = self.shard(id).write();
            let is_known = shard.known.contains_key(&id);
            if is_known {
                shard.held.entry(id).or_insert_with(|| Held::new(&inode));
            }
            is_known
        };
        (!is_known).then_some(inode)
    }

    /// Subtracts `lookups` from the count of a node. Returns the inode that it held when the count
    /// reaches 0.
    pub(crate) fn forget(&self, node: u64, lookups: u64) -> Option<InodeRef> {
        let mut shard = self.shard(node).write();
        let known = shard.known.get_mut(&node)?;
        if known.lookups() > lookups {
            known.0 -= lookups * Known::LOOKUP;
            return None;
        }
        shard.known.remove(&node);
        shrink(&mut shard.known);
        shard.held.remove(&node).map(|held| held.inode)
    }

    /// Marks the node as cached by the kernel; returns whether it was marked before.
    pub(crate) fn mark_cached(&self, node: u64) -> bool {
        if self.may_be_cached(node) {
            return true;
        }
        match self.shard(node).write().known.get_mut(&node) {
            Some(known) => {
                let was = known.is_cached();
                known.0 |= Known::CACHED;
                was
            }
            None => true,
        }
    }

    /// Whether the kernel may cache pages of the node.
    pub(crate) fn may_be_cached(&self, node: u64) -> bool {
        let shard = self.shard(node).read();
        shard.known.get(&node).is_none_or(|known| known.is_cached())
    }

    /// Holds the inode of a file that is opened, and counts a `writer`.
    pub(crate) fn open(
        &self,
        node: u64,
        inode: &InodeRef,
        writer: Option<uext4::Writers>,
        rights: Rights,
    ) {
        let mut shard = self.shard(node).write();
        let held = || Held::new(inode);
        let held = shard.held.entry(node).or_insert_with(held);
        held.opens += 1;
        if let Some(writer) = writer {
            if held.writers == 0 {
                // The error concerned earlier writers.
                held.lost = None;
            }
            held.writers += 1;
            held.appenders += u32::from(rights == Rights::Appends);
            if let Some(count) = held.class(writer) {
                *count += 1;
            }
        }
    }

    /// Counts the release of a file that was opened with `writer`. The last one ends the hold on an
    /// inode with a name.
    pub(crate) fn close(
        &self,
        node: u64,
        writer: Option<uext4::Writers>,
        rights: Rights,
    ) -> Closed {
        let mut shard = self.shard(node).write();
        let Some(held) = shard.held.get_mut(&node) else {
            return Closed {
                inode: None,
                writers: Writers::None,
            };
        };
        held.opens = held.opens.saturating_sub(1);
        if let Some(writer) = writer {
            held.writers = held.writers.saturating_sub(1);
            let appenders = u32::from(rights == Rights::Appends);
            held.appenders = held.appenders.saturating_sub(appenders);
            if let Some(count) = held.class(writer) {
                *count = count.saturating_sub(1);
            }
        }
        let writers = match held.writers {
            0 => Writers::None,
            _ => Writers::Some,
        };
        let inode = if held.opens == 0 && !held.inode.is_nameless() {
            shard.held.remove(&node).map(|held| held.inode)
        } else {
            Some(held.inode.clone())
        };
        Closed { inode, writers }
    }

    /// What `look` finds at a held node.
    fn held<T>(&self, node: u64, look: impl FnOnce(&Held) -> T) -> Option<T> {
        self.shard(node).read().held.get(&node).map(look)
    }

    /// Class of the writers of the node's dirty pages; `Privileged` once all have closed the file.
    pub(crate) fn writers_of(&self, node: u64) -> uext4::Writers {
        match self.held(node, |held| (held.writers, held.privileged, held.named)) {
            Some((1.., 0, 0)) => uext4::Writers::Users,
            Some((1.., 0, 1..)) => uext4::Writers::Named,
            _ => uext4::Writers::Privileged,
        }
    }

    /// Whether a writer of the node opened it while it was not append-only.
    pub(crate) fn has_older_writers(&self, node: u64) -> bool {
        let found = self.held(node, |held| held.writers > held.appenders);
        found.unwrap_or(false)
    }

    /// All nodes that are open for writing.
    pub(crate) fn with_writers(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            let written = shard.held.iter().filter(|(_, held)| held.writers > 0);
            found.extend(written.map(|(&id, _)| id));
        }
        found
    }

    /// Records a lost writeback of the node.
    pub(crate) fn record_lost(&self, node: u64, why: Errno) {
        if let Some(held) = self.shard(node).write().held.get_mut(&node) {
            held.lost = Some(why);
        }
    }

    /// Takes the unreported error of a lost writeback.
    pub(crate) fn take_lost(&self, node: u64) -> Option<Errno> {
        self.held(node, |held| held.lost)??;
        self.shard(node).write().held.get_mut(&node)?.lost.take()
    }

    /// Whether the node is open for writing.
    pub(crate) fn writers(&self, node: u64) -> Writers {
        match self.held(node, |held| held.writers > 0) {
            Some(true) => Writers::Some,
            _ => Writers::None,
        }
    }

    /// Numbers of known and of held nodes, and the memory of their tables.
    pub(crate) fn counts(&self) -> NodeCounts {
        let mut sum = NodeCounts::default();
        for shard in &self.shards {
            let shard = shard.read();
            sum.known += u64_of(shard.known.len());
            sum.held += u64_of(shard.held.len());
            sum.bytes += u64_of(table_bytes(&shard.known) + table_bytes(&shard.held));
        }
        sum
    }

    /// Checks that the nodes are not cleared. The library returns cached inodes even after an
    /// unmount, and attributes from then would stay in the kernel for long.
    pub(crate) fn check_kept(&self) -> Result<(), Errno> {
        if self.is_cleared.load(Ordering::Relaxed) {
            Err(Errno::ESTALE)
        } else {
            Ok(())
        }
    }

    /// Drops all nodes, before the image is closed.
    pub(crate) fn clear(&self) {
        self.is_cleared.store(true, Ordering::Relaxed);
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *shard.write());
            drop(nodes);
        }
    }
}

#[cfg(test)]
mod tests;
