//! One process that uses a mount in every way that the kernel lets it, and knows what it must see.
//!
//! Three parts of a directory, each with its own expectation:
//! - [`tree`]: names of its own, by testkit's streams of operations; the model tells the errno of
//!   each and the tree.
//! - [`files`]: files of its own: data in all ways (buffered, past the cache, mapped, by io_uring,
//!   copied by the kernel), `fallocate`, attributes; content and attributes are known exactly.
//! - [`shared`]: names, a log, pages and a counter that all processes change at once; invariants.
//!
//! Invariants: what a process does depends on its seed alone, when it happens on the others too.
//!
//! [`one_file`] is threads on one file, each past another layer of the kernel, under one model.
//!
//! [`Crew`] starts such processes and tells them what to do.
//!
//! Not here: who mounts and judges the image (`xtask exercise`, the tests of the mount).
#![forbid(unsafe_code)]

mod attributes;
mod beyond_std;
mod crew;
pub mod files;
mod names;
pub mod one_file;
pub mod shared;
pub mod tree;
pub mod worker;

pub use crew::Crew;
pub use worker::{Order, Worker};
