//! The mount against the kernel and e2fsck: each test mounts a fresh image in a server process.
//!
//! Needs the superuser and `/dev/fuse`.

mod attributes;
mod data;
mod exerciser;
mod life;
mod model;
mod names;
mod support;
mod trees;
