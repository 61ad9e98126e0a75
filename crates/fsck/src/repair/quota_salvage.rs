//! Reader of damaged quota files: the limits that can still be told.
//!
//! First the entries that the tree leads to, by the number of their owner; then those of blocks
//! that have the form of a block of entries. Blocks without use are zero, so that no old entry
//! comes back.

use super::patch::Patch;
use super::quota_files::Entries;
use crate::quota_files::{Part, QuotaBlocks, entries_of, is_leaf};
use crate::state::Step;
use std::collections::BTreeSet;
use uext4_format::InodeNr;
use uext4_format::quota::{QuotaInfo, QuotaKind, node_pointers};
use uext4_num::u64_of;

/// Memory for a node or an entry that was found, in bytes.
const BYTES_EACH: u64 = 800;
/// Block of the root.
const ROOT: u64 = 1;
/// Levels below the root.
const LEVELS: u8 = 3;
/// Blocks that may be read, in sizes of the file.
const READS_MAX: u64 = 4;

/// What was found of a file.
struct Found {
    file: QuotaBlocks,
    /// Blocks of 1 KiB, with those behind the end: the size may be wrong.
    n_parts: u64,
    nodes: BTreeSet<u64>,
    entries: Entries,
    reads_left: u64,
}

impl Patch<'_, '_> {
    /// The grace times and the entries of a damaged file. Their memory is taken, for each entry
    /// that is returned.
    pub(super) fn salvage_quota(
        &mut self,
        nr: InodeNr,
        kind: QuotaKind,
    ) -> Step<(Option<QuotaInfo>, Entries)> {
        let Some(file) = self.check.quota_blocks(nr)? else {
            return Ok((None, Entries::new()));
        };
        let block_bytes = self.check.block_bytes();
        let parts = (0..).map_while(|nth| file.mapped_part(nth, block_bytes));
        let n_parts = parts.last().map_or(0, |last| last + 1).max(file.n_parts());
        let mut found = Found {
            reads_left: n_parts.saturating_mul(READS_MAX),
            n_parts,
            file,
            nodes: BTreeSet::new(),
            entries: Entries::new(),
        };
        let first = self.check.quota_block(&mut found.file, 0)?;
        let info = first.and_then(|first| QuotaInfo::decode(&first, kind).ok());
        self.salvage_node(&mut found, ROOT, LEVELS, 0)?;
        let mut nth = 0;
        while let Some(at) = found.file.mapped_part(nth, block_bytes) {
            nth += 1;
            if at <= ROOT || found.nodes.contains(&at) {
                continue;
            }
            let block = self.check.quota_block(&mut found.file, at)?;
            if let Some(block) = block.filter(is_leaf) {
                self.salvage_entries(&mut found, &block, |_| true)?;
            }
        }
        let nodes = u64_of(found.nodes.len()) * BYTES_EACH;
        self.check.give_back(found.file.bytes() + nodes);
        Ok((info, found.entries))
    }

    fn salvage_node(&mut self, found: &mut Found, at: u64, levels: u8, prefix: u32) -> Step {
        if found.nodes.contains(&at) {
            return Ok(());
        }
        let Some(block) = self.read_counted(found, at)? else {
            return Ok(());
        };
        found.nodes.insert(at);
        self.check.take(BYTES_EACH)?;
        let mut leaves = BTreeSet::new();
        for (slot, child) in (0..).zip(node_pointers(&block)) {
            let child = u64::from(child);
            let is_inside = child > ROOT && child < found.n_parts;
            if !is_inside {
                continue;
            }
            match levels.checked_sub(1) {
                Some(levels) => self.salvage_node(found, child, levels, prefix << 8 | slot)?,
                None => drop(leaves.insert(child)),
            }
        }
        for leaf in leaves {
            if let Some(block) = self.read_counted(found, leaf)? {
                self.salvage_entries(found, &block, |id| id >> 8 == prefix)?;
            }
        }
        Ok(())
    }

    fn read_counted(&mut self, found: &mut Found, at: u64) -> Step<Option<Part>> {
        let Some(left) = found.reads_left.checked_sub(1) else {
            return Ok(None);
        };
        found.reads_left = left;
        self.check.quota_block(&mut found.file, at)
    }

    fn salvage_entries(
        &mut self,
        found: &mut Found,
        block: &Part,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Step {
        for entry in entries_of(block).flatten() {
            if is_wanted(entry.id) && !found.entries.contains_key(&entry.id) {
                self.check.take(BYTES_EACH)?;
                found.entries.insert(entry.id, entry);
            }
        }
        Ok(())
    }
}
