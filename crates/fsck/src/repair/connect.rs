//! Names for inodes that have none, in lost+found, all of a round at once.
//!
//! A directory inside itself has a name, but only below itself: that one goes when it has the new
//! one. Its "..", and all counts, are problems of later rounds.

use super::Outcome;
use super::accepted::Accepted;
use super::damaged_directory::DirBlock;
use super::entries::Entry;
use super::patch::Patch;
use super::salvage::number_name;
use crate::state::Step;
use std::collections::{BTreeMap, HashSet};
use uext4_format::dirent::{DirEntry, DirLeaf, LeafTail};
use uext4_format::{InodeFlags, InodeNr};

impl Patch<'_, '_> {
    /// Gives each of these inodes a name in lost+found.
    pub(super) fn connect(&mut self, numbers: &[InodeNr]) -> Step<Vec<Outcome>> {
        let Some(target) = self.connection_target(numbers)? else {
            return Ok(vec![Outcome::Impossible; numbers.len()]);
        };
        let others = numbers.iter().filter(|nr| **nr != target);
        let names = others.map(|nr| Entry {
            inode: *nr,
            code: self.code_of(*nr),
            name: number_name(*nr),
        });
        let names: Vec<Entry> = names.collect();
        let named: HashSet<InodeNr> = self.add_entries(target, names)?.into_iter().collect();
        let mut left: BTreeMap<InodeNr, HashSet<InodeNr>> = BTreeMap::new();
        let mut outcomes = Vec::with_capacity(numbers.len());
        for nr in numbers {
            let parent = self.check.links.parent(*nr);
            if let Some(parent) = parent.filter(|_| named.contains(nr)) {
                left.entry(parent).or_default().insert(*nr);
            }
            outcomes.push(if *nr == target || named.contains(nr) {
                Outcome::Repaired
            } else {
                Outcome::Impossible
            });
        }
        for (parent, children) in left {
            self.remove_entries(parent, &|entry| children.contains(&entry.inode))?;
        }
        Ok(outcomes)
    }

    /// Removes entries from a directory.
    pub(super) fn remove_entries(
        &mut self,
        nr: InodeNr,
        select: &dyn Fn(&DirEntry<'_>) -> bool,
    ) -> Step {
        let Some(dir) = self.damaged_directory(nr, Accepted::default())? else {
            return Ok(());
        };
        if dir.inode.flags.contains(InodeFlags::INLINE_DATA) {
            return self.remove_inline_entries(&dir, select);
        }
        let extents = self.blocks_of_directory(&dir)?;
        for block in DirBlock::all(&extents) {
            let mut bytes = self.read(block.nr)?;
            let leaf = DirLeaf::new(&mut bytes[..], LeafTail::None, dir.location_of(block));
            if remove_selected(leaf, select) {
                dir.seal(&mut bytes);
                self.write(block.nr, bytes)?;
            }
        }
        Ok(())
    }

    /// The inode that a directory names so.
    pub(super) fn find_name(&mut self, nr: InodeNr, name: &[u8]) -> Step<Option<InodeNr>> {
        let Some(dir) = self.damaged_directory(nr, Accepted::default())? else {
            return Ok(None);
        };
        let extents = self.blocks_of_directory(&dir)?;
        for block in DirBlock::all(&extents) {
            let bytes = self.read(block.nr)?;
            let leaf = DirLeaf::new(&bytes[..], LeafTail::None, dir.location_of(block));
            if let Ok(Some(entry)) = leaf.find(name) {
                return Ok(Some(entry.inode));
            }
        }
        Ok(None)
    }

    /// Whether an inode is a directory that can get entries.
    pub(super) fn is_open_directory(&self, nr: InodeNr) -> bool {
        let is_dir = self.check.links.is_directory(nr);
        is_dir && !self.is_unreadable(nr)
    }
}

/// Removes entries but "." and ".."; true if there were some.
pub(super) fn remove_selected(
    mut leaf: DirLeaf<&mut [u8]>,
    select: &dyn Fn(&DirEntry<'_>) -> bool,
) -> bool {
    let entries = leaf.entries().flatten();
    let selected = entries.filter(|entry| !matches!(entry.name, b"." | b"..") && select(entry));
    let names: Vec<Vec<u8>> = selected.map(|entry| entry.name.to_vec()).collect();
    let removed = names
        .iter()
        .filter(|name| matches!(leaf.remove(name), Ok(Some(_))));
    removed.count() > 0
}
