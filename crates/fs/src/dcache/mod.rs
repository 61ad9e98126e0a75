//! Directory caches: blocks, index and dentries of a directory in memory.
//!
//! Layout: [`DirBlocks`] holds the caches of one directory: its blocks ([`known_block`],
//! [`whereabouts`]), a copy of its index ([`index_copy`], [`near`]), its dentries ([`names`]), and
//! the queue of its sparse leaves ([`turns`]). [`NameMemory`] bounds the dentries of a mount.
//! Not here: directories themselves (`dir`). These caches know neither inodes nor the engine.

mod blocks;
mod index_copy;
mod known_block;
mod linear_hash;
mod name_entry;
mod name_memory;
mod names;
mod near;
#[cfg(shuttle)]
pub(crate) mod schedules;
mod sparse_leaves;
#[cfg(test)]
mod tests;
mod turns;
mod whereabouts;

pub(crate) use blocks::DirBlocks;
pub(crate) use index_copy::runs_on;
pub(crate) use name_entry::Key;
pub(crate) use name_memory::NameMemory;
pub(crate) use sparse_leaves::{Note, SparseLeaves};
pub(crate) use turns::Turn;
