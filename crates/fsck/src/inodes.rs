//! Check of inodes in use: their fields and maps.

use super::attributes::Added;
use super::counts::{Nameless, NewInode};
use super::maps::ROOM_SPARED;
use crate::state::{Check, Step};
use uext4_format::dirent::begins_directory;
use uext4_format::extent::{ExtentNode, MAGIC};
use uext4_format::indirect::{DIRECT_BLOCKS, pointer};
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody};
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, FileType, I_BLOCK_BYTES, Inode, InodeFlags,
    InodeNr,
};
use uext4_num::u64_of;

/// Longest target of a fast symbolic link in bytes.
const FAST_LINK_BYTES: u64 = 60;

/// Bytes of the high part of the size in an inode.
const SIZE_HIGH: std::ops::Range<usize> = 0x6C..0x70;

/// Bytes of the address of a fragment, which no file has.
const FRAGMENT: std::ops::Range<usize> = 0x70..0x74;

/// Size of files that require a feature.
const LARGE_BYTES: u64 = 1 << 31;

/// Largest quota file of e2fsprogs (`lib/support/quotaio_v2.c`).
const QUOTA_BYTES_MAX: u64 = 1 << 31;

/// Most blocks of a file.
const BLOCKS_MAX: u64 = 1 << 32;

