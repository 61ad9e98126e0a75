//! Check of links: file types, link counts, and names that are missing.

use super::paged::Paged;
use crate::state::{Check, Step};
use uext4_format::xattr::decode_ibody;
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeFlags, InodeNr, RawInode};
use uext4_num::low_u32;

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

/// Links of an inode.
#[derive(Clone, Copy, Default)]
struct Inode {
    /// Type code, and [`NAMELESS`]; 0 when the inode is free.
    kind: u8,
    wanted: u16,
    found: u16,
}

/// Type and links of each inode.
#[derive(Default)]
pub(crate) struct Links {
    inodes: Paged<Inode>,
    /// In ascending order.
    pub(crate) directories: Vec<Directory>,
}

impl Links {
    /// Memory for each directory in bytes, in addition.
    pub(crate) const BYTES_PER_DIRECTORY: u64 = 12;

    pub(crate) fn new(inodes: u64) -> Self {
        Self {
            inodes: Paged::new(inodes + 1),
            directories: Vec::new(),
        }
    }

    /// Memory before the first inode, in bytes.
    pub(crate) fn empty_bytes(inodes: u64) -> u64 {
        Paged::<Inode>::empty_bytes(inodes + 1)
    }

    /// Memory that [`Self::put`] takes, in bytes.
    pub(crate) fn more_bytes(&self, nr: InodeNr) -> u64 {
        let at = u64::from(nr.0);
        self.inodes.more_bytes(at..at + 1)
    }

    /// Records an inode in use.
    pub(crate) fn put(&mut self, nr: InodeNr, kind: FileType, links: u16, nameless: Nameless) {
        let mark = match nameless {
            Nameless::Yes => NAMELESS,
            Nameless::No => 0,
        };
        if let Some(inode) = self.inodes.get_mut(nr.0.into()) {
            (inode.kind, inode.wanted) = (kind.dirent_code() | mark, links);
        }
        if kind == FileType::Directory {
            self.directories.push(Directory {
                nr: nr.0,
                parent: 0,
                up: 0,
            });
        }
    }

    /// Type of an inode in use.
    pub(crate) fn kind(&self, nr: InodeNr) -> Option<FileType> {
        FileType::from_dirent_code(self.inodes.get(nr.0.into()).kind & KIND)
    }

    pub(crate) fn is_directory(&self, nr: InodeNr) -> bool {
        self.kind(nr) == Some(FileType::Directory)
    }

    /// The links that an inode says it has; 0 if it is free.
    pub(crate) fn wanted(&self, nr: InodeNr) -> u16 {
        self.inodes.get(nr.0.into()).wanted
    }

    /// Whether an inode in use must have no name.
    pub(crate) fn is_nameless(&self, nr: InodeNr) -> bool {
        self.inodes.get(nr.0.into()).kind & NAMELESS != 0
    }

    /// Counts an entry of an inode, if that is in use.
    pub(crate) fn count(&mut self, nr: InodeNr) {
        if self.inodes.get(nr.0.into()).kind == 0 {
            return;
        }
        if let Some(inode) = self.inodes.get_mut(nr.0.into()) {
            inode.found = inode.found.saturating_add(1);
        }
    }

    pub(crate) fn n_directories(&self) -> usize {
        self.directories.len()
    }

    pub(crate) fn directory(&self, at: usize) -> Option<InodeNr> {
        self.directories.get(at).map(|found| InodeNr(found.nr))
    }

    /// Number of entries that name an inode.
    pub(crate) fn n_names(&self, nr: InodeNr) -> u16 {
        self.inodes.get(nr.0.into()).found
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
}

/// Whether an inode must have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nameless {
    Yes,
    No,
}

impl Check<'_> {
    pub(crate) fn check_links(&mut self) -> Step {
        for at in self.links.inodes.numbers() {
            let inode = self.links.inodes.get(at);
            if inode.kind != 0 && inode.kind & NAMELESS == 0 {
                self.compare_links(InodeNr(low_u32(at)), inode)?;
            }
        }
        self.check_ancestors()
    }

    fn compare_links(&mut self, nr: InodeNr, inode: Inode) -> Step {
        let Inode { wanted, found, .. } = inode;
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
