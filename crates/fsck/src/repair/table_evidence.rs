//! Whether blocks look like the inode table of a group.
//!
//! With checksums an inode says its number. Without, a directory does, in its entry "."; other
//! inodes only look like inodes, and do so in a table that begins some blocks beside as well.

use super::known_places::Places;
use super::patch::Patch;
use super::places::{Taken, Unplaced};
use crate::state::Step;
use uext4_format::dirent::{RecordHeader, begins_directory};
use uext4_format::extent::{ExtentNode, MAGIC};
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::{
    BlockNr, FileType, GOOD_OLD_INODE_BYTES, GroupNr, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr,
    RawInode,
};
use uext4_num::clamp_u32;

/// Blocks at the start of a table that are looked at: its inodes are used from the first on.
const FIRST_BLOCKS: u32 = 32;
/// Further blocks, spread over the rest.
const SPREAD_BLOCKS: u32 = 32;
/// Directories that are enough.
const DIRECTORIES_MAX: u32 = 32;
/// Most links of a file.
const LINKS_MAX: u16 = 65_000;
/// Byte offset of the map in an inode.
const MAP_AT: usize = 0x28;

/// What the slots of a table say.
#[derive(Default)]
pub(super) struct TableEvidence {
    /// Slots that hold an inode of the group, or one of any group without checksums.
    pub(super) good: u32,
    /// Slots that hold something else.
    pub(super) bad: u32,
    /// Directories that say the number of their slot, and another.
    matching: u32,
    others: u32,
    has_checksums: bool,
    /// Garbage has the checksum of an inode once in 65,536 slots.
    is_short: bool,
}

/// Blocks of a table that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Samples,
    All,
}

impl TableEvidence {
    /// Whether this is the table of the group.
    pub(super) fn is_sound(&self) -> bool {
        if self.has_checksums {
            self.good > u32::from(self.is_short) || self.good > self.bad
        } else if self.matching + self.others > 0 {
            self.matching > self.others
        } else {
            self.good > self.bad
        }
    }

    /// Whether this is the table of the group if a descriptor says so: it has inodes, and no
    /// directories of another one.
    fn is_possible(&self) -> bool {
        self.good > u32::from(self.has_checksums && self.is_short) && self.others <= self.matching
    }

    fn rank(&self) -> (u32, i64) {
        (self.matching, i64::from(self.good) - i64::from(self.bad))
    }
}

