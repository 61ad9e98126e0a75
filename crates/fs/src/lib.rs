//! ext4 in user space: the whole file system as a library.
//!
//! [`Filesystem`] mounts an image or device. It offers inode-based operations for servers, and
//! path-based ones like `std::fs` for programs. Everything is `Send + Sync`; operations on
//! different files and directories run in parallel.
//!
//! References: kernel documentation, `Documentation/filesystems/ext4/`.
#![forbid(unsafe_code)]

mod access;
mod attr;
mod base;
mod cache;
pub mod check;
mod credits;
mod delayed;
mod dir;
mod engine;
mod error;
mod file;
mod filesystem;
mod incidents;
mod inode;
mod map;
mod media;
mod memory;
mod meta;
mod mmp;
mod mount;
mod ops;
mod options;
mod orphan;
pub mod path;
mod quota;
mod relief;
mod settings;
mod space;
mod stats;
mod superblock;
mod sysfs;
#[cfg(test)]
mod test_rig;
mod tunables;
mod tune;
mod xattr;

pub use access::Want;
pub use attr::{Attr, Caller, Checks, FileType, Room, SetAttr, SetTime, StatFs, Timestamp};
pub use delayed::ErrorCursor;
#[cfg(shuttle)]
#[doc(hidden)]
pub use dir::schedules::names_table;
pub use dir::{DirEntry, Visit};
pub use error::{Error, RemountError, Result};
pub use file::{Extent, FallocateMode, Seek, Stretch, Times};
pub use filesystem::Filesystem;
pub use incidents::{Incident, Listener};
pub use inode::{Atime, ChangeTimes, Inode, InodeRef};
pub use map::ExtentStatusStats;
pub use mmp::refuse_other_hosts;
pub use mount::{Flush, support};
pub use ops::{KillPrivileges, RenameFlags, Writers};
pub use options::{
    Access, Allocator, BaseLines, DataMode, MountOptions, OnError, OptionHelp, QuotaLimits, Threads,
};
#[cfg(shuttle)]
#[doc(hidden)]
pub use orphan::schedules::orphan_slots;
pub use quota::GraceTimes;
pub use relief::Relief;
pub use space::{FreeExtents, FreeFragments};
pub use stats::{
    CacheCounts, CacheStats, CriterionStats, GroupStats, JournalStats, LockStats, OrderStats,
    SpaceStats, Stats, TreeStats,
};
pub use superblock::read_superblock;
pub use sysfs::Reading;
pub use tune::{Presence, Tuning};
pub use uext4_device as device;
pub use uext4_format as format;
pub use uext4_mkfs as mkfs;
pub use xattr::SetMode;

pub(crate) use engine::Fs;
