//! What users of the library call besides the operations on inodes.

pub mod check;
pub mod path;
pub(crate) mod reclaim;
pub mod repair;
pub mod resize;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod sysfs;
pub(crate) mod tunables;
pub(crate) mod tune;
