//! Builds ext4 images from trees of files, in one pass and reproducibly.
//!
//! Layout: `entry` is what a source says of one file, `sink` takes entries from sources.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod entry;
mod error;
mod sink;

pub use entry::{Attributes, Content, Data, Entry, Node, ReadAt, Xattr};
pub use error::{Error, Result};
pub use sink::Sink;
