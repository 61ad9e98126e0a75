//! Journal credits: upper bounds on the blocks that an operation logs.
//!
//! The unit is a live object, which is at most one block: inodes, directory blocks, tree nodes,
//! group halves. Operations that need more extend by restarting their handle.

/// Create of any kind: inode, its group half, parent, leaf, xattr block, first directory block,
/// block group half, orphan block, ACL.
pub(crate) const CREATE: u32 = 14;
/// Adding blocks to a directory: two leaves, three index levels twice, map nodes, group halves.
pub(crate) const DIR_GROW: u32 = 24;
/// One step of shrinking a directory: the merged leaf, the new place of the last block, two nodes,
/// map nodes, the group half, the inode.
pub(crate) const DIR_SHRINK: u32 = 20;
/// Removing a name: leaf, parent, inode, orphan block, group halves of a small file.
pub(crate) const REMOVE: u32 = 16;
/// Rename: two removals and an insert.
pub(crate) const RENAME: u32 = 32;
/// One step of freeing blocks: a tree path, eight groups, revokes, inode. Fewer under the model
/// checker, so that a small file takes several steps.
pub(crate) const TRUNCATE: u32 = if cfg!(shuttle) { 18 } else { 32 };
/// Mapping one run of blocks: a split path of depth five, group halves, inode.
pub(crate) const MAP: u32 = 20;
/// Changing attributes of an inode.
pub(crate) const ATTRIBUTES: u32 = 4;
/// Changing extended attributes: inode, old and new block, value inodes, group halves.
pub(crate) const XATTR: u32 = 24;
/// Entry of an owner in a quota file: info block, four nodes, the block of entries and its
/// neighbour in a list, and the owner.
pub(crate) const QUOTA_ENTRY: u32 = 8;
