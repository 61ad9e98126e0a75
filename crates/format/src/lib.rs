//! The ext4 and jbd2 on-disk formats: bytes to types and back. No I/O, no lock, no clock.
#![forbid(unsafe_code)]

pub mod bytes;
mod checksum;
mod error;
mod feature;
mod geometry;
mod group;
mod ids;
mod inode;
pub mod superblock;
mod times;

pub use checksum::{Checksums, DescriptorChecksum, Seed, crc16, crc32c};
pub use error::{Corrupt, Place};
pub use feature::{Feature, FeatureError, FeatureSet, Features, Support};
pub use geometry::{BlockRun, Geometry};
pub use group::{GroupDescriptor, block_bitmap_checksum, group_flag, inode_bitmap_checksum};
pub use ids::{BlockNr, GroupNr, InodeNr, LogicalBlock, Tid};
pub use inode::{
    DeviceNumber, FileType, GOOD_OLD_INODE_BYTES, I_BLOCK_BYTES, Inode, InodeFlags,
    KNOWN_EXTRA_BYTES, TooManyBlocks,
};
pub use superblock::Superblock;
pub use times::{Timestamp, WithExtra};
