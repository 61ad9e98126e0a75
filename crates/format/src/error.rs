//! Errors for damaged structures, with their place.

mod kind;

pub use kind::{CorruptKind, Hex};

use crate::{BlockNr, GroupNr, InodeNr};

/// The place of a damaged structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DamageLocation {
    /// The superblock of the file system, not the one of the journal.
    Superblock,
    /// The descriptor of this group.
    Group(GroupNr),
    /// The inode itself, in its table.
    Inode(InodeNr),
    /// A block (directory leaf, extent node, xattr block, bitmap).
    Block(BlockNr),
    /// A block that belongs to an inode.
    InodeBlock(InodeNr, BlockNr),
    /// A block of the journal, counted from the journal's start.
    JournalBlock(u32),
}

impl std::fmt::Display for DamageLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DamageLocation::Superblock => write!(f, "superblock"),
            DamageLocation::Group(group) => write!(f, "group {group}"),
            DamageLocation::Inode(inode) => write!(f, "inode {inode}"),
            DamageLocation::Block(block) => write!(f, "block {block}"),
            DamageLocation::InodeBlock(inode, block) => write!(f, "inode {inode}, block {block}"),
            DamageLocation::JournalBlock(block) => write!(f, "journal block {block}"),
        }
    }
}

/// A damaged structure: its kind, the problem and the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{structure}: {problem}", self.prefix())]
pub struct Corrupt {
    /// The block, inode or group with the damage.
    pub place: DamageLocation,
    /// The structure, in ext4's words: "extent header", "directory entry".
    pub structure: &'static str,
    /// The problem, with the numbers that were found.
    pub problem: CorruptKind,
}

impl Corrupt {
    /// The place, unless it equals the structure.
    fn prefix(&self) -> String {
        let place = self.place.to_string();
        if place == self.structure {
            String::new()
        } else {
            format!("{place}: ")
        }
    }

    /// The error that `structure` at `place` has `problem`.
    pub const fn new(place: DamageLocation, structure: &'static str, problem: CorruptKind) -> Self {
        Self {
            place,
            structure,
            problem,
        }
    }
}
