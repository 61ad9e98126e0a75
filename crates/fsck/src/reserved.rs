//! Check of reserved inodes that are no files in use: like e2fsck, each may hold only the content
//! of its purpose.
//!
//! References: kernel documentation, "Special inodes"; `e2fsck` checks the same.

use crate::state::{Check, Step};
use uext4_format::extent::MAGIC;
use uext4_format::indirect::pointer;
use uext4_format::{
    CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr, RawInode,
};
use uext4_num::{low_u32, nonnegative};

impl Check<'_> {
    /// Reports a journal that does not map all of its size; `mapped_end` is in blocks. e2fsck takes
    /// it for none, except that it uses the superblock's copy of an inode with tables. It compares
    /// the lower 32 bits of the size, as a signed number.
    pub(crate) fn check_journal_size(&mut self, nr: InodeNr, inode: &Inode, mapped_end: u64) {
        let is_journal = self.geometry.features.has(Feature::HAS_JOURNAL)
            && nr.0 == self.superblock.journal_inum
            && inode.flags.contains(InodeFlags::EXTENTS);
        let bytes = nonnegative(low_u32(inode.size).cast_signed().into());
        let mapped = mapped_end.saturating_mul(self.block_bytes());
        if is_journal && bytes > mapped {
            let detail = format!("{bytes} bytes, {mapped} mapped");
            let (place, problem) = (DamageLocation::Inode(nr), CorruptKind::JournalShort);
            self.add_detailed(place, "journal inode", problem, detail);
        }
    }

    /// Whether the inode is reserved and not a file in use.
    pub(crate) fn is_set_aside(&self, nr: InodeNr, raw: &[u8]) -> bool {
        let disk = self.superblock;
        let has = |feature| self.geometry.features.has(feature);
        let is_used = match nr {
            InodeNr::USER_QUOTA => has(Feature::QUOTA) && disk.usr_quota_inum == nr.0,
            InodeNr::GROUP_QUOTA => has(Feature::QUOTA) && disk.grp_quota_inum == nr.0,
            InodeNr::JOURNAL => has(Feature::HAS_JOURNAL) && disk.journal_inum == nr.0,
            InodeNr::RESIZE => has(Feature::RESIZE_INODE) && RawInode(raw).mode() != 0,
            _ => false,
        };
        self.is_reserved(nr) && !is_used
    }

    pub(crate) fn check_reserved(&mut self, nr: InodeNr, raw: &[u8]) -> Step {
        if !self.is_sealed(nr, raw) {
            return Ok(());
        }
        let flags = RawInode(raw).flags();
        if flags.contains(InodeFlags::CASEFOLD) {
            self.add_problem(DamageLocation::Inode(nr), "inode", CorruptKind::Flag);
        }
        match nr {
            InodeNr::BAD_BLOCKS => self.check_bad_blocks(nr, raw, flags),
            InodeNr::USER_QUOTA | InodeNr::GROUP_QUOTA | InodeNr::JOURNAL => {
                let fields = RawInode(raw);
                let first = pointer(&fields.i_block(), 0).0;
                if fields.links() != 0 || fields.blocks_low() != 0 || first != 0 {
                    let problem = CorruptKind::UnusedHolds;
                    self.add_problem(DamageLocation::Inode(nr), "reserved inode", problem);
                }
                Ok(())
            }
            _ => self.check_spare(nr, raw, flags),
        }
    }

    fn check_bad_blocks(&mut self, nr: InodeNr, raw: &[u8], flags: InodeFlags) -> Step {
        if flags.contains(InodeFlags::EXTENTS) && !self.geometry.features.has(Feature::EXTENTS) {
            self.add_problem(
                DamageLocation::Inode(nr),
                "inode",
                CorruptKind::ExtentsWithoutFeature,
            );
        }
        let fields = RawInode(raw);
        let owner = fields.uid_low() | fields.gid_low();
        let odd = owner | fields.mode() | fields.links() != 0;
        if odd || fields.file_acl_low() != 0 || flags.contains(InodeFlags::INLINE_DATA) {
            let problem = CorruptKind::BlockListDeep;
            self.add_problem(DamageLocation::Inode(nr), "reserved inode", problem);
        }
        let has_map = fields.i_block().iter().any(|byte| *byte != 0);
        match self.parse_spare(nr, raw) {
            Some(inode) if has_map => self.claim_map(nr, &inode).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Checks the attribute block of a reserved inode; returns its clusters. Neither the kernel nor
    /// e2fsck follows a block outside of the file system.
    pub(crate) fn check_spare_attributes(&mut self, nr: InodeNr, inode: &Inode) -> Step<u64> {
        if self.geometry.contains(inode.file_acl) {
            Ok(self.check_attribute_block(nr, inode)?.clusters)
        } else {
            Ok(0)
        }
    }

    /// Checks unused reserved inodes, the boot loader's, and the resize inode.
    fn check_spare(&mut self, nr: InodeNr, raw: &[u8], flags: InodeFlags) -> Step {
        let Some(inode) = self.parse_spare(nr, raw) else {
            let fields = RawInode(raw);
            let word = pointer(&fields.i_block(), 0).0;
            let is_wrong = match nr {
                InodeNr::RESIZE => false,
                InodeNr::BOOT_LOADER => {
                    flags.contains(InodeFlags::EXTENTS) && word & 0xFFFF != u64::from(MAGIC)
                }
                _ => fields.mode() != 0,
            };
            if is_wrong {
                let problem = CorruptKind::ReservedType;
                self.add_problem(DamageLocation::Inode(nr), "reserved inode", problem);
            }
            return Ok(());
        };
        if nr == InodeNr::RESIZE && self.geometry.features.has(Feature::RESIZE_INODE) {
            return self.check_resize(nr, &inode);
        }
        let place = DamageLocation::Inode(nr);
        let is_directory = inode.file_type() == Some(FileType::Directory);
        let has_wrong_mode = match nr {
            InodeNr::BOOT_LOADER => is_directory,
            _ => inode.mode != 0,
        };
        if has_wrong_mode {
            self.add_problem(place, "reserved inode", CorruptKind::ReservedType);
        }
        if flags.contains(InodeFlags::INDEX) && !is_directory {
            self.add_problem(place, "inode", CorruptKind::Flag);
        }
        if nr == InodeNr::RESIZE && inode.i_block.iter().any(|byte| *byte != 0) {
            self.add_problem(place, "resize inode", CorruptKind::MapsWithoutFeature);
        }
        if RawInode(raw).size() >= self.size_max(&inode) {
            self.add_problem(place, "inode", CorruptKind::SizeWrong);
        }
        let attributes = self.check_spare_attributes(nr, &inode)?;
        let mapped = match inode.file_type() {
            Some(FileType::Regular) => self.map_of(nr, &inode, FileType::Regular)?,
            _ => None,
        };
        let mapped = mapped.map_or(0, |mapped| mapped.clusters);
        self.compare_sectors(nr, &inode, mapped + attributes)
    }

    /// Fields behind the first 128 bytes are unused here, so their size may be anything; the kernel
    /// opens only the resize inode.
    fn parse_spare(&mut self, nr: InodeNr, raw: &[u8]) -> Option<Inode> {
        match Inode::parse(raw, nr, &self.geometry, &self.checksums) {
            Ok(inode) => Some(inode),
            Err(_) if !RawInode(raw).has_sound_extra_size() && nr != InodeNr::RESIZE => None,
            Err(corrupt) => {
                self.add_corrupt(&corrupt);
                None
            }
        }
    }
}