impl Check<'_> {
    /// Checks an inode in use; returns its type, if it has one.
    pub(crate) fn check_used(
        &mut self,
        nr: InodeNr,
        raw: &[u8],
        inode: &Inode,
    ) -> Step<Option<FileType>> {
        let place = DamageLocation::Inode(nr);
        let Some(kind) = inode.file_type() else {
            self.add_problem(place, "inode", CorruptKind::NoFileType);
            return Ok(None);
        };
        let reserved = self.is_reserved(nr);
        let is_own = reserved || self.is_hidden(nr);
        if inode.links != 0 && inode.dtime != 0 && !is_own && !self.is_orphan(nr) {
            self.add_problem(place, "inode", CorruptKind::InUseDeleted);
        }
        if inode.links == 0 && !reserved && !self.is_orphan(nr) {
            self.add_problem(place, "inode bitmap", CorruptKind::DeletedMarked);
        }
        let size_high = raw.get(SIZE_HIGH).unwrap_or_default();
        let has_high = match kind {
            FileType::Regular => true,
            FileType::Directory => self.geometry.features.has(Feature::LARGE_DIR),
            _ => false,
        };
        if !has_high && size_high.iter().any(|byte| *byte != 0) {
            self.add_problem(place, "inode", CorruptKind::SizeHighWrong);
        }
        let fragment = raw.get(FRAGMENT).unwrap_or_default();
        if inode.links != 0 && !is_own && fragment.iter().any(|byte| *byte != 0) {
            self.add_problem(place, "inode", CorruptKind::FragmentAddress);
        }
        if !has_data(kind) && inode.size != 0 {
            self.add_problem(place, "inode", CorruptKind::SizeOfNone);
        }
        if !is_own && self.seems_directory(nr, inode, kind)? {
            self.add_problem(place, "inode", CorruptKind::SeemsDirectory);
            return Ok(Some(kind));
        }
        self.check_inode(nr, inode, kind, reserved)?;
        Ok(Some(kind))
    }

    fn check_inode(&mut self, nr: InodeNr, inode: &Inode, kind: FileType, reserved: bool) -> Step {
        let hidden = self.is_hidden(nr) || inode.flags.contains(InodeFlags::EA_INODE);
        let nameless = if reserved || hidden || inode.links == 0 {
            Nameless::Yes
        } else {
            Nameless::No
        };
        let is_odd = self.odd_flags(nr, inode, kind) != InodeFlags::NONE;
        if is_odd || self.lacks_extents_flag(inode) {
            self.add_problem(DamageLocation::Inode(nr), "inode", CorruptKind::Flag);
        }
        self.put_inode(NewInode {
            nr,
            kind,
            links: inode.links,
            nameless,
        })?;
        if nr == InodeNr::RESIZE && self.geometry.features.has(Feature::RESIZE_INODE) {
            return self.check_resize(nr, inode);
        }
        let orphan_file = self.superblock.orphan_file_inum;
        let attributes = match nr.0 {
            // Never read.
            nr if nr == orphan_file => Added::default(),
            _ if reserved => self.check_attribute_block(nr, inode)?,
            _ => self.check_attributes(nr, inode)?,
        };
        if inode.flags.contains(InodeFlags::EA_INODE) && !reserved {
            self.check_value(nr, inode, kind)?;
        }
        if !reserved {
            self.check_context(nr, inode)?;
        }
        let mapped = self.map_of(nr, inode, kind)?;
        let is_value = inode.flags.contains(InodeFlags::EA_INODE);
        if kind == FileType::Symlink
            && !is_value
            && !mapped.as_ref().is_some_and(|mapped| mapped.is_bad)
        {
            self.check_symlink(nr, inode, mapped.as_ref())?;
        }
        let clusters = mapped.as_ref().map_or(0, |mapped| mapped.clusters) + attributes.clusters;
        self.charge(nr, inode, clusters, attributes.values)?;
        self.compare_sectors(nr, inode, clusters)?;
        let Some(mapped) = mapped else {
            if inode.flags.contains(InodeFlags::INLINE_DATA) {
                self.compare_size(nr, inode, kind, 0);
            }
            return Ok(());
        };
        self.compare_size(nr, inode, kind, mapped.end);
        if !mapped.is_bad {
            self.check_journal_size(nr, inode, mapped.end);
        }
        if mapped.is_bad && kind == FileType::Directory {
            let at = u64::from(nr.0);
            self.take(self.unreadable.more_bytes(&(at..at + 1)))?;
            self.unreadable.put_all(at..at + 1);
        }
        Ok(())
    }

    /// Flags of an inode that require a missing feature, or another file type. On a reserved inode
    /// nothing reads some of them.
    pub(crate) fn odd_flags(&self, nr: InodeNr, inode: &Inode, kind: FileType) -> InodeFlags {
        let is_dir = kind == FileType::Directory;
        let reserved = self.is_reserved(nr);
        let has = |feature| self.geometry.features.has(feature);
        // No program can set these on other types, because it would have to open the file.
        let may_be_kept = is_dir || kind == FileType::Regular;
        let fits = [
            (InodeFlags::CASEFOLD, is_dir && has(Feature::CASEFOLD)),
            (InodeFlags::EA_INODE, has(Feature::EA_INODE) || reserved),
            (InodeFlags::ENCRYPT, has(Feature::ENCRYPT)),
            (InodeFlags::VERITY, has(Feature::VERITY) || reserved),
            (
                InodeFlags::INLINE_DATA,
                has_data(kind) && has(Feature::INLINE_DATA),
            ),
            (InodeFlags::EXTENTS, has_data(kind)),
            (InodeFlags::INDEX, is_dir && has(Feature::DIR_INDEX)),
            (InodeFlags::IMAGIC, has(Feature::IMAGIC_INODES)),
            (InodeFlags::IMMUTABLE, may_be_kept),
            (InodeFlags::APPEND, may_be_kept),
        ];
        let odd = fits.iter().filter(|(_, fits)| !fits);
        let odd = odd.fold(InodeFlags::NONE, |all, (flag, _)| all.union(*flag));
        let odd = InodeFlags(odd.0 & inode.flags.0);
        let both = InodeFlags::INLINE_DATA.union(InodeFlags::EXTENTS);
        if !inode.flags.contains(both) || odd.intersects(both) {
            return odd;
        }
        let other = if has_extent_header(inode) {
            InodeFlags::INLINE_DATA
        } else {
            InodeFlags::EXTENTS
        };
        odd.union(other)
    }

    /// Whether the flag of extents is missing: a map that begins with the root of a tree is none of
    /// tables.
    pub(crate) fn lacks_extents_flag(&self, inode: &Inode) -> bool {
        self.geometry.features.has(Feature::EXTENTS)
            && inode.links != 0
            && !inode.flags.contains(InodeFlags::EXTENTS)
            && matches!(
                inode.file_type(),
                Some(FileType::Regular | FileType::Directory)
            )
            && has_extent_header(inode)
    }

    /// Whether the superblock names the inode.
    fn is_hidden(&self, nr: InodeNr) -> bool {
        let disk = self.superblock;
        let named = [
            (Feature::ORPHAN_FILE, disk.orphan_file_inum),
            (Feature::PROJECT, disk.prj_quota_inum),
            (Feature::QUOTA, disk.usr_quota_inum),
            (Feature::QUOTA, disk.grp_quota_inum),
            (Feature::QUOTA, disk.prj_quota_inum),
        ];
        named
            .iter()
            .any(|(feature, inum)| self.geometry.features.has(*feature) && *inum == nr.0)
    }

    /// Whether an inode without data leads to the first block of a directory with its number. A
    /// device has its number where that is.
    fn seems_directory(&mut self, nr: InodeNr, inode: &Inode, kind: FileType) -> Step<bool> {
        let first = if has_extent_header(inode) {
            let root = ExtentNode::new(&inode.i_block[..]);
            let extents = (root.depth() == 0).then(|| root.extents().next());
            let extent = extents.flatten().filter(|extent| extent.logical.0 == 0);
            extent.map_or(BlockNr(0), |extent| extent.start)
        } else {
            pointer(&inode.i_block, 0)
        };
        let is_device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
        if has_data(kind) || first.0 == 0 || (is_device && inode.links == 1) {
            return Ok(false);
        }
        if !self.may_map(&(first.0..first.0.saturating_add(1))) {
            return Ok(false);
        }
        let bytes = self.read(first)?;
        Ok(begins_directory(&bytes, nr))
    }

    /// Checks the map; `None` if the inode itself holds all data.
    pub(crate) fn map_of(
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
        if fast || !has_data(kind) {
            return Ok(None);
        }
        if inode.flags.contains(InodeFlags::EXTENTS)
            && !self.geometry.features.has(Feature::EXTENTS)
        {
            self.add_problem(
                DamageLocation::Inode(nr),
                "inode",
                CorruptKind::ExtentsWithoutFeature,
            );
        }
        let mapped = self.claim_map(nr, inode)?;
        let has_table = !inode.flags.contains(InodeFlags::EXTENTS) && mapped.clusters > 0;
        if has_table && self.geometry.features.has(Feature::BIGALLOC) {
            let problem = CorruptKind::TableInClusters;
            self.add_problem(DamageLocation::Inode(nr), "inode", problem);
        }
        Ok(Some(mapped))
    }

    pub(crate) fn compare_sectors(&mut self, nr: InodeNr, inode: &Inode, clusters: u64) -> Step {
        let says = inode.sectors(&self.geometry);
        let is = clusters.saturating_mul(self.geometry.cluster_size() / 512);
        if says != is {
            let detail = format!("{says}, not {is}");
            self.add_detailed(
                DamageLocation::Inode(nr),
                "inode",
                CorruptKind::BlocksWrong,
                detail,
            );
            self.derive_sectors(nr, is)?;
        }
        Ok(())
    }

    fn compare_size(&mut self, nr: InodeNr, inode: &Inode, kind: FileType, end: u64) {
        let block_size = self.block_bytes();
        let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
        let odd =
            kind == FileType::Directory && !is_inline && !inode.size.is_multiple_of(block_size);
        // Data behind the end are no damage if a crash interrupted a truncate.
        let orphan = inode.links == 0 || self.is_orphan(nr);
        // A verity file's hash tree is behind its data. One block at the end may have been written
        // before the size, but not that of the orphan file.
        let spare = u64::from(!self.is_orphan_file(nr));
        let is_behind =
            end > inode.size / block_size + spare && !inode.flags.contains(InodeFlags::VERITY);
        let is_huge = inode.size >= self.size_max(inode);
        let is_short = is_inline
            && kind == FileType::Directory
            && self.has_sound_attributes(nr, inode)
            && inode.size != inline_bytes(nr, inode);
        if odd || is_huge || is_short || self.is_huge_quota(nr, inode) || (is_behind && !orphan) {
            let detail = format!("{}, with data in {end} blocks", inode.size);
            self.add_detailed(
                DamageLocation::Inode(nr),
                "inode",
                CorruptKind::SizeWrong,
                detail,
            );
        } else {
            self.mark_large(kind, inode.size);
        }
    }

    fn has_sound_attributes(&self, nr: InodeNr, inode: &Inode) -> bool {
        decode_ibody(&inode.tail, DamageLocation::Inode(nr))
            .is_ok_and(|set| set.get(&XattrName::inline_data()).is_some())
    }

    /// Marks that there is a file that is larger than without the feature of large files.
    pub(crate) fn mark_large(&mut self, kind: FileType, size: u64) {
        self.has_large_files |= kind == FileType::Regular && size >= LARGE_BYTES;
    }

    pub(crate) fn is_orphan_file(&self, nr: InodeNr) -> bool {
        let has_file = self.geometry.features.has(Feature::ORPHAN_FILE);
        has_file && self.superblock.orphan_file_inum == nr.0
    }

    /// Whether a quota file is larger than e2fsck reads.
    fn is_huge_quota(&self, nr: InodeNr, inode: &Inode) -> bool {
        let disk = self.superblock;
        let files = [
            disk.usr_quota_inum,
            disk.grp_quota_inum,
            disk.prj_quota_inum,
        ];
        let is_quota = self.geometry.features.has(Feature::QUOTA) && files.contains(&nr.0);
        is_quota && inode.size > QUOTA_BYTES_MAX
    }

    /// Exclusive upper bound of the size, by the format of the map.
    pub(crate) fn size_max(&self, inode: &Inode) -> u64 {
        let block_size = self.block_bytes();
        if inode.flags.contains(InodeFlags::EXTENTS) {
            return BLOCKS_MAX * block_size;
        }
        let per_table = block_size / 4;
        let tables = per_table + per_table.pow(2) + per_table.pow(3);
        (u64::from(DIRECT_BLOCKS) + tables).min(BLOCKS_MAX) * block_size + 1
    }
}

/// Whether a file of this type has a size, and may have a map.
fn has_data(kind: FileType) -> bool {
    matches!(
        kind,
        FileType::Regular | FileType::Directory | FileType::Symlink
    )
}

/// Whether the map of an inode begins as a tree of extents does.
pub(crate) fn has_extent_header(inode: &Inode) -> bool {
    let root = ExtentNode::new(&inode.i_block[..]);
    let least = root.capacity().saturating_sub(ROOM_SPARED);
    root.magic() == MAGIC
        && root.count() <= root.max()
        && (least..=root.capacity()).contains(&root.max())
}

/// Bytes of inline data: in the map's place, and in the attribute.
pub(crate) fn inline_bytes(nr: InodeNr, inode: &Inode) -> u64 {
    let set = decode_ibody(&inode.tail, DamageLocation::Inode(nr)).unwrap_or_default();
    let value = set.get(&XattrName::inline_data());
    u64_of(I_BLOCK_BYTES) + u64_of(value.map_or(0, XattrValue::len))
}
