//! Check of links: file types, link counts, and the connection of every directory to the root.

use super::paged::Paged;
use crate::{Check, Step};
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeNr};
use uext4_num::{low_u32, u64_of};

/// The inode needs no name: it is found by its number, or is an orphan.
const NAMELESS: u8 = 0x10;
const KIND: u8 = 0x0f;

pub(crate) struct Directory {
    pub(crate) nr: u32,
    /// The directory with its entry; 0 until one is found.
    parent: u32,
    /// Its "..".
    up: u32,
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
    directories: Vec<Directory>,
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

    fn find(&mut self, nr: InodeNr) -> Option<&mut Directory> {
        let at = self
            .directories
            .binary_search_by_key(&nr.0, |found| found.nr);
        self.directories.get_mut(at.ok()?)
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
        let many = self.geometry.features.has(Feature::DIR_NLINK);
        for at in self.links.inodes.numbers() {
            let Inode {
                kind,
                wanted,
                found,
            } = self.links.inodes.get(at);
            if kind == 0 || kind & NAMELESS != 0 || found == wanted {
                continue;
            }
            let place = DamageLocation::Inode(InodeNr(low_u32(at)));
            let is_dir = FileType::from_dirent_code(kind & KIND) == Some(FileType::Directory);
            if found == 0 || (is_dir && found == 1) {
                self.add_problem(place, "inode", CorruptKind::Unnamed);
            } else if !(many && is_dir && wanted == 1) {
                let detail = format!("{wanted}, not {found}");
                self.add_detailed(place, "inode", CorruptKind::LinksWrong, detail);
            }
        }
        self.check_ancestors()
    }

    /// Checks that every directory leads up to the root, and its "..".
    fn check_ancestors(&mut self) -> Step {
        let len = self.links.n_directories();
        self.take(u64_of(len) * u64_of(size_of::<usize>()))?;
        // The start of the walk that visited each directory first.
        let mut met_from = vec![usize::MAX; len];
        for at in 0..len {
            let mut next = Some(at);
            while let Some(here) = next.filter(|&here| met_from[here] == usize::MAX) {
                met_from[here] = at;
                next = self.above(here);
                if next.is_some_and(|next| met_from[next] == at) {
                    let nr = InodeNr(self.links.directories[here].nr);
                    self.add_problem(
                        DamageLocation::Inode(nr),
                        "directory",
                        CorruptKind::InsideItself,
                    );
                    break;
                }
            }
            self.compare_up(at);
        }
        Ok(())
    }

    fn above(&self, at: usize) -> Option<usize> {
        let found = self.links.directories.get(at)?;
        let parent = (found.nr != InodeNr::ROOT.0).then_some(found.parent)?;
        let directories = &self.links.directories;
        let above = directories.binary_search_by_key(&parent, |other| other.nr);
        above.ok()
    }

    fn compare_up(&mut self, at: usize) {
        let Some(found) = self.links.directories.get(at) else {
            return;
        };
        let is_root = found.nr == InodeNr::ROOT.0;
        let parent = if is_root { found.nr } else { found.parent };
        if parent != 0 && found.up != 0 && found.up != parent {
            let detail = format!("{}, not {parent}", found.up);
            let place = DamageLocation::Inode(InodeNr(found.nr));
            self.add_detailed(place, "directory", CorruptKind::DotDotElsewhere, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Subject};
    use std::sync::Arc;
    use uext4_device::MemDevice;
    use uext4_mkfs as mkfs;
    use uext4_mkfs::{MkfsOptions, Preset};
    use uext4_sync::RealClock;
    use uext4_volume::superblock::read_primary;

    /// The findings on directories, given as pairs of a directory and its parent.
    fn said(pairs: impl Iterator<Item = (u32, u32)>) -> Vec<String> {
        let device = Arc::new(MemDevice::new(8 << 20));
        mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("mkfs");
        let superblock = read_primary(&*device, None).expect("a superblock");
        let subject = Subject {
            device,
            geometry: superblock.geometry().expect("a sound superblock"),
            superblock,
            replayed: None,
            journal_device: None,
            clock: Arc::new(RealClock::new()),
        };
        let limits = Limits::default();
        let mut check = Check::new(&subject, &limits);
        check.links = Links::new(1 << 20);
        for (nr, parent) in [(2, 2)].into_iter().chain(pairs) {
            let directories = &mut check.links.directories;
            let up = parent;
            directories.push(Directory { nr, parent, up });
        }
        check.check_ancestors().expect("it may take the memory");
        let findings = check.report.findings.iter();
        findings.map(ToString::to_string).collect()
    }

    #[test]
    fn circles_are_found_once() {
        let pairs = [(11, 12), (12, 13), (13, 11), (14, 12), (15, 2), (16, 15)];
        let found = "inode 13: directory: it is inside itself";
        assert_eq!(said(pairs.into_iter()), [found]);
    }

    /// Each directory is on the path up from the first, so the work per directory must not grow
    /// with the path.
    #[test]
    fn a_very_deep_tree_is_sound() {
        const LAST: u32 = 300_000;
        let pairs = (11..LAST).map(|nr| (nr, nr + 1)).chain([(LAST, 2)]);
        assert_eq!(said(pairs), [""; 0]);
    }
}
