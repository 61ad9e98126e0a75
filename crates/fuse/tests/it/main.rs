//! The mount against the kernel and e2fsck: each test mounts a fresh image in a server process.
//!
//! Needs the superuser and `/dev/fuse`.

mod attributes;
mod control;
mod data;
mod exact;
mod exerciser;
mod flight;
mod full;
mod handles;
mod in_place;
mod life;
mod model;
mod names;
mod owners;
mod pjdfstest;
mod programs;
mod shutdown;
mod steps;
mod stopped;
mod support;
mod times;
mod told_times;
mod trees;

/// How requests come.
const VIA: support::Via = support::Via::DevFuse;
