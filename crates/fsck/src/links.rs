//! Check of links: file types, link counts, and names that are missing.

use super::counts::{AllCounts, Counts, Nameless, NewInode};
use super::paged::Paged;
use crate::state::{Check, Step};
use std::path::Path;
use uext4_format::xattr::decode_ibody;
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeFlags, InodeNr, RawInode};
use uext4_num::low_u32;
use uext4_sync::Arc;

/// The inode needs no name: it is found by its number, or is an orphan.
const NAMELESS: u8 = 0x10;
const KIND: u8 = 0x0f;

pub(crate) struct Directory {
    pub(crate) nr: u32,
    /// The directory with its entry; 0 until one is found.
    pub(crate) parent: u32,
    /// Its ".."; 0 until it is found.
    pub(crate) up: u32,
}

/// Type and links of each inode.
#[derive(Default)]
pub(crate) struct Links {
    /// Type code, and [`NAMELESS`]; 0 when the inode is free. Not changed after the pass over the
    /// inodes.
    kinds: Arc<Paged<u8>>,
    /// Whether the pass over the inodes is done.
    pub(crate) are_complete: bool,
    counts: AllCounts,
    /// In ascending order.
    pub(crate) directories: Vec<Directory>,
}

impl Links {
    /// Memory for each directory in bytes, in addition; a list that grows has twice its length.
    pub(crate) const BYTES_PER_DIRECTORY: u64 = 24;

    pub(crate) fn new(inodes: u64) -> Self {
        Self {
            kinds: Arc::new(Paged::new(inodes + 1)),
            are_complete: false,
            counts: AllCounts::new(inodes + 1),
            directories: Vec::new(),
        }
    }

    /// The same types, for another check that counts nothing.
    pub(crate) fn of_kinds(&self) -> Self {
        Self {
            kinds: Arc::clone(&self.kinds),
            ..Self::default()
        }
    }

    /// Memory before the first inode, in bytes.
    pub(crate) fn empty_bytes(inodes: u64) -> u64 {
        Paged::<u8>::empty_bytes(inodes + 1) + AllCounts::empty_bytes(inodes + 1)
    }

    /// Memory that [`Self::put`] takes, in bytes.
    fn more_bytes(&self, new: &NewInode) -> u64 {
        let at = u64::from(new.nr.0);
        let is_directory = new.kind == FileType::Directory;
        self.kinds.more_bytes(at..at + 1)
            + self.counts.more_bytes(new.nr.0, new.links)
            + u64::from(is_directory) * Self::BYTES_PER_DIRECTORY
    }

    /// Records an inode in use.
    pub(crate) fn put(&mut self, new: &NewInode) {
        let mark = match new.nameless {
            Nameless::Yes => NAMELESS,
            Nameless::No => 0,
        };
        let kinds = Arc::make_mut(&mut self.kinds);
        if let Some(kind) = kinds.get_mut(new.nr.0.into()) {
            *kind = new.kind.dirent_code() | mark;
        }
        let counts = Counts {
            wanted: new.links,
            found: 0,
        };
        self.counts.set(new.nr.0, counts);
        if new.kind == FileType::Directory {
            self.directories.push(Directory {
                nr: new.nr.0,
                parent: 0,
                up: 0,
            });
        }
    }

    /// Gives memory back, as [`Paged::make_room`]. Types are shared with threads once they are
    /// complete, and stay where they are.
    pub(crate) fn make_room(&mut self, dir: Option<&Path>) -> u64 {
        let counts = self.counts.make_room(dir);
        if self.are_complete {
            return counts;
        }
        counts + Arc::make_mut(&mut self.kinds).make_room(dir)
    }

    /// Hints that an inode is named next.
    pub(crate) fn prefetch(&self, nr: InodeNr) {
        self.kinds.prefetch(nr.0.into());
        self.counts.prefetch(nr.0);
    }

    /// Type of an inode in use.
    pub(crate) fn kind(&self, nr: InodeNr) -> Option<FileType> {
        FileType::from_dirent_code(self.kinds.get(nr.0.into()) & KIND)
    }

    pub(crate) fn is_directory(&self, nr: InodeNr) -> bool {
        self.kind(nr) == Some(FileType::Directory)
    }

    /// The links that an inode says it has; 0 if it is free.
    pub(crate) fn wanted(&self, nr: InodeNr) -> u16 {
        self.counts.get(nr.0).wanted
    }

    /// Whether an inode in use must have no name.
    pub(crate) fn is_nameless(&self, nr: InodeNr) -> bool {
        self.kinds.get(nr.0.into()) & NAMELESS != 0
    }

    /// Counts an entry of an inode, if that is in use; returns how much memory that took.
    pub(crate) fn count(&mut self, nr: InodeNr) -> u64 {
        if self.kinds.get(nr.0.into()) == 0 {
            return 0;
        }
        self.counts.count(nr.0)
    }

    pub(crate) fn n_directories(&self) -> usize {
        self.directories.len()
    }

    /// Number of entries that name an inode.
    pub(crate) fn n_names(&self, nr: InodeNr) -> u16 {
        self.counts.get(nr.0).found
    }

    /// Whether no entry names an inode in use. The root needs none.
    pub(crate) fn lacks_all_names(&self, nr: InodeNr) -> bool {
        if self.is_directory(nr) {
            nr != InodeNr::ROOT && self.parent(nr).is_none()
        } else {
            self.n_names(nr) == 0
        }
    }

    /// The directory that names this one.
    pub(crate) fn parent(&self, nr: InodeNr) -> Option<InodeNr> {
        let found = self.directories.get(self.position(nr)?)?;
        (found.parent != 0).then_some(InodeNr(found.parent))
    }

    /// Where ".." of a directory leads.
    pub(crate) fn up(&self, nr: InodeNr) -> Option<InodeNr> {
        let found = self.directories.get(self.position(nr)?)?;
        (found.up != 0).then_some(InodeNr(found.up))
    }

    pub(crate) fn position(&self, nr: InodeNr) -> Option<usize> {
        let all = &self.directories;
        all.binary_search_by_key(&nr.0, |found| found.nr).ok()
    }

    fn find(&mut self, nr: InodeNr) -> Option<&mut Directory> {
        let at = self.position(nr)?;
        self.directories.get_mut(at)
    }

    /// Records ".." of a directory.
    pub(crate) fn set_up(&mut self, nr: InodeNr, up: InodeNr) {
        if let Some(found) = self.find(nr) {
            found.up = up.0;
        }
    }

    /// Records the parent that names a directory; false if it has another one already.
    pub(crate) fn adopt(&mut self, nr: InodeNr, parent: InodeNr) -> bool {
        match self.find(nr) {
            Some(found) if found.parent != 0 => false,
            Some(found) => {
                found.parent = parent.0;
                true
            }
            None => true,
        }
    }

    /// Forgets that a parent names a directory.
    pub(crate) fn abandon(&mut self, nr: InodeNr) {
        if let Some(found) = self.find(nr) {
            found.parent = 0;
        }
    }
}

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
        let more = self.links.count(nr);
        self.take(more)
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
        for at in self.links.kinds.places() {
            let kind = self.links.kinds.get(at);
            if kind != 0 && kind & NAMELESS == 0 {
                self.compare_links(InodeNr(low_u32(at)))?;
            }
        }
        self.check_ancestors()
    }

    fn compare_links(&mut self, nr: InodeNr) -> Step {
        let Counts { wanted, found } = self.links.counts.get(nr.0);
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
