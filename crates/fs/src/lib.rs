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
mod dcache;
mod delayed;
mod dir;
mod dir_config;
mod engine;
mod error;
mod extent_status;
mod file;
mod filesystem;
mod iget;
mod incidents;
mod inode;
mod lifetime;
mod map;
mod mbcache;
mod media;
mod memory;
mod meta;
mod mmp;
mod mount;
mod ops;
mod options;
mod orphan;
mod orphan_recovery;
pub mod path;
mod quota;
mod quota_files;
mod reclaim;
mod settings;
mod space;
mod stats;
mod superblock;
mod sysfs;
#[cfg(test)]
mod test_rig;
mod times;
mod tunables;
mod tune;
mod writeback;
mod xattr;

pub use access::Want;
pub use attr::{Attr, Caller, Checks, FileType, FreeSpace, SetAttr, SetTime, StatFs, Timestamp};
#[cfg(shuttle)]
#[doc(hidden)]
pub use dcache::schedules::names_table;
pub use delayed::ErrorCursor;
pub use dir::{DirEntry, Visit};
pub use error::{Error, RemountError, Result};
pub use extent_status::ExtentStatusStats;
pub use file::{Extent, FallocateMode, Seek, Stretch, Times};
pub use filesystem::Filesystem;
pub use incidents::{Incident, Listener};
pub use inode::{Inode, InodeRef};
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
pub use reclaim::Reclaimed;
pub use space::{FreeExtents, FreeFragments};
pub use stats::{
    CacheCounts, CacheStats, CriterionStats, GroupStats, JournalStats, LockStats, OrderStats,
    SpaceStats, Stats, TreeStats,
};
pub use superblock::read_superblock;
pub use sysfs::Reading;
pub use times::{Atime, ChangeTimes};
pub use tune::{Presence, Tuning};
pub use uext4_device as device;
pub use uext4_format as format;
pub use uext4_mkfs as mkfs;
pub use xattr::SetMode;

pub(crate) use engine::Fs;
