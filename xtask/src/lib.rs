//! Full-size test runs: trees, kills, threads, damage. `make test` runs the same code with small
//! sizes through the tests of this package.
//!
//! - [`trees`]: a realistic tree through our mount and the kernel's, in both directions, on every
//!   kind of file system.
//! - [`kill`]: the server is killed at random moments; data that fsync acknowledged must survive.
//! - [`threads`]: many threads in one file system, each with a model of its names.
//! - [`exercise`]: many processes on one mount.
//! - [`database`]: SQLite on a recorded mount, under power cuts.
//! - [`fuzz`]: damaged images, mounted and used.
//! - [`commands`]: damaged images, read and repaired by the commands of the tool.
//! - [`regress`]: the speed of an older revision and of the working tree.
//! - [`damage`]: the damage test of the library over many images, with a memory limit.
//!
//! Not here: `tidy`, which belongs to the program.
#![forbid(unsafe_code)]

pub mod commands;
pub mod damage;
pub mod database;
pub mod exercise;
pub mod fuzz;
pub mod kill;
pub mod regress;
pub mod server;
pub mod threads;
pub mod trees;
