//! Metadata: directories, maps, attributes and inodes as they are on the disk.
//!
//! Layout: `directories` are in inodes (`inline`) or in blocks. `extent_maps` map files,
//! `attribute_blocks` and `xattr_values` hold extended attributes, `inodes` are those of files, and
//! `usage` counts for quotas.
//!
//! Not here: blocks of directories, which `uext4_mkfs::directory` makes; bitmaps, descriptors and
//! superblocks, which `uext4_mkfs::Draft` writes.

pub(crate) mod attribute_blocks;
pub(crate) mod directories;
pub(crate) mod extent_maps;
pub(crate) mod inline;
pub(crate) mod inodes;
pub(crate) mod usage;
pub(crate) mod xattr_values;
