//! Block devices: where the bytes of a file system live.
//!
//! One trait, [`BlockDevice`], addressed in bytes; callers (journal, fs) use `Arc<dyn BlockDevice>`.
//! This is the only crate besides the FUSE transport that may hold `unsafe` code.

mod error;
mod traits;

pub use error::Error;
pub use traits::BlockDevice;
