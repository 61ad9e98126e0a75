//! The whole engine before the judges of the testkit: it runs their operations, shows its tree to
//! them, and is cut off at every write.
//!
//! - [`EngineTarget`]: testkit's operations and manifests on a mounted [`uext4::Filesystem`].
//! - [`crash`]: the crash suite; what it checks stands in `docs/crash-model.md`.
//!
//! Not here: the judges themselves (`testkit`).
#![forbid(unsafe_code)]

pub mod crash;
mod engine;

pub use engine::{EngineTarget, errno};
