//! Caches in memory, without knowledge of a mount.

pub(crate) mod clock;
pub(crate) mod dcache;
pub(crate) mod extent_status;
pub(crate) mod mbcache;
pub(crate) mod meta;
