//! Node table: FUSE node id to inode. A node holds its inode until the kernel forgets it.
//!
//! Invariants: a node id is the inode number, except for the root (id 1, inode 2); inode 1 is never
//! exposed. `lookups` counts the answered entries that the kernel has not yet forgotten; the root
//! is never forgotten. A node keeps an unlinked inode alive while a process has it open.
//! Locking: one lock per shard, never held over a call of the library.

use crate::attributes::{TTL, TTL_WRITERS, Writers};
use crate::errno::Errno;
use crate::protocol::ROOT_ID;
use std::collections::hash_map::Entry;
use std::time::Duration;
use uext4::InodeRef;
use uext4_format::InodeNr;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Rank, RwLock, StripeMap, stripe_shard};

/// Shards of the table; a power of two.
const SHARDS: usize = 64;
/// log2 of the run of consecutive numbers that share a shard; consecutive new files have them.
const STRIPE_BITS: u32 = 6;

struct Node {
    inode: InodeRef,
    lookups: u64,
    writers: u32,
    /// Writers that may use the blocks reserved for the superuser.
    privileged: u32,
    /// The kernel may cache pages of the node; reads of those send no request.
    cached: AtomicBool,
    /// Unreported error of a lost writeback.
    lost: Option<Errno>,
}

type Shard = RwLock<StripeMap<u64, Node, STRIPE_BITS>>;

/// Sharded table of nodes.
pub(crate) struct Nodes {
    shards: Box<[Shard]>,
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
    /// A table with only the root.
    pub(crate) fn new(root: InodeRef) -> Self {
        let shard = |_| RwLock::new(Rank::CacheShard, StripeMap::default());
        let nodes = Self {
            shards: (0..SHARDS).map(shard).collect(),
        };
        nodes.insert(root);
        nodes
    }

    fn shard(&self, node: u64) -> &Shard {
        &self.shards[stripe_shard::<STRIPE_BITS>(node, SHARDS)]
    }

    /// Inode of a node.
    pub(crate) fn get(&self, node: u64) -> Result<InodeRef, Errno> {
        let shard = self.shard(node).read();
        shard
            .get(&node)
            .map(|node| node.inode.clone())
            .ok_or(Errno::ESTALE)
    }

    /// Counts a lookup of an inode and returns its node id.
    pub(crate) fn insert(&self, inode: InodeRef) -> u64 {
        let id = node_of(inode.nr());
        let spare = {
            let mut shard = self.shard(id).write();
            match shard.entry(id) {
                Entry::Occupied(mut known) => {
                    known.get_mut().lookups += 1;
                    Some(inode)
                }
                Entry::Vacant(free) => {
                    free.insert(Node {
                        inode,
                        lookups: 1,
                        writers: 0,
                        privileged: 0,
                        cached: AtomicBool::new(false),
                        lost: None,
                    });
                    None
                }
            }
        };
        // Dropping an inode may take locks of the library.
        drop(spare);
        id
    }

    /// Subtracts `lookups` from the count of a node. Returns the inode when the count reaches 0.
    pub(crate) fn forget(&self, node: u64, lookups: u64) -> Option<InodeRef> {
        if node == ROOT_ID {
            return None;
        }
        let mut shard = self.shard(node).write();
        let known = shard.get_mut(&node)?;
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 {
            return None;
        }
        shard.remove(&node).map(|node| node.inode)
    }

    /// Marks the node as cached by the kernel; returns whether it was marked before.
    pub(crate) fn note_cached(&self, node: u64) -> bool {
        match self.shard(node).read().get(&node) {
            Some(node) if node.cached.load(Ordering::Relaxed) => true,
            Some(node) => node.cached.swap(true, Ordering::Relaxed),
            None => true,
        }
    }

    /// Whether the kernel may cache pages of the node.
    pub(crate) fn may_be_cached(&self, node: u64) -> bool {
        let shard = self.shard(node).read();
        shard
            .get(&node)
            .is_none_or(|node| node.cached.load(Ordering::Relaxed))
    }

    /// Counts an open for writing.
    pub(crate) fn add_writer(&self, node: u64, writer: uext4::Writers) {
        if let Some(node) = self.shard(node).write().get_mut(&node) {
            if node.writers == 0 {
                // The error concerned earlier writers.
                node.lost = None;
            }
            node.writers += 1;
            node.privileged += u32::from(writer == uext4::Writers::Privileged);
        }
    }

    /// Counts the release of a file open for writing.
    pub(crate) fn drop_writer(&self, node: u64, writer: uext4::Writers) {
        if let Some(node) = self.shard(node).write().get_mut(&node) {
            let privileged = u32::from(writer == uext4::Writers::Privileged);
            node.writers = node.writers.saturating_sub(1);
            node.privileged = node.privileged.saturating_sub(privileged);
        }
    }

    /// Class of the writers of the node's dirty pages; `Privileged` once all have closed the file.
    pub(crate) fn writers_of(&self, node: u64) -> uext4::Writers {
        match self.shard(node).read().get(&node) {
            Some(node) if node.writers > 0 && node.privileged == 0 => uext4::Writers::Users,
            _ => uext4::Writers::Privileged,
        }
    }

    /// All nodes that are open for writing.
    pub(crate) fn with_writers(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            let written = shard.iter().filter(|(_, node)| node.writers > 0);
            found.extend(written.map(|(&id, _)| id));
        }
        found
    }

    /// Records a lost writeback of the node.
    pub(crate) fn note_lost(&self, node: u64, why: Errno) {
        if let Some(node) = self.shard(node).write().get_mut(&node) {
            node.lost = Some(why);
        }
    }

    /// Takes the unreported error of a lost writeback.
    pub(crate) fn take_lost(&self, node: u64) -> Option<Errno> {
        let lost = |node: &Node| node.lost.is_some();
        if !self.shard(node).read().get(&node).is_some_and(lost) {
            return None;
        }
        self.shard(node).write().get_mut(&node)?.lost.take()
    }

    /// Whether the node is open for writing.
    pub(crate) fn writers(&self, node: u64) -> Writers {
        match self.shard(node).read().get(&node) {
            Some(node) if node.writers > 0 => Writers::Some,
            _ => Writers::None,
        }
    }

    /// Lifetime of the node's attributes in the kernel.
    pub(crate) fn ttl(&self, node: u64) -> Duration {
        match self.shard(node).read().get(&node) {
            Some(node) if node.writers > 0 || node.inode.has_delayed() => TTL_WRITERS,
            _ => TTL,
        }
    }

    /// Drops all nodes after the connection has ended.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *shard.write());
            drop(nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_root_has_two_numbers() {
        assert_eq!(node_of(InodeNr::ROOT), ROOT_ID);
        assert_eq!(inode_of(ROOT_ID), Ok(InodeNr::ROOT));
        assert_eq!(inode_of(2), Err(Errno::ESTALE));
        assert_eq!(inode_of(0), Err(Errno::ESTALE));
        assert_eq!(inode_of(1 << 32), Err(Errno::ESTALE));
        assert_eq!(inode_of(12), Ok(InodeNr(12)));
    }
}
