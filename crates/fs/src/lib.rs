//! ext4 in user space: the whole file system as a library.
//!
//! ```
//! use std::io::Write;
//! use std::sync::Arc;
//! use uext4::check::{self, Limits};
//! use uext4::device::MemDevice;
//! use uext4::mkfs::{self, MkfsOptions, Preset};
//! use uext4::{Error, Filesystem, MountOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In memory; `FileDevice::open("disk.img", Access::ReadWrite)` opens an image.
//! let device = Arc::new(MemDevice::new(64 << 20));
//! mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4))?;
//! let fs = Filesystem::mount(device.clone(), MountOptions::default())?;
//!
//! // Whole files, as with `std::fs`.
//! let paths = fs.paths();
//! paths.create_dir_all("/srv/www")?;
//! paths.write("/srv/www/index.html", "<h1>Hello</h1>")?;
//! assert_eq!(paths.read("/srv/www/index.html")?, b"<h1>Hello</h1>");
//!
//! // An open file. What was written is durable after `sync_all`.
//! let mut log = paths.create("/srv/log")?;
//! writeln!(log, "started")?;
//! log.sync_all()?;
//!
//! // All files below a directory.
//! let files: Result<Vec<_>, _> = paths.walk("/srv")?.collect();
//! assert_eq!(files?.len(), 3);
//!
//! // Errors name the path, the component, and the errno of Linux.
//! let failed = paths.read("/srv/log/today").unwrap_err();
//! assert_eq!(failed.to_string(), "/srv/log/today: /srv/log: not a directory");
//! assert!(matches!(failed.error(), Error::NotDirectory));
//!
//! // The unmount writes everything home, and reports what could not be written.
//! fs.unmount()?;
//! let report = check::check(device, MountOptions::default(), &Limits::default())?;
//! assert!(report.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! # Where to start
//!
//! | to | use |
//! | --- | --- |
//! | open an image or block device | [`device::FileDevice`]; it refuses one that is in use |
//! | make a file system | [`mkfs::format`] |
//! | mount, unmount | [`Filesystem::mount`] with [`MountOptions`], [`Filesystem::unmount`] |
//! | use files by path, as with `std::fs` | [`Filesystem::paths`] and [`path`] |
//! | copy trees of the host in and out | the crate `uext4-tree` |
//! | write a server | the operations by inode of [`Filesystem`], for a [`Caller`] |
//! | look for damage | [`check`](mod@check) |
//! | repair damage | [`repair`](mod@repair) |
//! | change parameters | [`Filesystem::tune`] |
//! | make it larger | [`Filesystem::grow`], or [`resize::grow`] if it is not mounted |
//! | read structures on disk | [`mod@format`] |
//!
//! `examples/` has programs that make an image, list one, write one with many threads, and check
//! one that is mounted. Checks and repairs without a mount are `uext4_fsck::{Check, Repair}`.
//!
//! # Threads
//!
//! Everything is `Send + Sync`, and a [`Filesystem`] can be cloned. Operations on different files
//! and directories run in parallel. Background threads commit and write back;
//! [`Threads::Inline`] runs without them, which makes a run repeatable.
//!
//! # Durability
//!
//! As with Linux: a change is visible at once, and durable after `fsync`, [`Filesystem::sync`], the
//! unmount, or the next commit (5 s). After a crash the next mount replays the journal. An error
//! that stops writing makes the mount read-only; [`Filesystem::failure`] has it.
//!
//! # Errors
//!
//! [`Error::errno`] is the errno that Linux would return. Operations by path fail with
//! [`path::PathError`], which has the path too; `?` turns it into an [`Error`], and both into
//! `std::io::Error`. Damaged structures give [`Error::Corrupt`] with their place, never a panic.
//!
//! # Where methods are
//!
//! The `impl` blocks of the largest types are in the files of their subjects.
//!
//! | methods of [`Filesystem`] | file |
//! | --- | --- |
//! | `mount` | `mount/mod.rs` |
//! | `unmount`, `failure` | `mount/close.rs` |
//! | `remount`, `options` | `mount/remount.rs` |
//! | `freeze`, `shutdown` | `mount/freeze.rs`, `mount/shutdown.rs` |
//! | frame of every operation, incidents | `ops/filesystem.rs` |
//! | `lookup`, `attr`, `read_dir`, `read_link`, `statfs` | `ops/lookup.rs` |
//! | `create`, `mkdir`, `mknod`, `symlink`, `tmpfile` | `ops/create.rs` |
//! | `link`, `rename` | `ops/link.rs`, `ops/rename.rs` |
//! | `unlink`, `rmdir` | `ops/unlink.rs` |
//! | `read`, `write`, `check_room` | `ops/read.rs`, `ops/write.rs` |
//! | `truncate`, `fallocate`, `seek`, `fiemap` | `ops/layout.rs` |
//! | `fsync`, `fdatasync`, `close`, `sync` | `ops/durability.rs` |
//! | `set_attr`, privileges | `ops/setattr.rs`, `ops/privileges.rs` |
//! | attributes by name; quota | `ops/xattrs.rs`, `ops/quota.rs` |
//! | `trim`, `free_fragments` | `ops/space.rs` |
//! | `defragment`, `compact` | `relocate/defrag.rs`, `relocate/compact.rs` |
//! | `paths`, `tune` | `api/path/mod.rs`, `api/tune/mod.rs` |
//! | `grow`, `plan_growth` | `api/resize/mounted.rs` |
//! | `snapshot` | `api/snapshot.rs` |
//! | `stats`, `reclaim_memory` | `api/stats.rs`, `api/reclaim.rs` |
//! | values of `/sys/fs/ext4` | `api/sysfs.rs`, `api/tunables.rs` |
//!
//! | methods of `Fs`, the engine of a mount | file |
//! | --- | --- |
//! | handles, blocks, names, the clock | `state/engine.rs` |
//! | inodes by number; times | `parts/iget.rs`, `parts/times.rs` |
//! | access rights | `parts/access.rs` |
//! | new inodes, freed inodes | `parts/lifetime/create.rs`, `parts/lifetime/evict.rs` |
//! | dropped links | `ops/unlink.rs` |
//! | merges of directory leaves | `parts/dir/shrink.rs` |
//! | write-out and limit of delayed data | `parts/file/write_out.rs`, `parts/file/balance.rs` |
//! | preallocation, lost flushes | `parts/file/preallocation.rs`, `parts/file/lost_flush.rs` |
//! | fast commits, `sync` | `parts/fast_commit.rs`, `ops/durability.rs` |
//! | rest and end of a mount | `mount/quiesce.rs`, `mount/close.rs` |
//!
//! | methods of `Space` | file |
//! | --- | --- |
//! | made at mount; options | `state/space/load.rs`, `state/space/allocator.rs` |
//! | growth; the last cluster | `state/space/grow.rs`, `state/space/partial.rs` |
//! | which blocks hold what, totals | `state/space/mod.rs` |
//! | blocks: reserve, commit, free | `state/space/blocks.rs`, `state/space/exact.rs` |
//! | reservations for delayed data | `state/space/delayed.rs` |
//! | retries before ENOSPC | `state/space/retry.rs` |
//! | windows and preallocation | `state/space/shaping.rs` |
//! | inode numbers | `state/space/inodes.rs` |
//! | bitmaps, with a cache and without | `state/space/bitmaps.rs`, `state/space/visit.rs` |
//! | summaries of free space | `state/space/learn.rs` |
//! | discard, fragmentation | `state/space/trim.rs`, `state/space/fragments.rs` |
//!
//! References: kernel documentation, `Documentation/filesystems/ext4/`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod types;

