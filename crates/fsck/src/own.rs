//! Check of inodes that the superblock names: the root, the orphan file, a journal and quota files
//! with ordinary numbers. Each has to be an inode in use of the right type, or an allocation would
//! take it for another file. A quota file that is another file. Features that files require.

use super::slots::written_inodes;
use crate::opened::Dir;
use crate::quota_files::is_file;
use crate::state::{Check, Step};
use uext4_format::dirent::DirEntries;
use uext4_format::inline_data;
use uext4_format::quota::{QuotaInfo, QuotaKind};
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody};
use uext4_format::{
    Checksums, CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr,
};
use uext4_num::{u64_of, usize_of};

impl Check<'_> {
    /// Behind the pass over all inodes. An inode that has a finding gets no second one.
    pub(crate) fn check_own_inodes(&mut self) -> Step {
        self.check_own(InodeNr::ROOT, FileType::Directory, "root directory");
        if self.hidden.contains(InodeNr::ROOT) {
            let problem = CorruptKind::SpecialNamed;
            self.add_problem(
                DamageLocation::Inode(InodeNr::ROOT),
                "root directory",
                problem,
            );
        }
        let disk = self.superblock;
        for (feature, nr, structure) in [
            (Feature::ORPHAN_FILE, disk.orphan_file_inum, "orphan file"),
            (Feature::HAS_JOURNAL, disk.journal_inum, "journal inode"),
            (Feature::QUOTA, disk.prj_quota_inum, "quota file"),
        ] {
            let is_there = self.geometry.features.has(feature) && nr >= self.geometry.first_inode;
            if is_there {
                self.check_own(InodeNr(nr), FileType::Regular, structure);
            }
        }
        self.check_projects_file()?;
        self.check_unused_numbers();
        if self.has_large_files && !self.geometry.features.has(Feature::LARGE_FILE) {
            let problem = CorruptKind::LargeWithoutFeature;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        Ok(())
    }

    /// The file of projects has an ordinary number. A file that has a name and no content of a
    /// quota file is another one, which a repair must not overwrite.
    fn check_projects_file(&mut self) -> Step {
        let nr = InodeNr(self.superblock.prj_quota_inum);
        let has_quota = self.geometry.features.has(Feature::QUOTA);
        if has_quota
            && nr.0 >= self.geometry.first_inode
            && self.lacks_quota(nr)?
            && self.has_name(nr)?
        {
            let problem = CorruptKind::SpecialNamed;
            self.add_problem(DamageLocation::Inode(nr), "quota file", problem);
        }
        Ok(())
    }

    /// Whether an inode is a regular file with content, which is not that of a quota file.
    fn lacks_quota(&mut self, nr: InodeNr) -> Step<bool> {
        let bytes = self.read_inode(nr)?.unwrap_or_default();
        let inode = Inode::parse(&bytes, nr, &self.geometry, &Checksums::NONE);
        let Some(inode) = inode.ok().filter(is_file).filter(|inode| inode.size > 0) else {
            return Ok(false);
        };
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            return Ok(true);
        }
        let blocks = self.blocks_of(nr, &inode)?;
        self.give_back(u64_of(blocks.len()) * 16);
        let Some((0, first)) = blocks.first() else {
            return Ok(true);
        };
        let bytes = self.read(*first)?;
        Ok(QuotaInfo::decode(&bytes, QuotaKind::Project).is_err())
    }

    /// Whether an entry of any directory leads to an inode.
    fn has_name(&mut self, nr: InodeNr) -> Step<bool> {
        let all = self.links.directories.iter().map(|found| InodeNr(found.nr));
        let all: Vec<_> = all.collect();
        let bytes = u64_of(all.len() * size_of::<InodeNr>());
        self.take(bytes)?;
        let mut is_found = false;
        for dir in all {
            is_found = is_found
                || match self.open_directory(dir)? {
                    Some((dir, inode)) => self.names(&dir, &inode, nr)?,
                    None => false,
                };
        }
        self.give_back(bytes);
        Ok(is_found)
    }

    fn names(&mut self, dir: &Dir, inode: &Inode, nr: InodeNr) -> Step<bool> {
        let place = DamageLocation::Inode(dir.nr);
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let set = decode_ibody(&inode.tail, place).unwrap_or_default();
            let value = match set.get(&XattrName::inline_data()) {
                Some(XattrValue::Here(value)) => value.as_slice(),
                _ => &[],
            };
            let mut records = inline_data::records(&inode.i_block, value, place).flatten();
            return Ok(records.any(|entry| entry.inode == nr));
        }
        let blocks = self.blocks_of(dir.nr, inode)?;
        let mut is_found = false;
        for (_, block) in &blocks {
            let bytes = self.read(*block)?;
            let mut records = DirEntries::new(&bytes, 0, bytes.len(), place).flatten();
            is_found |= records.any(|entry| entry.inode == nr);
        }
        self.give_back(u64_of(blocks.len()) * 16);
        Ok(is_found)
    }

    /// Without the feature, the numbers of quota files must not be those of other files, nor that
    /// of an orphan file: no name may lead to them. e2fsck takes the inode of projects for used in
    /// any case.
    fn check_unused_numbers(&mut self) {
        let disk = self.superblock;
        let first = self.geometry.first_inode;
        let is_ordinary = |nr: u32| nr >= first;
        let users = [disk.usr_quota_inum, disk.grp_quota_inum];
        let mut users = users.iter().filter(|nr| is_ordinary(**nr));
        let projects = disk.prj_quota_inum;
        let is_wrong = users.any(|nr| self.links.wanted(InodeNr(*nr)) > 0)
            || (is_ordinary(projects) && self.is_in_written_table(InodeNr(projects)));
        if is_wrong && !self.geometry.features.has(Feature::QUOTA) {
            let problem = CorruptKind::QuotaNumber;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        let has_orphan_file = self.geometry.features.has(Feature::ORPHAN_FILE);
        let orphans = InodeNr(disk.orphan_file_inum);
        if !has_orphan_file && is_ordinary(orphans.0) && self.links.wanted(orphans) > 0 {
            let problem = CorruptKind::NumberRange;
            self.add_problem(DamageLocation::Superblock, "orphan file", problem);
        }
    }

    fn is_in_written_table(&self, nr: InodeNr) -> bool {
        let Some((group, index)) = self.geometry.split_inode(nr) else {
            return false;
        };
        let descriptor = self.descriptors.get(usize_of(group.0));
        let descriptor = descriptor.and_then(Option::as_ref);
        descriptor.is_some_and(|found| index < written_inodes(found, &self.geometry))
    }

    fn check_own(&mut self, nr: InodeNr, kind: FileType, structure: &'static str) {
        let problem = match self.links.kind(nr) {
            Some(found) if found != kind && kind == FileType::Directory => CorruptKind::NoDirectory,
            Some(found) if found != kind => CorruptKind::NoRegularFile,
            Some(_) if self.links.wanted(nr) > 0 => return,
            _ => CorruptKind::InodeFree,
        };
        let place = DamageLocation::Inode(nr);
        let mut findings = self.report.findings.iter();
        let is_met = findings.any(|finding| finding.corrupt.place == place);
        if !is_met && self.inode_byte(nr).is_some() {
            self.add_problem(place, structure, problem);
        }
    }
}
