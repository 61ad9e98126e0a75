//! Check of a whole file system, as `e2fsck -fn` does, and its repair.
//!
//! | to | use |
//! | --- | --- |
//! | check a device | [`Check`] |
//! | repair one | [`Repair`], with [`Decisions`] and an undo file |
//! | know what a [`Finding`] means, and what its repair does | [`code`], [`Problem`] |
//! | check one that is mounted | the [`Snapshot`] that its `Filesystem` takes, by [`Check`] |
//!
//! `examples/` has a program for the first three; that of a snapshot is in the crate `uext4`.
//!
//! Order, each pass over the whole file system: the superblock (`superblock`, `named`), descriptors
//! (`groups`), inode tables (`slots`, `reserved`, `orphans`), fields and maps of inodes in use
//! (`inodes`, `maps`, `attributes`, `resize`), directories (`directories`, `index`, `entries`),
//! names and links (`named_inodes`, `ancestors`), bitmaps and counts (`bitmaps`), quota files
//! (`quota_files`).
//!
//! Invariants: a block is walked only by the structure that claimed it first, so the size of the
//! file system bounds the time, whatever it contains. Memory is counted before it is allocated
//! ([`Limits`]), and grows with the inodes and blocks in use (`paged`).
//!
//! Not here: recovery, which comes before; data; the blocks of the log behind its superblock;
//! backups of the superblock and its own counts of free blocks and inodes (a mount counts in the
//! groups).
//! A check repairs nothing.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod ahead;
mod ancestors;
mod attributes;
mod bitmaps;
mod bits;
mod charges;
mod contested;
mod counts;
mod derived;
mod directories;
mod entries;
mod groups;
mod index;
mod inodes;
mod leaves;
mod links;
mod log;
mod maps;
mod named;
mod named_inodes;
mod names;
mod opened;
mod orphans;
mod own;
mod paged;
mod part;
mod policies;
mod problems;
mod quota_files;
mod repair;
mod replay;
mod report;
mod reserved;
mod resize;
mod slots;
mod state;
mod subject;
mod superblock;
mod symlinks;
mod trial;
pub mod undo;
mod usages;
mod values;
mod whole_check;
mod whole_repair;

pub use problems::{Preen, Problem, code};
pub use repair::{Decision, Decisions, Optimised, RepairAll, RepairReport, RepairSafe};
pub use replay::replay;
pub use report::{CheckReport, Finding, Limits, Pass, Watch};
pub use subject::{SharedData, Subject};
pub use uext4_device::Snapshot;
pub use whole_check::Check;
pub use whole_repair::Repair;
