//! Concurrency scenarios of the engine for the model checker: `make schedules`.
//!
//! Dev only. In each module a few threads meet in one part of the engine; the checks must hold for
//! every schedule. The scenarios are not beside the code so that the build for the checker stays
//! small: it has none of the tools of the other tests.
//!
//! Invariants: checks keep their state in `std` atomics and locks, which are not scheduling points
//! of the checker, and never hold one across a call of the engine.
#![forbid(unsafe_code)]

#[cfg(all(test, shuttle))]
mod access;
#[cfg(all(test, shuttle))]
mod allocator;
#[cfg(all(test, shuttle))]
mod claims;
#[cfg(all(test, shuttle))]
mod commits;
#[cfg(all(test, shuttle))]
mod directory;
#[cfg(all(test, shuttle))]
mod explore;
#[cfg(all(test, shuttle))]
mod inodes;
#[cfg(all(test, shuttle))]
mod links;
#[cfg(all(test, shuttle))]
mod moves;
#[cfg(all(test, shuttle))]
mod orphans;
#[cfg(all(test, shuttle))]
mod rig;
#[cfg(all(test, shuttle))]
mod snapshots;
#[cfg(all(test, shuttle))]
mod status;
