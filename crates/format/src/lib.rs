//! The ext4 and jbd2 on-disk formats: bytes to types and back. No I/O, no lock, no clock.
#![forbid(unsafe_code)]

pub mod bytes;
mod checksum;
mod error;
mod feature;
mod ids;

pub use checksum::{Checksums, DescriptorChecksum, Seed, crc16, crc32c};
pub use error::{Corrupt, Place};
pub use feature::{Feature, FeatureError, FeatureSet, Features, Support};
pub use ids::{BlockNr, GroupNr, InodeNr, LogicalBlock, Tid};
