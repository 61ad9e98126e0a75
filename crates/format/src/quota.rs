//! Quota files (version 2, revision 1): usage and limits per owner.
//!
//! Layout: blocks of 1 KiB. Block 0 holds [`QuotaInfo`]; block 1 is the root of a tree of four
//! levels, each indexed by one byte of the identifier, highest first. The lowest level points to
//! blocks of entries: a [`LeafHeader`] and fourteen [`QuotaEntry`]s. An entry of zeroes is unused.
//! Blocks of entries with free slots form a list that starts in the info block, and so do unused
//! blocks.
//!
//! Invariants: a node has one parent, so a walk of the tree ends; [`QuotaTree::read`] rejects other
//! trees.
//! Not here: blocks of the file system, limits, grace times.
//! References: kernel doc `filesystems/quota.rst`; the formats in `quotactl(2)`'s headers.

mod codec;
mod removal;
mod tree;

#[cfg(test)]
mod tests;

pub use codec::{LeafHeader, QuotaEntry, QuotaInfo};
pub use tree::{Patch, QuotaPart, QuotaTree, node_pointers};

/// Bytes of a block of a quota file.
pub const QUOTA_BLOCK_BYTES: usize = 1024;
/// Bytes before the entries of a block of entries.
pub const LEAF_HEADER_BYTES: usize = 16;
/// Bytes of an entry of one owner, used or free.
pub const QUOTA_ENTRY_BYTES: usize = 72;
/// Entries of a block of entries: fourteen.
pub const ENTRIES_PER_LEAF: usize = (QUOTA_BLOCK_BYTES - LEAF_HEADER_BYTES) / QUOTA_ENTRY_BYTES;
/// Blocks that one new entry may add: the tree's root and three levels, and a block of entries.
pub const BLOCKS_PER_INSERT: u32 = 5;

/// The kind of owner of a quota file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    /// Usage and limits of users.
    User,
    /// Usage and limits of groups.
    Group,
    /// Usage and limits of projects.
    Project,
}

impl QuotaKind {
    /// All kinds, in the order of their inode numbers.
    pub const ALL: [QuotaKind; 3] = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project];

    /// The number at the start of its file.
    pub const fn magic(self) -> u32 {
        match self {
            QuotaKind::User => 0xD9C0_1F11,
            QuotaKind::Group => 0xD9C0_1927,
            QuotaKind::Project => 0xD9C0_3F14,
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            QuotaKind::User => "user",
            QuotaKind::Group => "group",
            QuotaKind::Project => "project",
        }
    }
}

impl std::str::FromStr for QuotaKind {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name() == name)
            .ok_or("not user, group or project")
    }
}
