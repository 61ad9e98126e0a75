//! Block journal, jbd2 on disk: handles, transactions, commit, checkpoint, revoke, recovery.
//!
//! Live objects hold the metadata while mounted; a commit renders them to block images
//! ([`Render`]). A block's home is its place in the file system; a checkpoint writes images home.
//! The protocol is in `docs/internals/journal.md`.
//! Not here: inodes, groups or any other structure of ext4; the fs renders them.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod background;
mod checkpoint;
mod closed;
mod commit;
mod config;
mod dirty_list;
mod draft;
mod encode;
mod engine;
mod error;
mod fast;
mod fast_area;
mod gate;
mod gathering;
mod group_commit;
mod handle;
mod home;
mod images;
mod journal;
mod live;
mod log_file;
mod log_space;
mod logged;
mod newest;
mod order;
mod parallel;
mod progress;
mod reasons;
mod records;
pub mod recovery;
mod rendering;
mod retire;
mod sink;
mod stats;
#[cfg(test)]
mod tests;
mod unwritten;
mod waiters;

#[cfg(any(test, feature = "experiments"))]
pub use config::Tracking;
pub use config::{
    Checksums, CommitObserver, Config, FailedWrite, FastCommits, Log, LogRun, NoObserver, Start,
    Threads, Width,
};
pub use error::Error;
pub use fast::MakeRecords;
pub use handle::Handle;
pub use journal::Journal;
pub use live::{Live, LogGuard, Object, Render, Stamp};
pub use reasons::FullReason;
pub use sink::{Image, Sink};
pub use stats::{FastStats, Stats};