impl Patch<'_, '_> {
    /// The first known place that looks like the table of a group; of those which overlap it, the
    /// one that does so most. If none does, a damaged one that is known for certain.
    pub(super) fn find_table(
        &mut self,
        group: GroupNr,
        unplaced: &Unplaced,
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let known = self.known_places(group, unplaced)?;
        let found = self.find_sound_table(group, &known, taken)?;
        if found.is_some() {
            return Ok(found);
        }
        let all: Vec<BlockNr> = known.iter().map(|places| places.inode_table).collect();
        let named = self.named_places(group, unplaced)?;
        for (at, place) in all.iter().copied().enumerate() {
            let is_first = !all[..at].contains(&place);
            let is_certain = named.iter().any(|named| named.inode_table == place)
                || all[at + 1..].contains(&place);
            if is_first
                && is_certain
                && self.may_be_at(group, taken, &self.table_at(place))
                && self
                    .table_evidence(group, place, Reading::All)?
                    .is_possible()
            {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn find_sound_table(
        &mut self,
        group: GroupNr,
        known: &[Places],
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let mut best: Option<(BlockNr, TableEvidence)> = None;
        let mut seen = Vec::new();
        for place in known.iter().map(|places| places.inode_table) {
            let zone = self.table_at(place);
            let meets = best.as_ref().is_none_or(|(found, _)| {
                let found = self.table_at(*found);
                found.start < zone.end && zone.start < found.end
            });
            if seen.contains(&place) || !meets || !self.may_be_at(group, taken, &zone) {
                continue;
            }
            seen.push(place);
            let evidence = self.table_evidence(group, place, Reading::Samples)?;
            let is_better = best
                .as_ref()
                .is_none_or(|(_, found)| evidence.rank() > found.rank());
            if evidence.is_sound() && is_better {
                best = Some((place, evidence));
            }
        }
        Ok(best.map(|(place, _)| place))
    }

    /// What the slots in use say, if the table of a group is here.
    pub(super) fn table_evidence(
        &mut self,
        group: GroupNr,
        start: BlockNr,
        reading: Reading,
    ) -> Step<TableEvidence> {
        let geometry = self.check.geometry;
        let per_block = geometry.inodes_per_block();
        let size = usize::from(geometry.inode_size);
        let mut evidence = TableEvidence {
            has_checksums: self.check.checksums.metadata.is_some(),
            is_short: size <= GOOD_OLD_INODE_BYTES,
            ..TableEvidence::default()
        };
        let len = geometry.inode_table_blocks();
        let first = match reading {
            Reading::Samples => FIRST_BLOCKS,
            Reading::All => len,
        };
        for at in samples(len, first) {
            let bytes = self.read(BlockNr(start.0 + u64::from(at)))?;
            for (slot, raw) in (0..per_block).zip(bytes.chunks_exact(size)) {
                let index = at * per_block + slot;
                if index < geometry.inodes_per_group && raw.iter().any(|byte| *byte != 0) {
                    self.judge_slot(geometry.inode_at(group, index), raw, &mut evidence)?;
                }
            }
        }
        Ok(evidence)
    }

    fn judge_slot(&mut self, nr: InodeNr, raw: &[u8], evidence: &mut TableEvidence) -> Step {
        match self.is_inode(nr, raw) {
            Some(true) => evidence.good += 1,
            Some(false) => evidence.bad += 1,
            None => {}
        }
        let n_read = evidence.matching + evidence.others;
        if evidence.has_checksums || n_read >= DIRECTORIES_MAX {
            return Ok(());
        }
        let Some(first) = directory_block(raw).filter(|block| self.check.geometry.contains(*block))
        else {
            return Ok(());
        };
        let bytes = self.read(first)?;
        let says = RecordHeader::read(&bytes, bytes.len()).map(|header| header.inode);
        if begins_directory(&bytes, nr) {
            evidence.matching += 1;
        } else if says.is_some_and(|other| begins_directory(&bytes, other)) {
            evidence.others += 1;
        }
        Ok(())
    }

    /// Whether these bytes, which are not all zero, are those of an inode; `None` if nothing says.
    fn is_inode(&self, nr: InodeNr, raw: &[u8]) -> Option<bool> {
        let (geometry, checksums) = (&self.check.geometry, &self.check.checksums);
        let fields = RawInode(raw);
        let kind = FileType::from_mode(fields.mode());
        if checksums.metadata.is_some() {
            let is_sealed = Inode::verify_unused(raw, nr, geometry, checksums).is_ok();
            return Some(is_sealed && (kind.is_some() || fields.links() == 0));
        }
        if fields.mode() == 0 {
            return None;
        }
        let Some(kind) = kind else {
            return Some(false);
        };
        let is_used = fields.links() != 0;
        if fields.links() > LINKS_MAX || is_used == (fields.dtime() != 0) {
            return Some(false);
        }
        let map = raw.get(MAP_AT..MAP_AT + I_BLOCK_BYTES)?;
        let has_map = matches!(kind, FileType::Regular | FileType::Directory);
        if !has_map || fields.flags().contains(InodeFlags::INLINE_DATA) {
            return None;
        }
        if fields.flags().contains(InodeFlags::EXTENTS) {
            return Some(ExtentNode::new(map).magic() == MAGIC);
        }
        let mut blocks = (0..ROOT_POINTERS).map(|at| pointer(map, at));
        Some(blocks.all(|block| block.0 == 0 || geometry.contains(block)))
    }
}

/// The blocks of a table of this length that are looked at: so many at its start, and some others.
fn samples(len: u32, first: u32) -> impl Iterator<Item = u32> {
    let first = len.min(first);
    let rest = u64::from(len - first);
    let spread = rest.min(SPREAD_BLOCKS.into());
    let rest = (0..spread).map(move |nth| first + clamp_u32(nth * rest / spread));
    (0..first).chain(rest)
}

/// The first block of a directory in use, if the inode itself says where it is.
fn directory_block(raw: &[u8]) -> Option<BlockNr> {
    let fields = RawInode(raw);
    let is_directory = FileType::from_mode(fields.mode()) == Some(FileType::Directory);
    if !is_directory || fields.links() == 0 || fields.flags().contains(InodeFlags::INLINE_DATA) {
        return None;
    }
    let map = raw.get(MAP_AT..MAP_AT + I_BLOCK_BYTES)?;
    if !fields.flags().contains(InodeFlags::EXTENTS) {
        return Some(pointer(map, 0));
    }
    let root = ExtentNode::new(map);
    let extent = (root.magic() == MAGIC && root.depth() == 0)
        .then(|| root.extents().next())
        .flatten()?;
    (extent.logical.0 == 0).then_some(extent.start)
}
