//! Check of names: link counts, and names that are missing.

use super::counts::{Counts, NewInode};
use crate::state::{Check, Step};
use uext4_format::xattr::decode_ibody;
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeFlags, InodeNr, RawInode};

impl Check<'_> {
    pub(crate) fn put_inode(&mut self, new: NewInode) -> Step {
        if let Some(trial) = &mut self.trial {
            if trial.put_inode(new) {
                return Ok(());
            }
            return self.end_trial();
        }
        self.report.n_inodes += 1;
        self.report.n_directories += u64::from(new.kind == FileType::Directory);
        self.take(self.links.more_bytes(&new))?;
        self.links.put(&new);
        Ok(())
    }

    /// Counts an entry of an inode.
    pub(crate) fn count_link(&mut self, nr: InodeNr) -> Step {
        if let Some(trial) = &mut self.trial {
            if trial.count(nr) {
                return Ok(());
            }
            return self.end_trial();
        }
        if let Some(more) = self.links.link_bytes(nr) {
            self.take(more)?;
            self.links.count(nr);
        }
        Ok(())
    }

    /// Records ".." of a directory.
    pub(crate) fn set_up(&mut self, nr: InodeNr, up: InodeNr) {
        match &mut self.trial {
            Some(trial) => trial.ups.push((nr, up)),
            None => self.links.set_up(nr, up),
        }
    }

    /// Records the parent that names a directory; false if it has another one already.
    pub(crate) fn adopt(&mut self, nr: InodeNr, parent: InodeNr) -> bool {
        match &mut self.trial {
            Some(trial) => {
                trial.children.push((nr, parent));
                true
            }
            None => self.links.adopt(nr, parent),
        }
    }

    pub(crate) fn check_links(&mut self) -> Step {
        for nr in self.links.numbers() {
            if self.links.needs_name(nr) {
                self.compare_links(nr)?;
            }
        }
        self.check_ancestors()
    }

    fn compare_links(&mut self, nr: InodeNr) -> Step {
        let Counts { wanted, found } = self.links.counts(nr);
        let place = DamageLocation::Inode(nr);
        if self.links.lacks_all_names(nr) {
            let problem = self.problem_without_name(nr)?;
            self.add_problem(place, "inode", problem);
            return Ok(());
        }
        if found != wanted && !(wanted == 1 && self.may_have_many(nr)?) {
            let detail = format!("{wanted}, not {found}");
            self.add_detailed(place, "inode", CorruptKind::LinksWrong, detail);
        }
        Ok(())
    }

    /// Whether one link may mean many: in a directory with an index, which has or had more than
    /// 65,000.
    fn may_have_many(&mut self, nr: InodeNr) -> Step<bool> {
        if !self.links.is_directory(nr) || !self.geometry.features.has(Feature::DIR_NLINK) {
            return Ok(false);
        }
        let bytes = self.read_inode(nr)?.unwrap_or_default();
        Ok(RawInode(&bytes).flags().contains(InodeFlags::INDEX))
    }

    /// Whether the inode without a name is worth one.
    fn problem_without_name(&mut self, nr: InodeNr) -> Step<CorruptKind> {
        let bytes = self.read_inode(nr)?.unwrap_or_default();
        let (geometry, checksums) = (&self.geometry, &self.checksums);
        let inode = uext4_format::Inode::parse(&bytes, nr, geometry, checksums);
        let is_empty = inode.is_ok_and(|inode| {
            let attributes = decode_ibody(&inode.tail, DamageLocation::Inode(nr));
            inode.file_type() == Some(FileType::Regular)
                && (inode.size, inode.blocks_raw, inode.file_acl.0) == (0, 0, 0)
                && attributes.is_ok_and(|set| set.is_empty())
        });
        Ok(if is_empty {
            CorruptKind::UnnamedEmpty
        } else {
            CorruptKind::Unnamed
        })
    }
}
