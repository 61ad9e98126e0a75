//! Check of the leaves of directories: their entries, and the inodes that these name.

use super::index::Htree;
use super::names::{BYTES_PER_NAME, Reach};
use super::opened::Dir;
use crate::state::{Check, Step};
use uext4_format::dirent::{BlockKind, DirEntry, DirLeaf, LeafTail, RecordHeader};
use uext4_format::{CorruptKind, DamageLocation, FileType};

/// Bytes of the record of ".".
const DOT_BYTES: usize = 12;

impl Check<'_> {
    pub(crate) fn check_leaf(
        &mut self,
        dir: &Dir,
        bytes: &[u8],
        (logical, place): (u64, DamageLocation),
        index: Option<&Htree>,
    ) -> Step {
        let is_root = logical == 0 && BlockKind::of(bytes) == BlockKind::Root;
        let tail = if is_root { LeafTail::None } else { dir.tail };
        let leaf = DirLeaf::new(bytes, tail, place);
        let bounds = index.map(|index| index.bounds(logical));
        self.names.begin_leaf();
        if index.is_some() {
            // The inodes of a large directory are anywhere: their types arrive together.
            for entry in leaf.records().flatten() {
                self.links.prefetch(entry.inode);
            }
        }
        let mut n_records = 0;
        for (at, record) in leaf.records().enumerate() {
            n_records = at + 1;
            let entry = match record {
                Ok(entry) => entry,
                Err(corrupt) => {
                    self.add_corrupt(&corrupt);
                    break;
                }
            };
            if logical == 0 && at < 2 {
                self.check_dot(dir, &entry, at, place)?;
                self.check_end_of_dot(bytes, &entry, place);
            } else if !entry.is_free() {
                let mut reach = Reach::Directory;
                if let Some(bounds) = &bounds {
                    match bounds.reach(entry.name) {
                        Some(found) => reach = found,
                        None => {
                            let name = shown(entry.name);
                            let problem = CorruptKind::LookedElsewhere;
                            self.add_detailed(place, "directory entry", problem, name);
                        }
                    }
                }
                self.check_entry(dir, &entry, place, reach)?;
            }
        }
        if logical == 0 && n_records == 1 {
            self.add_problem(place, "directory", CorruptKind::DotsElsewhere);
        }
        Ok(())
    }

    /// Checks the first two entries of a directory.
    fn check_dot(
        &mut self,
        dir: &Dir,
        entry: &DirEntry<'_>,
        at: usize,
        place: DamageLocation,
    ) -> Step {
        let name: &[u8] = if at == 0 { b"." } else { b".." };
        // A large first record hides the second.
        let is_other = at == 0 && (entry.inode != dir.nr || entry.rec_len > DOT_BYTES);
        if entry.name != name || entry.is_free() || is_other {
            self.add_problem(place, "directory", CorruptKind::DotsElsewhere);
            return Ok(());
        }
        if let Some(problem) = self.problem_of_type(entry, FileType::Directory) {
            self.add_detailed(place, "directory entry", problem, shown(name));
        }
        self.count_link(entry.inode)?;
        if at == 1 {
            self.set_up(dir.nr, entry.inode);
        }
        Ok(())
    }

    /// Checks the byte behind the name, which e2fsck wants to be zero.
    fn check_end_of_dot(&mut self, bytes: &[u8], entry: &DirEntry<'_>, place: DamageLocation) {
        let is_dot = !entry.is_free() && matches!(entry.name, b"." | b"..");
        if is_dot && bytes.get(end_of_name(entry)).is_some_and(|byte| *byte != 0) {
            let problem = CorruptKind::DotsUnended;
            self.add_problem(place, "directory", problem);
        }
    }

    /// Adds a name; false if it is there already.
    fn add_name(&mut self, name: &[u8], reach: Reach) -> Step<bool> {
        let hash = self.names.hash(name);
        match reach {
            Reach::Leaf => Ok(self.names.put_in_leaf(hash)),
            Reach::Directory => self.put_name(hash),
        }
    }

    /// As [`Self::add_name`], of the hash of a name that is compared beyond its leaf.
    pub(crate) fn put_name(&mut self, hash: u64) -> Step<bool> {
        let is_new = self.names.put(hash);
        self.take(u64::from(is_new) * BYTES_PER_NAME)?;
        Ok(is_new)
    }

    /// Ends a directory.
    pub(crate) fn forget_names(&mut self) {
        let bytes = self.names.clear();
        self.give_back(bytes);
    }

    pub(crate) fn check_entry(
        &mut self,
        dir: &Dir,
        entry: &DirEntry<'_>,
        place: DamageLocation,
        reach: Reach,
    ) -> Step {
        if let Some(problem) = self.problem_of(dir.rules, entry) {
            self.add_detailed(place, "directory entry", problem, shown(entry.name));
            return Ok(());
        }
        if !self.add_name(entry.name, reach)? {
            let problem = CorruptKind::NameTwice;
            self.add_detailed(place, "directory entry", problem, shown(entry.name));
        }
        self.count_link(entry.inode)?;
        let is_dir = self.links.kind(entry.inode) == Some(FileType::Directory);
        if is_dir && !self.adopt(entry.inode, dir.nr) {
            let problem = CorruptKind::DirectoryTwice;
            self.add_detailed(place, "directory entry", problem, shown(entry.name));
        }
        Ok(())
    }
}

/// Offset of the byte behind a name.
pub(crate) fn end_of_name(entry: &DirEntry<'_>) -> usize {
    entry.offset + RecordHeader::BYTES + entry.name.len()
}

/// A name in printable form.
fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