mod cache;

mod state;

mod parts;

mod ops;

mod relocate;

mod mount;

mod api;

#[cfg(test)]
mod test_rig;

pub use api::reclaim::Reclaimed;
pub use api::snapshot::Snapshot;
pub use api::stats::{
    CacheCounts, CacheStats, CriterionStats, FastCommitStats, GroupStats, JournalStats, LockStats,
    OrderStats, SpaceStats, Stats, TreeStats,
};
pub use api::sysfs::Reading;
pub use api::tune::{
    CheckTimes, ExtentsProgress, ExtentsUsed, InternalJournal, Journal, MountDefaults, Presence,
    Raid, Reseal, Tuning, clear_mmp, clear_read_only, convert, reseal, set_journal, set_quota,
    use_extents,
};
pub use api::{check, path, repair, resize};
#[cfg(shuttle)]
#[doc(hidden)]
pub use cache::dcache::schedules::names_table;
pub use cache::extent_status::ExtentStatusStats;
pub use mount::{Flush, refuse_other_hosts};
pub use ops::filesystem::Filesystem;
pub use ops::{DataSource, KillPrivileges, RenameFlags, WriteContext, Writers};
pub use parts::access::Want;
pub use parts::dir::{DirEntry, Visit};
pub use parts::file::{Extent, FallocateMode, FileRange, Position, Seek, Times, Written};
pub use parts::times::{Atime, ChangeTimes};
pub use parts::xattr::SetMode;
pub use relocate::{
    CompactOptions, CompactProgress, Compacted, DefragOptions, Defragmented, Destination, LeftAlone,
};
pub use state::delayed::ErrorCursor;
pub use state::incidents::{Incident, Listener};
pub use state::inode::{Inode, InodeRef};
#[cfg(shuttle)]
#[doc(hidden)]
pub use state::orphan::schedules::orphan_slots;
pub use state::quota::GraceTimes;
pub use state::space::{FreeExtents, FreeFragments};
pub use state::superblock::read_superblock;
pub use types::attr::{
    Attr, Caller, Checks, FileType, FreeSpace, NewOwner, SetAttr, SetTime, StatFs, Timestamp,
};
#[cfg(feature = "experiments")]
pub use types::base_lines::BaseLines;
pub use types::error::{Error, InTheWay, RemountError, ResizeError, Result};
pub use types::options::{
    Access, Allocator, DataMode, MountOptions, OnError, OptionHelp, QuotaLimits, Threads,
};
pub use uext4_device as device;
pub use uext4_format as format;
pub use uext4_mkfs as mkfs;
pub use uext4_volume::support;
