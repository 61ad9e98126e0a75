//! Repair of tables of blocks: pointers that lead nowhere are cleared, and what another structure
//! claimed first gets a copy. All other tables stay where they are.

use super::Outcome;
use super::map_reader::{BYTES_EACH, only};
use super::patch::Patch;
use super::shared::Copies;
use crate::contested::lies_in;
use crate::state::Step;
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::indirect::{DIRECT_BLOCKS, ROOT_POINTERS, pointer, set_pointer};
use uext4_format::{BlockNr, Inode, InodeNr};
use uext4_num::{clamp_u32, u64_of};

/// Tables hold block numbers of 32 bits.
const TABLE_BLOCKS: u64 = 1 << 32;
/// A hole.
const NONE: BlockNr = BlockNr(0);

/// Changes of the tables of an inode.
struct Tables {
    nr: InodeNr,
    /// Clusters that another structure claimed first.
    contested: Vec<Range<u64>>,
    visited: BTreeSet<u64>,
    changed: Vec<(BlockNr, Vec<u8>)>,
    /// As `changed`, of new blocks.
    copied: Vec<(BlockNr, Vec<u8>)>,
    /// No space was left for a copy, or too many tables were read again: the walk ends.
    has_failed: bool,
    copies: Copies,
}

impl Patch<'_, '_> {
    pub(super) fn repair_tables(&mut self, nr: InodeNr, mut inode: Inode) -> Step<Outcome> {
        let mut tables = Tables {
            nr,
            contested: self.check.contested.of(nr),
            visited: BTreeSet::new(),
            changed: Vec::new(),
            copied: Vec::new(),
            has_failed: false,
            copies: Copies::default(),
        };
        let before = inode.i_block;
        for at in 0..ROOT_POINTERS {
            let level = clamp_u32(at + 1).saturating_sub(DIRECT_BLOCKS);
            let mended = self.mend_pointer(&mut tables, pointer(&before, at), level)?;
            set_pointer(&mut inode.i_block, at, mended);
        }
        let Tables {
            visited,
            changed,
            copied,
            has_failed,
            copies,
            ..
        } = tables;
        let n_changed = u64_of(changed.len() + copied.len());
        let changed_bytes = n_changed * self.check.block_bytes();
        let visited_bytes = u64_of(visited.len()) * BYTES_EACH;
        self.check.give_back(changed_bytes + visited_bytes);
        if has_failed || (n_changed == 0 && inode.i_block == before) {
            return Ok(Outcome::Impossible);
        }
        self.write_copies(copies)?;
        for (block, bytes) in copied {
            self.write_new(block, bytes)?;
        }
        for (block, bytes) in changed {
            self.write(block, bytes)?;
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// What a pointer has to be: to data at level 0, else to a table.
    fn mend_pointer(&mut self, tables: &mut Tables, block: BlockNr, level: u32) -> Step<BlockNr> {
        if block == NONE || tables.has_failed {
            return Ok(block);
        }
        if level == 0 {
            return self.mend_data(tables, block);
        }
        let is_own = !self.is_contested(tables, block);
        if !is_own && !tables.visited.contains(&block.0) && !self.space.may_read_again() {
            tables.has_failed = true;
            return Ok(block);
        }
        let Tables {
            contested, visited, ..
        } = tables;
        let Some(bytes) = self.read_table(block, contested, visited)? else {
            return Ok(NONE);
        };
        if !is_own && self.space.is_full {
            tables.has_failed = true;
            return Ok(block);
        }
        let mut mended = bytes.clone();
        for at in 0..bytes.len() / 4 {
            let child = self.mend_pointer(tables, pointer(&bytes, at), level - 1)?;
            set_pointer(&mut mended, at, child);
        }
        if is_own && mended == bytes {
            return Ok(block);
        }
        self.check.take(self.check.block_bytes())?;
        if is_own {
            tables.changed.push((block, mended));
            return Ok(block);
        }
        let home = self.take_block(tables, block)?;
        tables.copied.push((home, mended));
        Ok(home)
    }

    fn mend_data(&mut self, tables: &mut Tables, block: BlockNr) -> Step<BlockNr> {
        if !self.is_mappable(tables.nr, &only(block)) {
            return Ok(NONE);
        }
        if self.check.may_share_data() || !self.is_contested(tables, block) {
            return Ok(block);
        }
        if tables.nr == InodeNr::BAD_BLOCKS {
            return Ok(NONE);
        }
        let copy = self.take_block(tables, block)?;
        if copy != NONE {
            self.add_data(&mut tables.copies, block, copy, 1)?;
        }
        Ok(copy)
    }

    fn is_contested(&self, tables: &Tables, block: BlockNr) -> bool {
        lies_in(&tables.contested, self.check.clusters(only(block)).start)
    }

    /// A free block near `goal` for a copy; 0 if there is none.
    fn take_block(&mut self, tables: &mut Tables, goal: BlockNr) -> Step<BlockNr> {
        let taken = self.allocate_copy(goal)?;
        let taken = taken.filter(|block| block.0 < TABLE_BLOCKS);
        tables.has_failed |= taken.is_none();
        Ok(taken.unwrap_or(NONE))
    }
}
