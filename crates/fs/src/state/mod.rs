//! State of one mount: what [`engine::Fs`] holds.

pub(crate) mod base;
pub(crate) mod delayed;
pub(crate) mod engine;
pub(crate) mod incidents;
pub(crate) mod inode;
pub(crate) mod lifecycle;
pub(crate) mod name_log;
pub(crate) mod orphan;
pub(crate) mod quota;
pub(crate) mod space;
pub(crate) mod superblock;
pub(crate) mod writeback;
