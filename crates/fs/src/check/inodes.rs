//! Inode tables: which inodes are in use, whether they make sense, and what they map.

use super::links::Nameless;
use super::maps::DIRECT;
use super::{Check, Step};
use uext4_format::{
    Feature, FileType, GroupDescriptor, GroupNr, Inode, InodeFlags, InodeNr, Place, group_flag,
};

/// Inodes with a meaning of their own.
const BAD_BLOCKS: u32 = 1;
const RESIZE: u32 = 7;
/// Longest target of a symbolic link that stands in the inode itself.
const FAST_LINK_BYTES: u64 = 60;

/// Where the high part of the size stands in an inode.
const SIZE_HIGH: std::ops::Range<usize> = 0x6C..0x70;
/// Bytes that inodes of every size have.
const OLD_INODE_BYTES: usize = 128;

/// Blocks that a file can have.
const BLOCKS_MAX: u64 = 1 << 32;

/// What the bitmap of a group says of its inodes.
pub(super) struct Marks(Vec<u8>);

impl Marks {
    pub(super) fn has(&self, index: u32) -> bool {
        let byte = self.0.get((index / 8) as usize);
        byte.is_some_and(|byte| byte & 1 << (index % 8) != 0)
    }
}

impl Check<'_> {
    pub(super) fn look_at_inodes(&mut self) -> Step {
        if self.fs.features.has(Feature::MMP) {
            let block = self.fs.superblock.read().disk.mmp_block;
            let clusters = self.clusters(block..block.saturating_add(1));
            self.claimed.put_all(clusters);
        }
        for group in self.groups() {
            let Some(descriptor) = self.descriptors[group.0 as usize].clone() else {
                continue;
            };
            self.look_at_table(group, &descriptor)?;
        }
        Ok(())
    }

    /// The inode bitmap; nothing is in use where it was never written.
    fn marks(&mut self, group: GroupNr, descriptor: &GroupDescriptor) -> Step<Marks> {
        let bytes = self.fs.geometry.inodes_per_group.div_ceil(8) as usize;
        if descriptor.has_flag(group_flag::INODE_UNINIT) {
            return Ok(Marks(vec![0; bytes]));
        }
        let bitmap = self.read(descriptor.inode_bitmap)?;
        let (geometry, checksums) = (&self.fs.geometry, &self.fs.checksums);
        let sound = descriptor.verify_inode_bitmap(&bitmap, group, geometry, checksums);
        if let Err(corrupt) = sound {
            self.note(&corrupt);
        }
        if bitmap
            .get(bytes..)
            .is_some_and(|rest| rest.iter().any(|byte| *byte != 0xFF))
        {
            let problem = "bits behind the last inode are clear";
            self.found(Place::Group(group), "inode bitmap", problem);
        }
        Ok(Marks(bitmap))
    }

    fn look_at_table(&mut self, group: GroupNr, descriptor: &GroupDescriptor) -> Step {
        let marks = self.marks(group, descriptor)?;
        let geometry = self.fs.geometry;
        let per_group = geometry.inodes_per_group;
        let written = if descriptor.has_flag(group_flag::INODE_UNINIT) {
            0
        } else {
            per_group - descriptor.itable_unused.min(per_group)
        };
        let size = usize::from(geometry.inode_size);
        let per_block = geometry.inodes_per_block();
        let (mut free, mut directories) = (0, 0);
        let mut block = Vec::new();
        for index in 0..per_group {
            free += u32::from(!marks.has(index));
            if index >= written {
                self.look_at_unwritten(group, index, &marks);
                continue;
            }
            if index.is_multiple_of(per_block) {
                let (nr, _) = geometry.inode_location(descriptor.inode_table, index);
                block = self.read(nr)?;
            }
            let at = (index % per_block) as usize * size;
            let raw = block.get(at..at + size).unwrap_or_default();
            let nr = geometry.inode_at(group, index);
            let kind = self.look_at_slot(nr, raw, marks.has(index))?;
            directories += u32::from(kind == Some(FileType::Directory));
        }
        self.compare_counts(group, descriptor, free, directories);
        Ok(())
    }

    fn look_at_unwritten(&mut self, group: GroupNr, index: u32, marks: &Marks) {
        if marks.has(index) {
            let place = Place::Inode(self.fs.geometry.inode_at(group, index));
            let problem = "it is in use in a part of the table that was never written";
            self.found(place, "inode bitmap", problem);
        }
    }

    fn compare_counts(
        &mut self,
        group: GroupNr,
        descriptor: &GroupDescriptor,
        free: u32,
        directories: u32,
    ) {
        let place = Place::Group(group);
        for (what, says, is) in [
            (
                "the count of free inodes is wrong",
                descriptor.free_inodes,
                free,
            ),
            (
                "the count of directories is wrong",
                descriptor.used_dirs,
                directories,
            ),
        ] {
            if says != is {
                let detail = format!("{says}, not {is}");
                self.found_in(place, "group descriptor", what, detail);
            }
        }
    }

    /// Looks at one slot; answers the type of an inode in use.
    fn look_at_slot(&mut self, nr: InodeNr, raw: &[u8], marked: bool) -> Step<Option<FileType>> {
        let links = u16::from_le_bytes([raw[0x1a], raw[0x1b]]);
        let reserved = nr.0 < self.fs.geometry.first_inode && nr != InodeNr::ROOT;
        let place = Place::Inode(nr);
        if (links == 0 && !marked) || (reserved && raw[..2] == [0; 2]) {
            return self.look_at_reserved(nr, raw).map(|()| None);
        }
        if !marked {
            self.found(place, "inode bitmap", "an inode in use is marked free");
        }
        let parsed = Inode::parse(raw, nr, &self.fs.geometry, &self.fs.checksums);
        let inode = match parsed {
            Ok(inode) => inode,
            Err(corrupt) => {
                self.note(&corrupt);
                return Ok(None);
            }
        };
        let Some(kind) = inode.file_type() else {
            self.found(place, "inode", "its mode names no type");
            return Ok(None);
        };
        if links != 0 && inode.dtime != 0 && !self.may_have_orphans() {
            self.found(place, "inode", "it is in use and was deleted");
        }
        if links == 0 && !reserved && !self.may_have_orphans() {
            self.found(place, "inode bitmap", "a deleted inode is marked in use");
        }
        let size_high = raw.get(SIZE_HIGH).unwrap_or_default();
        let has_high = match kind {
            FileType::Regular => true,
            FileType::Directory => self.fs.features.has(Feature::LARGE_DIR),
            _ => false,
        };
        if !has_high && size_high.iter().any(|byte| *byte != 0) {
            self.found(
                place,
                "inode",
                "the size is wrong: its high part means nothing",
            );
        }
        self.look_at_quota_inode(nr);
        self.look_at_inode(nr, &inode, kind, reserved)?;
        Ok(Some(kind))
    }

    /// Reserved inodes without a type may map blocks all the same.
    fn look_at_reserved(&mut self, nr: InodeNr, raw: &[u8]) -> Step {
        let inode = match Inode::parse(raw, nr, &self.fs.geometry, &self.fs.checksums) {
            Ok(inode) => inode,
            // A slot is empty when its first 128 bytes are.
            Err(corrupt) if raw.iter().take(OLD_INODE_BYTES).any(|byte| *byte != 0) => {
                self.note(&corrupt);
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        match nr.0 {
            RESIZE if self.fs.features.has(Feature::RESIZE_INODE) => {
                self.look_at_resize(nr, &inode)
            }
            BAD_BLOCKS => self.claim_map(nr, &inode).map(|_| ()),
            reserved if reserved < self.fs.geometry.first_inode => {
                self.look_at_flags(nr, &inode, FileType::Regular);
                self.compare_sectors(nr, &inode, 0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn may_have_orphans(&self) -> bool {
        let disk = &self.fs.superblock.read().disk;
        // No orphans are freed where errors are recorded, neither by a mount nor by e2fsck.
        let is_marked = disk.state & uext4_format::superblock::state::ERROR != 0;
        let some = disk.last_orphan != 0 || self.fs.features.has(Feature::ORPHAN_PRESENT);
        some && !is_marked
    }

    fn look_at_inode(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
        kind: FileType,
        reserved: bool,
    ) -> Step {
        let hidden = self.is_hidden(nr) || inode.flags.contains(InodeFlags::EA_INODE);
        let nameless = match reserved || hidden || inode.links == 0 {
            true => Nameless::Yes,
            false => Nameless::No,
        };
        self.look_at_flags(nr, inode, kind);
        self.links.put(nr, kind, inode.links, nameless);
        self.report.n_inodes += 1;
        if kind == FileType::Directory {
            self.report.n_directories += 1;
            self.take(super::Links::BYTES_PER_DIRECTORY)?;
        }
        if nr.0 == RESIZE && self.fs.features.has(Feature::RESIZE_INODE) {
            return self.look_at_resize(nr, inode);
        }
        let orphan_file = self.fs.superblock.read().disk.orphan_file_inum;
        let attributes = match nr.0 == orphan_file {
            // Read nowhere.
            true => 0,
            false => self.look_at_attributes(nr, inode)?,
        };
        if inode.flags.contains(InodeFlags::EA_INODE) {
            self.look_at_value(nr, inode, kind)?;
        }
        let mapped = self.map_of(nr, inode, kind)?;
        let is_value = inode.flags.contains(InodeFlags::EA_INODE);
        if kind == FileType::Symlink
            && !is_value
            && !mapped.as_ref().is_some_and(|mapped| mapped.is_bad)
        {
            self.look_at_symlink(nr, inode, mapped.as_ref())?;
        }
        let Some(mapped) = mapped else {
            if inode.flags.contains(InodeFlags::INLINE_DATA) {
                self.compare_sectors(nr, inode, attributes);
            }
            return Ok(());
        };
        self.compare_sectors(nr, inode, mapped.clusters + attributes);
        self.compare_size(nr, inode, kind, mapped.end);
        if mapped.is_bad && kind == FileType::Directory {
            self.unreadable.put(u64::from(nr.0));
        }
        Ok(())
    }

    /// Flags that mean nothing without a feature, or of a file of this type.
    fn look_at_flags(&mut self, nr: InodeNr, inode: &Inode, kind: FileType) {
        let is_dir = kind == FileType::Directory;
        let has = |feature| self.fs.features.has(feature);
        let odd = [
            (InodeFlags::CASEFOLD, is_dir && has(Feature::CASEFOLD)),
            (InodeFlags::EA_INODE, has(Feature::EA_INODE)),
            (InodeFlags::ENCRYPT, has(Feature::ENCRYPT)),
            (InodeFlags::VERITY, has(Feature::VERITY)),
            (InodeFlags::INLINE_DATA, has(Feature::INLINE_DATA)),
            (InodeFlags::INDEX, is_dir),
        ];
        if odd
            .iter()
            .any(|(flag, fits)| !fits && inode.flags.contains(*flag))
        {
            self.found(Place::Inode(nr), "inode", "a flag that it cannot have");
        }
    }

    /// Inodes that the superblock names.
    fn is_hidden(&self, nr: InodeNr) -> bool {
        let superblock = self.fs.superblock.read();
        let disk = &superblock.disk;
        let named = [
            (Feature::ORPHAN_FILE, disk.orphan_file_inum),
            (Feature::PROJECT, disk.prj_quota_inum),
            (Feature::QUOTA, disk.usr_quota_inum),
            (Feature::QUOTA, disk.grp_quota_inum),
            (Feature::QUOTA, disk.prj_quota_inum),
        ];
        let hides =
            |(feature, inum): &(Feature, u32)| self.fs.features.has(*feature) && *inum == nr.0;
        named.iter().any(hides)
    }

    /// What it maps; `None` when the inode itself holds all there is.
    fn map_of(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
        kind: FileType,
    ) -> Step<Option<super::maps::Mapped>> {
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            return Ok(None);
        }
        let fast = kind == FileType::Symlink
            && !inode.flags.contains(InodeFlags::EXTENTS)
            && inode.size < FAST_LINK_BYTES;
        let has_map = matches!(
            kind,
            FileType::Regular | FileType::Directory | FileType::Symlink
        );
        if fast || !has_map {
            return Ok(None);
        }
        if inode.flags.contains(InodeFlags::EXTENTS) && !self.fs.features.has(Feature::EXTENTS) {
            self.found(Place::Inode(nr), "inode", "extents without the feature");
        }
        self.claim_map(nr, inode).map(Some)
    }

    pub(super) fn compare_sectors(&mut self, nr: InodeNr, inode: &Inode, clusters: u64) {
        let says = inode.sectors(&self.fs.geometry);
        let is = clusters.saturating_mul(self.fs.geometry.cluster_size() / 512);
        if says != is {
            let detail = format!("{says}, not {is}");
            self.found_in(
                Place::Inode(nr),
                "inode",
                "the block count is wrong",
                detail,
            );
        }
    }

    fn compare_size(&mut self, nr: InodeNr, inode: &Inode, kind: FileType, end: u64) {
        let block_size = u64::from(self.fs.geometry.block_size());
        let odd = kind == FileType::Directory && !inode.size.is_multiple_of(block_size);
        // Nothing is wrong with data behind the end of a file that was cut while it crashed.
        let orphan = inode.links == 0 || self.may_have_orphans();
        // The tree of hashes of a verity file stands behind its data; one block at the end may
        // have been written before the size.
        let is_behind =
            end > inode.size / block_size + 1 && !inode.flags.contains(InodeFlags::VERITY);
        let is_huge = inode.size >= self.size_max(inode);
        if odd || is_huge || (is_behind && !orphan) {
            let detail = format!("{}, with data in {end} blocks", inode.size);
            self.found_in(Place::Inode(nr), "inode", "the size is wrong", detail);
        }
    }

    /// The size that no file reaches that maps its blocks as this one does.
    pub(super) fn size_max(&self, inode: &Inode) -> u64 {
        let block_size = u64::from(self.fs.geometry.block_size());
        if inode.flags.contains(InodeFlags::EXTENTS) {
            return BLOCKS_MAX * block_size;
        }
        let per_table = block_size / 4;
        let tables = per_table + per_table.pow(2) + per_table.pow(3);
        (DIRECT as u64 + tables).min(BLOCKS_MAX) * block_size + 1
    }
}
