//! The collected tree: files, names and attributes of all layers.
//!
//! Layout: `arena` is the tree, of `file`s and `names` by their `ids`; `layer` is one of several
//! trees until `merge` makes one of all. `lookup` finds names of the image, `resolve` follows
//! symbolic links. `attributes` are shared by files: `stored_xattrs` are those of the disk, within
//! `limits`, and `values` those with inodes. `implicit` adds what no source has, `order` sorts the
//! files, and `keys` are hashes of their paths.
//!
//! Not here: blocks and the device.

pub(crate) mod arena;
pub(crate) mod attributes;
pub(crate) mod file;
pub(crate) mod ids;
pub(crate) mod implicit;
pub(crate) mod keys;
pub(crate) mod layer;
pub(crate) mod limits;
pub(crate) mod lookup;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod order;
pub(crate) mod resolve;
pub(crate) mod stored_xattrs;
pub(crate) mod values;
