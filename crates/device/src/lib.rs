//! Block devices: where the bytes of a file system live.
//!
//! One trait, [`BlockDevice`], addressed in bytes; callers (journal, fs) use `Arc<dyn BlockDevice>`.
//! This is the only crate besides the FUSE transport that may hold `unsafe` code.
#![deny(unsafe_op_in_unsafe_fn)]

mod error;
mod file;
mod mem;
mod range;
mod traits;

pub use error::Error;
pub use file::{Access, FileDevice};
pub use mem::MemDevice;
pub use traits::BlockDevice;
