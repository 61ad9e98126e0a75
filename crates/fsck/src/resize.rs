//! Check of the resize inode: the descriptor blocks reserved for growth, and their copies in other
//! groups.
//!
//! Layout: its only entry is a table of the primary reserved blocks, each at its index as a
//! descriptor block. Each of them is a table of its copies, by group.
//! References: kernel documentation, "Special inodes"; `e2fsck` checks the same.

use crate::state::{Check, Step};
use std::collections::BTreeMap;
use uext4_format::indirect::{DIRECT_BLOCKS, DOUBLE_INDIRECT, pointer};
use uext4_format::{BlockNr, CorruptKind, DamageLocation, FileType, GroupNr, Inode, InodeNr};
use uext4_num::{u64_of, usize_of};

impl Check<'_> {
    /// Checks the inode. It maps metadata, so only the table itself is claimed.
    pub(crate) fn check_resize(&mut self, nr: InodeNr, inode: &Inode) -> Step {
        let attributes = self.check_spare_attributes(nr, inode)?;
        let place = DamageLocation::Inode(nr);
        let table = pointer(&inode.i_block, DOUBLE_INDIRECT);
        let others = (0..inode.i_block.len() / 4).filter(|at| *at != DOUBLE_INDIRECT);
        if others.map(|at| pointer(&inode.i_block, at).0).sum::<u64>() != 0 {
            self.add_problem(place, "resize inode", CorruptKind::MapsMoreThanTable);
        }
        if inode.file_type() != Some(FileType::Regular) || inode.links == 0 {
            self.add_problem(place, "resize inode", CorruptKind::NotInUse);
        }
        let run = table.0..table.0.saturating_add(1);
        let clusters = self.clusters(run.clone());
        if !self.may_map(&run) || self.claim(clusters)? != 1 {
            let place = DamageLocation::InodeBlock(nr, table);
            self.add_problem(place, "resize inode", CorruptKind::TableNotOwn);
            return Ok(());
        }
        let (kept, end) = self.check_kept(nr, table)?;
        let whole_blocks = inode.size / self.block_bytes();
        if inode.size >= self.size_max(inode) || end > whole_blocks + 1 {
            self.add_problem(place, "resize inode", CorruptKind::SizeWrong);
        } else {
            self.mark_large(FileType::Regular, inode.size);
        }
        self.compare_sectors(nr, inode, 1 + kept + attributes)
    }

    /// Checks the table and its blocks; returns their number, and the exclusive end of their
    /// logical blocks.
    fn check_kept(&mut self, nr: InodeNr, table: BlockNr) -> Step<(u64, u64)> {
        let geometry = self.geometry;
        let bytes = self.read(table)?;
        self.check_other_pointers(nr, table, &bytes);
        let primary = geometry.reserved_gdt_run(GroupNr(0));
        let per_table = geometry.block_size() / 4;
        let first = geometry.descriptor_blocks_count();
        let mut wanted = BTreeMap::new();
        for at in 0..primary.map_or(0, |primary| primary.len_blocks) {
            let start = primary.map_or(0, |primary| primary.start.0);
            let kept = BlockNr(start + u64::from(at));
            wanted.insert(usize_of((first + at) % per_table), kept);
        }
        let (mut led_to, mut end) = (count(&bytes), 0);
        for entry in 0..bytes.len() / 4 {
            let block = pointer(&bytes, entry);
            let kept = wanted.get(&entry).copied();
            let is_right = kept.is_none_or(|kept| self.leads_to(nr, table, &bytes, entry, kept));
            if !is_right || block.0 == 0 || !geometry.contains_run(block, 1) {
                continue;
            }
            let below = self.read(block)?;
            self.check_other_pointers(nr, block, &below);
            led_to += count(&below);
            if let Some(last) = last(&below) {
                let tables = (1 + u64_of(entry)) * u64::from(per_table);
                end = end.max(u64::from(DIRECT_BLOCKS) + tables + last + 1);
            }
            if kept.is_some() {
                self.check_copies(nr, block, &below);
            }
        }
        Ok((led_to, end))
    }

    /// Checks the table of the copies of a block kept for descriptors.
    fn check_copies(&mut self, nr: InodeNr, kept: BlockNr, bytes: &[u8]) {
        let geometry = self.geometry;
        for (entry, group) in geometry.reserved_gdt_copies().enumerate() {
            let copy = geometry.reserved_gdt_copy(kept, group);
            if !self.leads_to(nr, kept, bytes, entry, copy) {
                break;
            }
        }
    }

    /// Reports block numbers outside of the file system.
    fn check_other_pointers(&mut self, nr: InodeNr, table: BlockNr, bytes: &[u8]) {
        let geometry = self.geometry;
        let mut entries = (0..bytes.len() / 4).map(|at| pointer(bytes, at).0);
        if entries.any(|block| block != 0 && !geometry.contains_run(BlockNr(block), 1)) {
            let problem = CorruptKind::BlockOutsideSystem;
            self.add_problem(
                DamageLocation::InodeBlock(nr, table),
                "resize inode",
                problem,
            );
        }
    }

    /// Whether entry `at` of a table is `block`; reports it if not.
    fn leads_to(
        &mut self,
        nr: InodeNr,
        table: BlockNr,
        bytes: &[u8],
        at: usize,
        block: BlockNr,
    ) -> bool {
        let says = pointer(bytes, at).0;
        if says != block.0 {
            let detail = format!("entry {at} is {says}, not {}", block.0);
            let problem = CorruptKind::DescriptorPlace;
            self.add_detailed(
                DamageLocation::InodeBlock(nr, table),
                "resize inode",
                problem,
                detail,
            );
        }
        says == block.0
    }
}

/// Number of non-zero entries of a table.
fn count(bytes: &[u8]) -> u64 {
    let entries = (0..bytes.len() / 4).map(|at| pointer(bytes, at).0);
    u64_of(entries.filter(|block| *block != 0).count())
}

/// Index of the last non-zero entry of a table.
fn last(bytes: &[u8]) -> Option<u64> {
    let at = (0..bytes.len() / 4).rfind(|at| pointer(bytes, *at).0 != 0);
    at.map(u64_of)
}
