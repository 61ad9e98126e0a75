//! Runs the whole engine against the oracles of the testkit, with crashes at every write.
//!
//! - [`EngineTarget`]: testkit's operations and manifests on a mounted [`uext4::Filesystem`].
//! - [`crash`]: the crash suite; `docs/internals/crash-model.md` states what it checks.
//!
//! Not here: the oracles themselves (`testkit`).
#![forbid(unsafe_code)]

pub mod crash;
mod engine;

pub use engine::{EngineTarget, errno};
