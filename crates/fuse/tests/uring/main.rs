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
#[path = "../it/exact.rs"]
mod exact;
#[path = "../it/exerciser.rs"]
mod exerciser;
#[path = "../it/flight.rs"]
mod flight;
#[path = "../it/full.rs"]
mod full;
#[path = "../it/handles.rs"]
mod handles;
#[path = "../it/in_place.rs"]
mod in_place;
#[path = "../it/life.rs"]
mod life;
#[path = "../it/model.rs"]
mod model;
#[path = "../it/names.rs"]
mod names;
#[path = "../it/owners.rs"]
mod owners;
#[path = "../it/pjdfstest.rs"]
mod pjdfstest;
#[path = "../it/programs.rs"]
mod programs;
mod rings;
#[path = "../it/shutdown.rs"]
mod shutdown;
#[path = "../it/steps.rs"]
mod steps;
#[path = "../it/stopped.rs"]
mod stopped;
#[path = "../it/support.rs"]
mod support;
#[path = "../it/times.rs"]
mod times;
#[path = "../it/told_times.rs"]
mod told_times;
#[path = "../it/trees.rs"]
mod trees;

/// How requests come.
const VIA: support::Via = support::Via::IoUring;
