//! Exerciser: one process that uses a mount in every way the kernel offers, and checks the results.
//!
//! Three parts of a directory, each with its own expectation:
//! - [`tree`]: names of its own, by testkit's streams of operations; the model gives the errno of
//!   each and the tree.
//! - [`files`]: files of its own: data in all ways (buffered, direct, mapped, by io_uring, copied
//!   by the kernel), `fallocate`, attributes; content and attributes are known exactly.
//! - [`shared`]: names, a log, pages and a counter that all processes change concurrently;
//!   invariants.
//!
//! Invariants: the operations of a process depend on its seed alone, their timing also on the
//! others.
//!
//! [`one_file`] runs threads on one file, each through another layer of the kernel, under one
//! model.
//!
//! [`Workers`] starts such worker processes and sends them commands.
//!
//! Not here: mounting and checking the image (`xtask exercise`, the tests of the mount).
#![forbid(unsafe_code)]

mod attributes;
mod beyond_std;
pub mod files;
mod names;
pub mod one_file;
pub mod shared;
pub mod tree;
pub mod worker;
mod workers;

pub use worker::{Order, Worker};
pub use workers::Workers;
