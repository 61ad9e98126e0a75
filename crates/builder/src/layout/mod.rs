//! Layout: which blocks, inodes and size the image has.
//!
//! Layout: `option_checks` and `size_plan` give the numbers before the tree is known,
//! `diff_friendly` those of images with stable places. `block_allocator` gives out blocks for a
//! `part` of a file: `bump` in order, `scatter` by keys of paths. `inode_numbers` numbers inodes,
//! `identity` is UUID and hash seed, `in_use` what the tree uses in the end, and `size_search`
//! chooses the size.
//!
//! Not here: the bytes of metadata.

pub(crate) mod block_allocator;
pub(crate) mod bump;
pub(crate) mod diff_friendly;
pub(crate) mod identity;
pub(crate) mod in_use;
pub(crate) mod inode_numbers;
pub(crate) mod option_checks;
pub(crate) mod part;
pub(crate) mod scatter;
pub(crate) mod size_plan;
pub(crate) mod size_search;
