//! In-memory allocator of clusters and inodes: no I/O, no journal.
//!
//! # States of a cluster
//!
//! | state | on disk | here | how it gets there |
//! | --- | --- | --- | --- |
//! | free | clear | free | [`Engine::give_back`], [`Engine::release`], load |
//! | reserved | clear | taken | [`Engine::allocate`], [`Engine::take_exact`] |
//! | in use | set | taken | the bits are set, then [`Engine::mark_in_use`] |
//! | freed-pending | clear | taken | [`Engine::defer_free`], *then* the bits are cleared |
//!
//! Reservations exist in memory only: a crash leaks nothing.
//! A freed-pending cluster becomes free by [`Engine::give_back`] after the transaction that cleared
//! its bit has committed. The bitmaps on disk are authoritative: the free space of a group is built
//! from its bitmap (see [`Loader`]), less the pending clusters, and may be dropped again.
//!
//! Locking: the space of each group has a padded lock of its own (`Rank::GroupSpace`); under it
//! only `Rank::PendingFree` is taken. [`Loader`] is called with no lock held.
//!
//! Not here: preallocation and normalisation of requests (fs), bits on disk (fs), quota (fs).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod base_lines;
mod bitmap;
mod buddy;
mod cold;
mod engine;
mod events;
mod free_count;
mod free_extents;
mod group;
mod group_index;
mod group_survey;
mod groups;
mod inode_bits;
mod inode_candidates;
mod inode_counts;
mod inode_policy;
mod inode_runs;
mod loader;
mod locality;
mod pending_free;
mod region;
mod region_load;
mod regions;
mod request;
mod search;
mod stats;
mod tree_engine;
mod tree_search;
mod tunables;
mod unusable;
mod volume;
mod words;

#[cfg(any(test, feature = "experiments"))]
pub use base_lines::BuddyBaseLines;
pub use bitmap::Bitmap;
pub use engine::{BuddyEngine, Config, Engine, ScanOrder, TreeMemory};
pub use free_count::{FreeCount, Privilege};
pub use group::{GroupReport, Summary};
pub use inode_bits::{INODE_LINE, InodeBits};
pub use inode_candidates::Candidates;
pub use inode_counts::{InodeCounts, InodeKind, InodeSummary};
pub use inode_policy::{InodePolicy, Parent};
pub use inode_runs::InodeRuns;
pub use loader::{LoadError, Loader};
pub use locality::{Affinity, inode_goal};
pub use pending_free::PendingFree;
pub use request::{ClusterUse, Error, Goal, Placement, Request};
pub use stats::{Criterion, Effort, Stat, Stats};
pub use tree_engine::TreeEngine;
pub use tunables::Tunables;
pub use volume::{ClusterNr, Run, Volume};
