//! The ext4 and jbd2 on-disk formats: bytes to types and back. No I/O, no lock, no clock.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::as_conversions,
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used
    )
)]

pub mod acl;
pub mod bitmap;
mod bytes;
mod checksum;
pub mod dirent;
mod error;
pub mod extent;
pub mod fast_commit;
mod feature;
pub mod fields;
mod file_type;
mod full;
mod geometry;
mod group;
pub mod hash;
pub mod htree;
mod ids;
pub mod indirect;
pub mod inline_data;
mod inode;
pub mod jbd2;
pub mod mmp;
pub mod orphan_file;
pub mod quota;
pub mod superblock;
mod times;
pub mod undo_file;
mod uuid;
pub mod xattr;

pub use checksum::{Checksums, DescriptorChecksum, Seed, crc16, crc32c};
pub use error::{Corrupt, CorruptKind, DamageLocation, Hex};
pub use feature::{Feature, FeatureError, FeatureSet, Features, Support};
pub use file_type::FileType;
pub use full::Full;
pub use geometry::{BlockRun, Geometry};
pub use group::{GroupDescriptor, block_bitmap_checksum, group_flag, inode_bitmap_checksum};
pub use ids::{BlockNr, GroupNr, InodeNr, LogicalBlock, Tid};
pub use inode::{
    DeviceNumber, GOOD_OLD_INODE_BYTES, I_BLOCK_BYTES, Inode, InodeFlags, KNOWN_EXTRA_BYTES,
    RawInode, Tail, TooManyBlocks, encrypted_target_bytes, set_encrypted_target_bytes,
    set_extra_isize, set_flags,
};
pub use superblock::Superblock;
pub use times::{Timestamp, WithExtra};
pub use uuid::Uuid;
