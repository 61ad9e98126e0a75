//! Types of the inodes in use, their links, and the places of directories.

use super::counts::{AllCounts, Counts, Nameless, NewInode};
use super::paged::Paged;
use uext4_device::Scratch;
use uext4_format::{FileType, InodeNr};
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

    /// The same types once they are complete, for another check that counts nothing. Before, they
    /// are not shared: each change would copy them.
    pub(crate) fn of_kinds(&self) -> Self {
        if !self.are_complete {
            return Self::default();
        }
        Self {
            are_complete: true,
            kinds: Arc::clone(&self.kinds),
            ..Self::default()
        }
    }

    /// Memory before the first inode, in bytes.
    pub(crate) fn empty_bytes(inodes: u64) -> u64 {
        Paged::<u8>::empty_bytes(inodes + 1) + AllCounts::empty_bytes(inodes + 1)
    }

    /// Memory that [`Self::put`] takes, in bytes.
    pub(crate) fn more_bytes(&self, new: &NewInode) -> u64 {
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
        kinds.set(new.nr.0.into(), new.kind.dirent_code() | mark);
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
    pub(crate) fn make_room(&mut self, scratch: Option<&Arc<Scratch>>) -> u64 {
        let counts = self.counts.make_room(scratch);
        if self.are_complete {
            return counts;
        }
        counts + Arc::make_mut(&mut self.kinds).make_room(scratch)
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

    /// All numbers of which an inode may be in use, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = InodeNr> + use<> {
        self.kinds.places().map(|at| InodeNr(low_u32(at)))
    }

    /// Whether an inode is in use, and must have a name.
    pub(crate) fn needs_name(&self, nr: InodeNr) -> bool {
        let kind = self.kinds.get(nr.0.into());
        kind != 0 && kind & NAMELESS == 0
    }

    pub(crate) fn counts(&self, nr: InodeNr) -> Counts {
        self.counts.get(nr.0)
    }

    /// The links that an inode says it has; 0 if it is free.
    pub(crate) fn wanted(&self, nr: InodeNr) -> u16 {
        self.counts.get(nr.0).wanted
    }

    /// Whether an inode in use must have no name.
    pub(crate) fn is_nameless(&self, nr: InodeNr) -> bool {
        self.kinds.get(nr.0.into()) & NAMELESS != 0
    }

    /// Memory that [`Self::count`] takes, in bytes; `None` if the inode is not in use.
    pub(crate) fn link_bytes(&self, nr: InodeNr) -> Option<u64> {
        let is_used = self.kinds.get(nr.0.into()) != 0;
        is_used.then(|| self.counts.link_bytes(nr.0))
    }

    /// Counts an entry of an inode in use.
    pub(crate) fn count(&mut self, nr: InodeNr) {
        self.counts.count(nr.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_shared_when_they_are_complete() {
        let mut links = Links::new(100);
        let new = |nr| NewInode {
            nr: InodeNr(nr),
            kind: FileType::Regular,
            links: 1,
            nameless: Nameless::No,
        };
        links.put(&new(12));
        let early = links.of_kinds();
        let kinds = Arc::as_ptr(&links.kinds);
        links.put(&new(13));
        assert_eq!(Arc::as_ptr(&links.kinds), kinds, "they were not copied");
        assert_eq!(early.kind(InodeNr(12)), None);
        links.are_complete = true;
        assert!(links.of_kinds().kind(InodeNr(13)).is_some());
    }
}
