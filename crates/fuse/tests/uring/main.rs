//! The tests of `tests/it` once more, over io_uring.
//!
//! The kernel offers it while `/sys/module/fuse/parameters/enable_uring` says so: each mount
//! switches that on for a moment and puts back what was there.

#[path = "../it/attributes.rs"]
mod attributes;
#[path = "../it/control.rs"]
mod control;
#[path = "../it/data.rs"]
mod data;
#[path = "../it/dead_threads.rs"]
mod dead_threads;
#[path = "../it/detached.rs"]
mod detached;
#[path = "../it/device_faults.rs"]
mod device_faults;
#[path = "../it/exact.rs"]
mod exact;
#[path = "../it/execs.rs"]
mod execs;
#[path = "../it/exerciser.rs"]
mod exerciser;
#[path = "../it/flight.rs"]
mod flight;
#[path = "../it/freezes.rs"]
mod freezes;
#[path = "../it/full.rs"]
mod full;
#[path = "../it/guarded.rs"]
mod guarded;
#[path = "../it/handles.rs"]
mod handles;
#[path = "../it/in_place.rs"]
mod in_place;
#[path = "../it/life.rs"]
mod life;
#[path = "../it/like_a_mount.rs"]
mod like_a_mount;
#[path = "../it/model.rs"]
mod model;
#[path = "../it/names.rs"]
mod names;
#[path = "../it/owners.rs"]
mod owners;
#[path = "../it/page_cache.rs"]
mod page_cache;
#[path = "../it/pjdfstest.rs"]
mod pjdfstest;
#[path = "../it/programs.rs"]
mod programs;
#[path = "../it/remounts.rs"]
mod remounts;
mod rings;
#[path = "../it/shutdown.rs"]
mod shutdown;
#[path = "../it/slow_device.rs"]
mod slow_device;
#[path = "../it/steps.rs"]
mod steps;
#[path = "../it/stopped.rs"]
mod stopped;
#[path = "../it/storms/mod.rs"]
mod storms;
#[path = "../it/support.rs"]
mod support;
#[path = "../it/times.rs"]
mod times;
#[path = "../it/told_times.rs"]
mod told_times;
#[path = "../it/trees.rs"]
mod trees;
#[path = "../it/watchdog.rs"]
mod watchdog;

/// How requests come.
const VIA: support::Via = support::Via::IoUring;
