//! "." and "..", at the start of each directory.

use super::Outcome;
use super::damaged_directory::{DamagedDirectory, DirBlock};
use super::entries::Entry;
use super::patch::Patch;
use crate::leaves::end_of_name;
use crate::state::Step;
use uext4_format::dirent::{DirEntries, DirEntryType, DirLeaf, LeafTail};
use uext4_format::inline_data::set_parent;
use uext4_format::{DamageLocation, Feature, InodeFlags, InodeNr};

impl Patch<'_, '_> {
    /// Removes "." and ".." from the start of the entries, also under other names; returns them as
    /// they have to be.
    pub(super) fn take_dots(&self, dir: &DamagedDirectory, entries: &mut Vec<Entry>) -> Vec<Entry> {
        let parent = self.check.links.parent(dir.nr);
        let first = entries.drain(..entries.len().min(2));
        let (dots, others): (Vec<Entry>, Vec<Entry>) = first.partition(|entry| {
            entry.is_dots() || entry.inode == dir.nr || Some(entry.inode) == parent
        });
        entries.splice(0..0, others);
        let up = dots.iter().find(|entry| entry.name == b"..");
        let up = up.map_or_else(|| self.parent_of(dir.nr), |entry| entry.inode);
        self.dots(dir.nr, up)
    }

    /// The entries "." and "..".
    pub(super) fn dots(&self, nr: InodeNr, up: InodeNr) -> Vec<Entry> {
        let code = self.directory_kind().code();
        let entry = |inode: InodeNr, name: &[u8]| Entry {
            inode,
            code,
            name: name.to_vec(),
        };
        vec![entry(nr, b"."), entry(up, b"..")]
    }

    /// The directory in which this one is, as far as known.
    pub(super) fn parent_of(&self, nr: InodeNr) -> InodeNr {
        let links = &self.check.links;
        if nr == InodeNr::ROOT {
            return nr;
        }
        let up = links.up(nr).filter(|up| links.is_directory(*up));
        links.parent(nr).or(up).unwrap_or(InodeNr::ROOT)
    }

    /// The type of directories in entries.
    pub(super) fn directory_kind(&self) -> DirEntryType {
        if self.check.geometry.features.has(Feature::FILETYPE) {
            DirEntryType::Directory
        } else {
            DirEntryType::Unknown
        }
    }

    /// Lets ".." lead to the directory that names this one.
    pub(super) fn repair_dot_dot(&mut self, dir: &DamagedDirectory) -> Step<Outcome> {
        let parent = self.parent_of(dir.nr);
        if dir.inode.flags.contains(InodeFlags::INLINE_DATA) {
            let mut inode = dir.inode.clone();
            set_parent(&mut inode.i_block, parent);
            self.write_inode(dir.nr, &inode)?;
            return Ok(Outcome::Repaired);
        }
        let extents = self.extents_of(dir.nr, &dir.inode)?;
        let first = DirBlock::all(&extents).find(|block| block.logical == 0);
        let Some(block) = first else {
            return Ok(Outcome::Impossible);
        };
        let mut bytes = self.read(block.nr)?;
        let kind = self.directory_kind();
        let mut leaf = DirLeaf::new(&mut bytes[..], LeafTail::None, dir.location_of(block));
        if leaf.retarget(b"..", parent, kind) != Ok(true) {
            return Ok(Outcome::Impossible);
        }
        dir.seal(&mut bytes);
        self.write(block.nr, bytes)?;
        Ok(Outcome::Repaired)
    }
}

/// Puts a zero byte behind the first two names, if they are "." and "..".
pub(super) fn end_dots(bytes: &mut [u8]) {
    let records = DirEntries::new(bytes, 0, bytes.len(), DamageLocation::Superblock);
    let dots = records.take(2).flatten();
    let dots = dots.filter(|entry| !entry.is_free() && matches!(entry.name, b"." | b".."));
    let ends: Vec<usize> = dots.map(|entry| end_of_name(&entry)).collect();
    for end in ends {
        if let Some(byte) = bytes.get_mut(end) {
            *byte = 0;
        }
    }
}
