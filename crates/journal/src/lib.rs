//! The journal: live objects, handles, transactions, commit, checkpoint, revoke, recovery.
//!
//! The protocol is in ARCHITECTURE.md, "Two tiers". On disk it is plain jbd2.
//! Not here: inodes, groups or any other structure of ext4; the fs renders them ([`Render`]).
#![forbid(unsafe_code)]

mod commit;
mod config;
mod engine;
mod error;
mod gate;
mod handle;
mod home;
mod images;
mod journal;
mod live;
mod merge;
mod sink;
mod stats;

pub use config::{Checksums, CommitObserver, Config, Log, LogRun, NoObserver, Threads, Width};
pub use error::Error;
pub use handle::Handle;
pub use journal::Journal;
pub use live::{Live, LogGuard, Object, Render};
pub use sink::{Image, Sink};
pub use stats::Stats;
