//! A file system that is not mounted: what stands below the engine, and what tools for images
//! work on.
//!
//! [`superblock`] reads it, [`Inspection`] says how it may be opened, [`log`] finds the journal,
//! [`mmp`] claims a shared device, [`Media`] keeps the writes of a read-only mount in memory, and
//! [`Volume`] is a claimed file system at rest, which changes in transactions.
//!
//! Not here: inodes, directories and space of a mounted file system, fast commits and orphans. A
//! file system that was not unmounted is recovered by the engine before a [`Volume`] is claimed.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod descriptors;
mod error;
mod error_record;
mod features;
mod file_map;
mod hidden;
mod inspect;
pub mod log;
mod media;
pub mod mmp;
pub mod superblock;
mod volume;
mod zones;

pub use descriptors::{DescriptorTable, Survey};
pub use error::{Error, InTheWay, ResizeError, Result};
pub use error_record::{
    ERROR_CODE_CORRUPT, ERROR_CODE_IO, ErrorRecord, keep_errors, record_error,
    record_stopped_journal,
};
pub use features::{Purpose, REVISION_MAX, access_for, allowed_access, may_write, support};
pub use file_map::{FileMap, MapFormat, MapSource, append_extent, has_map};
pub use hidden::HiddenInodes;
pub use inspect::{Inspection, OpenOptions, check_state};
pub use media::{Media, Medium, Writes};
pub use volume::Volume;
pub use zones::{Zones, inode_byte, metadata_zones};

/// Whether a file system may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Changes are allowed, and a replay of the journal writes to the device.
    ReadWrite,
    /// Nothing is changed; the journal is replayed in memory only.
    ReadOnly,
}
