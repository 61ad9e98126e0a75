//! Check of inode tables: the bitmap against the slots.

use crate::report::Pass;
use crate::state::{Check, Step};
use std::ops::Range;
use uext4_format::{
    CorruptKind, DamageLocation, Feature, FileType, Geometry, GroupDescriptor, GroupNr, Inode,
    InodeNr, RawInode, group_flag,
};
use uext4_num::{clamp_u32, u64_of, usize_of};
use uext4_sync::Arc;

/// Inodes, and groups, of a part that one thread checks at a time. Tests have many parts.
const PART_INODES: u32 = if cfg!(test) { 16 } else { 8192 };
const PART_GROUPS: u32 = 64;

/// Size of the fields that every inode has, in bytes.
const OLD_INODE_BYTES: usize = 128;

/// The inode bitmap of a group.
pub(crate) struct Marks(Vec<u8>);

impl Marks {
    fn has(&self, index: u32) -> bool {
        let byte = self.0.get(usize_of(index / 8));
        byte.is_some_and(|byte| byte & 1 << (index % 8) != 0)
    }

    /// How many of the first inodes are marked.
    fn count(&self, len: u32) -> u32 {
        let whole = usize_of(len / 8).min(self.0.len());
        let bytes = self.0[..whole].iter().map(|byte| byte.count_ones());
        let rest = (len / 8 * 8..len).filter(|index| self.has(*index));
        bytes.sum::<u32>() + clamp_u32(rest.count())
    }
}

