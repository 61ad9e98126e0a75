//! Block devices: where the bytes of a file system live.
//!
//! One trait, [`BlockDevice`], addressed in bytes; callers (journal, fs) use `Arc<dyn
//! BlockDevice>`. This is the only crate besides the FUSE transport that may hold `unsafe` code.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod attached_loop;
mod crash_log;
mod error;
mod fault;
mod file;
mod flush_queue;
#[cfg(test)]
mod loop_device;
mod mem;
mod new_file;
mod overlay;
pub mod partition;
mod prefetch;
mod range;
mod read_only;
mod record;
mod scratch;
mod snapshot;
mod traits;
mod users;
mod volatile;
mod window;

pub use attached_loop::{AttachedLoop, LoopIo};
pub use crash_log::{Change, CrashLog, Durability, Event, Survivors, Tearing};
pub use error::Error;
pub use fault::{Cause, Delay, Fault, Faulty, Flushes, Operation, When};
pub use file::{Access, FileDevice, write_protected};
pub use flush_queue::FlushQueue;
pub use mem::MemDevice;
pub use new_file::{NewFile, Rights, data_from, open_to_write, refuse_planted, refuse_swapped};
pub use overlay::Overlay;
pub use prefetch::{LINE_BYTES, prefetch};
pub use read_only::ReadOnly;
pub use record::Recorder;
pub use scratch::{SCRATCH_PAGE_BYTES, Scratch};
pub use snapshot::{
    Changes, Snapshot, SnapshotDevice, SnapshotEnd, SnapshotLimits, SnapshotStart, SnapshotUsage,
    Snapshots, Taken,
};
pub use traits::{Backing, BlockDevice, Claimant, write_sparse};
pub use users::{User, writer_of};
pub use volatile::VolatileDevice;
pub use window::Window;
