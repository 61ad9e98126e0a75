//! The mount against the kernel and e2fsck: each test mounts a fresh image in a server process.
//!
//! Needs the superuser and `/dev/fuse`.

mod attributes;
mod control;
mod data;
mod dead_threads;
mod detached;
mod device_faults;
mod exact;
mod execs;
mod exerciser;
mod flight;
mod freezes;
mod full;
mod guarded;
mod handles;
mod idmapped;
mod in_place;
mod killed;
mod life;
mod like_a_mount;
mod limits;
mod memory;
mod model;
mod mount_paths;
mod names;
mod overlay;
mod owners;
mod page_cache;
mod pjdfstest;
mod programs;
mod remounts;
mod requests;
mod reserved;
mod shutdown;
mod slow_device;
mod steps;
mod stopped;
mod storms;
mod support;
mod times;
mod told_times;
mod trees;
mod watchdog;

/// How requests come.
const VIA: support::Via = support::Via::DevFuse;
