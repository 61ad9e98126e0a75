//! Directories in three forms (inline, linear, indexed): maps from name to inode number.
//!
//! Layout: [`view`] is a directory during one operation; [`index`] descends the hash tree,
//! [`quick`] finds leaves without locks, in the caches of [`crate::cache::dcache`].
//!
//! [`scan`] finds names, and [`mod@lookup`] their inodes; [`slot`] finds space for one,
//! [`mod@insert`] puts it in, [`edit`] changes existing entries; [`grow`] and [`divide`] split
//! blocks, [`shrink`] frees them ([`neighbours`], [`merge`]); [`mod@rename`] changes two entries at
//! once; [`mod@read`] lists; [`inline`] is the form in an inode.
//! Invariants: a name occurs at most once; in an indexed directory its hash determines the block.
//! Every step of growth leaves a sound directory, so "no space" in the middle needs no undo.
//! Locking: callers hold the directory's `index` lock (`Rank::DirIndex`) for the whole call, or
//! validate its version at the end ([`LockMode`]; optimistic lock). A change of an entry locks one
//! block, which makes "absent, then insert" atomic; with [`LockMode::Optimistic`] it validates the
//! version under that lock. Leaves are split and merged concurrently ([`divide`], [`merge`]). An
//! operation that needs more returns [`DirError::NeedExclusive`] and has changed nothing.
//! Not here: permissions, link counts, times, case folding, encrypted names.
//! References: kernel documentation, "directory".

mod cookie;
mod divide;
mod dots;
mod edit;
mod entry_location;
mod error;
mod grow;
mod index;
mod inline;
mod insert;
mod lock_mode;
mod lookup;
mod merge;
mod name_changes;
mod neighbours;
mod quick;
mod read;
mod reference;
mod rename;
mod scan;
mod shrink;
mod slot;
mod split;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use divide::{Draft, SplitReason, StaleNode, carry_out, draft, leaf_to_split};
pub(crate) use dots::{init, is_empty, parent_of, set_parent};
pub(crate) use edit::{remove, remove_at};
pub(crate) use error::{DirError, DirResult};
pub(crate) use insert::insert;
pub(crate) use lock_mode::LockMode;
pub(crate) use lookup::{find, lookup, lookup_entry};
pub(crate) use name_changes::Child;
pub(crate) use quick::{lookup_cached, renew};
pub(crate) use read::read;
pub use read::{DirEntry, Visit};
pub(crate) use rename::{Exchange, Move, exchange, rename};
pub(crate) use slot::{InsertPlan, can_insert};
