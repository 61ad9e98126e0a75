//! The ext4 and jbd2 on-disk formats: bytes to types and back. No I/O, no lock, no clock.
#![forbid(unsafe_code)]

pub mod bytes;
mod error;
mod ids;

pub use error::{Corrupt, Place};
pub use ids::{BlockNr, GroupNr, InodeNr, LogicalBlock, Tid};