impl Check<'_> {
    pub(crate) fn check_inodes(&mut self) -> Step {
        if self.geometry.features.has(Feature::MMP) {
            let block = self.superblock.mmp_block;
            let clusters = self.clusters(block..block.saturating_add(1));
            self.claim(clusters)?;
        }
        let parts = self.parts();
        self.take(u64_of(parts.len()) * u64_of(size_of::<Range<u32>>()))?;
        self.by_parts(Pass::Inodes, parts.len(), |check, turn| {
            if let Some(next) = turn.next {
                check.ask_for_tables(parts[next].clone());
            }
            let mut groups = parts[turn.nr].clone().map(GroupNr);
            groups.try_for_each(|group| check.check_group(group))
        })
    }

    /// Runs of groups with about as many written inodes.
    fn parts(&self) -> Vec<Range<u32>> {
        let (mut parts, mut first, mut inodes) = (Vec::new(), 0, 0);
        for (group, descriptor) in (0..).zip(self.descriptors.iter()) {
            inodes += descriptor
                .as_ref()
                .map_or(0, |found| written_inodes(found, &self.geometry));
            if inodes >= PART_INODES || group + 1 - first == PART_GROUPS {
                parts.push(first..group + 1);
                (first, inodes) = (group + 1, 0);
            }
        }
        parts.push(first..self.geometry.group_count);
        parts
    }

    fn check_group(&mut self, group: GroupNr) -> Step {
        let descriptors = Arc::clone(&self.descriptors);
        match &descriptors[usize_of(group.0)] {
            Some(descriptor) => self.check_table(group, descriptor),
            None => Ok(()),
        }
    }

    /// Reads the inode bitmap, which was written.
    fn marks(&mut self, group: GroupNr, descriptor: &GroupDescriptor) -> Step<Marks> {
        let bytes = usize_of(self.geometry.inodes_per_group.div_ceil(8));
        let bitmap = self.read(descriptor.inode_bitmap)?;
        let (geometry, checksums) = (&self.geometry, &self.checksums);
        let sound = descriptor.verify_inode_bitmap(&bitmap, group, geometry, checksums);
        if let Err(corrupt) = sound {
            self.add_corrupt(&corrupt);
        }
        if bitmap
            .get(bytes..)
            .is_some_and(|rest| rest.iter().any(|byte| *byte != 0xFF))
        {
            let problem = CorruptKind::InodeBitsClear;
            self.add_problem(DamageLocation::Group(group), "inode bitmap", problem);
        }
        Ok(Marks(bitmap))
    }

    fn check_table(&mut self, group: GroupNr, descriptor: &GroupDescriptor) -> Step {
        let geometry = self.geometry;
        let per_group = geometry.inodes_per_group;
        let is_assumed = self.assumed.contains_key(&group);
        if descriptor.has_flag(group_flag::INODE_UNINIT) {
            if !is_assumed {
                self.compare_counts(group, descriptor, per_group, 0);
            }
            return Ok(());
        }
        let marks = if is_assumed {
            Marks(Vec::new())
        } else {
            self.marks(group, descriptor)?
        };
        let written = written_inodes(descriptor, &geometry);
        let size = usize::from(geometry.inode_size);
        let per_block = geometry.inodes_per_block();
        let per_read = per_block * self.blocks_per_read();
        let mut directories = 0;
        let mut blocks = std::mem::take(&mut self.buffer);
        for first in (0..written).step_by(usize_of(per_read)) {
            let end = written.min(first.saturating_add(per_read));
            let (start, _) = geometry.inode_location(descriptor.inode_table, first);
            let n_blocks = (end - first).div_ceil(per_block);
            self.read_run(start, n_blocks, &mut blocks)?;
            for (index, raw) in (first..end).zip(blocks.chunks_exact(size)) {
                let nr = geometry.inode_at(group, index);
                let is_marked = if is_assumed {
                    self.seems_used(nr, raw)
                } else {
                    marks.has(index)
                };
                let kind = self.check_slot(nr, raw, is_marked)?;
                directories += u32::from(kind == Some(FileType::Directory));
            }
        }
        self.buffer = blocks;
        if is_assumed {
            return Ok(());
        }
        for index in written..per_group {
            self.check_unwritten(group, index, &marks);
        }
        let free = per_group - marks.count(per_group);
        self.compare_counts(group, descriptor, free, directories);
        Ok(())
    }

    fn check_unwritten(&mut self, group: GroupNr, index: u32, marks: &Marks) {
        if marks.has(index) {
            let place = DamageLocation::Inode(self.geometry.inode_at(group, index));
            let problem = CorruptKind::InUseUnwritten;
            self.add_problem(place, "inode bitmap", problem);
        }
    }

    fn compare_counts(
        &mut self,
        group: GroupNr,
        descriptor: &GroupDescriptor,
        free: u32,
        directories: u32,
    ) {
        let place = DamageLocation::Group(group);
        for (what, says, is) in [
            (CorruptKind::FreeInodesWrong, descriptor.free_inodes, free),
            (
                CorruptKind::DirectoriesWrong,
                descriptor.used_dirs,
                directories,
            ),
        ] {
            if says != is {
                let detail = format!("{says}, not {is}");
                self.add_detailed(place, "group descriptor", what, detail);
            }
        }
    }

    /// Checks one slot; returns the type of an inode in use.
    fn check_slot(&mut self, nr: InodeNr, raw: &[u8], marked: bool) -> Step<Option<FileType>> {
        if !marked && nr.0 >= self.geometry.first_inode && is_empty(raw) {
            return Ok(None);
        }
        let links = RawInode(raw).links();
        if !marked && (links != 0 || self.is_reserved(nr)) {
            let problem = CorruptKind::InodeMarkedFree;
            self.add_problem(DamageLocation::Inode(nr), "inode bitmap", problem);
        }
        self.check_dtime(nr, raw);
        if self.is_set_aside(nr, raw) {
            return self.check_reserved(nr, raw).map(|()| None);
        }
        if links == 0 && !marked {
            self.check_unused(nr, raw);
            return Ok(None);
        }
        let is_ordinary = nr.0 >= self.geometry.first_inode && !self.hidden.contains(nr);
        if is_ordinary && is_empty(raw) && !self.is_orphan(nr) {
            let problem = CorruptKind::DeletedMarked;
            self.add_problem(DamageLocation::Inode(nr), "inode bitmap", problem);
            return Ok(None);
        }
        match Inode::parse(raw, nr, &self.geometry, &self.checksums) {
            Ok(inode) => self.check_used(nr, raw, &inode),
            Err(corrupt) => {
                self.add_corrupt(&corrupt);
                Ok(None)
            }
        }
    }

    /// Whether a slot is in use where no bitmap is known.
    fn seems_used(&self, nr: InodeNr, raw: &[u8]) -> bool {
        RawInode(raw).links() != 0 || self.is_reserved(nr) || self.is_orphan(nr)
    }

    pub(crate) fn is_reserved(&self, nr: InodeNr) -> bool {
        nr.0 < self.geometry.first_inode && nr != InodeNr::ROOT
    }

    /// Checks the checksum of an unused slot; a slot with 128 zero bytes at its start needs none.
    pub(crate) fn is_sealed(&mut self, nr: InodeNr, raw: &[u8]) -> bool {
        let sealed = Inode::verify_unused(raw, nr, &self.geometry, &self.checksums);
        match sealed {
            Err(corrupt) if !is_empty(raw) => {
                self.add_corrupt(&corrupt);
                false
            }
            _ => true,
        }
    }

    fn check_unused(&mut self, nr: InodeNr, raw: &[u8]) {
        let fields = RawInode(raw);
        let undeleted = fields.mode() != 0 && fields.dtime() == 0;
        if self.is_sealed(nr, raw) && undeleted && !self.is_orphan(nr) {
            let problem = CorruptKind::NeverDeleted;
            self.add_problem(DamageLocation::Inode(nr), "inode", problem);
        }
    }

    /// Reports a deletion time in the range of inode numbers: it was a link of the orphan list.
    fn check_dtime(&mut self, nr: InodeNr, raw: &[u8]) {
        let (dtime, numbers) = (RawInode(raw).dtime(), self.geometry.inodes_count);
        let is_number = (1..numbers).contains(&dtime);
        if is_number && !self.is_orphan(nr) && self.has_clock() {
            let problem = CorruptKind::OrphanGone;
            self.add_problem(DamageLocation::Inode(nr), "inode", problem);
        }
    }

    /// False for a file system made or used without a clock, where any time may be small.
    fn has_clock(&self) -> bool {
        let disk = self.superblock;
        let numbers = u64::from(self.geometry.inodes_count);
        [disk.mkfs_time, disk.mtime, disk.wtime]
            .iter()
            .all(|time| *time == 0 || *time >= numbers)
    }
}

fn is_empty(raw: &[u8]) -> bool {
    let fields = raw.get(..OLD_INODE_BYTES).unwrap_or(raw);
    fields == &[0; OLD_INODE_BYTES][..fields.len()]
}

/// Number of written slots at the start of a group's table.
pub(crate) fn written_inodes(descriptor: &GroupDescriptor, geometry: &Geometry) -> u32 {
    if descriptor.has_flag(group_flag::INODE_UNINIT) {
        0
    } else {
        geometry
            .inodes_per_group
            .saturating_sub(descriptor.itable_unused)
    }
}
