//! Directory caches: blocks, index and dentries of a directory in memory.
//!
//! Layout: [`DirBlocks`] holds the caches of one directory: its blocks ([`known_block`],
//! [`prefetch_hint`], [`right_link`]), a copy of its index ([`index_copy`], [`near`]), its dentries
//! ([`dentries`]), and the queue of its sparse leaves. [`DentryMemory`] bounds the dentries of a
//! mount, [`SparseLeaves`] notes leaves to merge. Operations pass a [`HashedName`].
//! Not here: directories themselves (`dir`). These caches know neither inodes nor the engine.

mod blocks;
mod dentries;
mod dentry;
mod dentry_memory;
mod hashed_name;
mod index_copy;
mod known_block;
mod linear_hash;
mod near;
mod prefetch_hint;
mod right_link;
#[cfg(shuttle)]
pub(crate) mod schedules;
mod sparse_leaves;
#[cfg(test)]
mod tests;

pub(crate) use blocks::{DirBlocks, Promised};
pub(crate) use dentry_memory::DentryMemory;
pub(crate) use hashed_name::{HashedName, Key, NameHasher};
pub(crate) use index_copy::runs_on;
pub(crate) use right_link::Right;
pub(crate) use sparse_leaves::SparseLeaves;
