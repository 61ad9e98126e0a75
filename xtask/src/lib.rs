//! The full-size runs: trees, kills, threads, damage. What `make test` does small, these do large
//! and with figures; the tests of this package are the small sizes.
//!
//! - [`trees`]: a realistic tree through our mount and the kernel's, both ways, every kind of file
//!   system.
//! - [`kill`]: the server killed at random moments; what fsync promised must be there.
//! - [`threads`]: many threads in one file system, each with a model of its names.
//! - [`exercise`]: many processes that use one mount in all ways.
//! - [`database`]: SQLite on a recorded mount, under power cuts.
//! - [`fuzz`]: wounded images mounted and used.
//! - [`damage`]: the damage test of the library over many images, within its memory.
//!
//! Not here: `tidy`, which belongs to the program.
#![forbid(unsafe_code)]

pub mod damage;
pub mod database;
pub mod exercise;
pub mod fuzz;
pub mod kill;
pub mod server;
pub mod threads;
pub mod trees;
