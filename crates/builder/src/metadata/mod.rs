//! Metadata: directories, maps, attributes and inodes as they are on the disk.
//!
//! Layout: `directories` are in inodes (`inline`) or in `directory_blocks`, hashed ones by a
//! `directory_index`. `extent_maps` map files, `attribute_blocks` and `xattr_values` hold extended
//! attributes, `inodes` are those of files, and `usage` counts for quotas.
//!
//! Not here: bitmaps, descriptors and superblocks, which `uext4_mkfs::Draft` writes.

pub(crate) mod attribute_blocks;
pub(crate) mod directories;
pub(crate) mod directory_blocks;
pub(crate) mod directory_index;
pub(crate) mod extent_maps;
pub(crate) mod inline;
pub(crate) mod inodes;
pub(crate) mod usage;
pub(crate) mod xattr_values;
