//! Numbers that the check derives and a structure says otherwise: for a repair, which stores them.

use crate::state::{Check, Step};
use std::collections::BTreeMap;
use uext4_format::{BlockNr, InodeNr};

/// Memory for each number, in bytes.
const BYTES_EACH: u64 = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Derived {
    /// Space of an inode, in sectors of 512 bytes.
    sectors: BTreeMap<u32, u64>,
    /// Inodes that refer to an attribute block.
    block_references: BTreeMap<u64, u32>,
    /// Inodes that refer to a damaged attribute block, besides the first.
    block_users: BTreeMap<u64, Vec<InodeNr>>,
    /// Entries that refer to a value inode.
    value_references: BTreeMap<u32, u64>,
}

impl Derived {
    pub(crate) fn sectors(&self, nr: InodeNr) -> Option<u64> {
        self.sectors.get(&nr.0).copied()
    }

    pub(crate) fn block_references(&self, block: BlockNr) -> Option<u32> {
        self.block_references.get(&block.0).copied()
    }

    pub(crate) fn block_users(&self, block: BlockNr) -> Vec<InodeNr> {
        self.block_users.get(&block.0).cloned().unwrap_or_default()
    }

    pub(crate) fn value_references(&self, nr: InodeNr) -> Option<u64> {
        self.value_references.get(&nr.0).copied()
    }
}

impl Check<'_> {
    pub(crate) fn derive_sectors(&mut self, nr: InodeNr, sectors: u64) -> Step {
        self.derive(|derived| derived.sectors.insert(nr.0, sectors).is_none())
    }

    pub(crate) fn derive_block_references(&mut self, block: u64, references: u32) -> Step {
        self.derive(|derived| derived.block_references.insert(block, references).is_none())
    }

    /// Begins to collect the inodes that refer to a damaged attribute block.
    pub(crate) fn derive_block_users(&mut self, block: BlockNr) -> Step {
        self.derive(|derived| derived.block_users.insert(block.0, Vec::new()).is_none())
    }

    /// Adds an inode that refers to an attribute block, if that is damaged.
    pub(crate) fn derive_block_user(&mut self, block: BlockNr, nr: InodeNr) -> Step {
        match self.derived.block_users.get_mut(&block.0) {
            Some(users) => {
                users.push(nr);
                self.take(BYTES_EACH)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn derive_value_references(&mut self, nr: u32, references: u64) -> Step {
        self.derive(|derived| derived.value_references.insert(nr, references).is_none())
    }

    /// Stores a number during a repair.
    fn derive(&mut self, store: impl FnOnce(&mut Derived) -> bool) -> Step {
        if self.gate.is_some() && store(&mut self.derived) {
            return self.take(BYTES_EACH);
        }
        Ok(())
    }
}
