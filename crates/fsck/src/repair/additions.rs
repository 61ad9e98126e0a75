//! Entries that a directory gets in addition.

use super::accepted::Accepted;
use super::damaged_directory::{DamagedDirectory, DirBlock};
use super::entries::Entry;
use super::patch::Patch;
use super::rebuild::Content;
use super::salvage::Scan;
use super::twins::with_suffix;
use crate::state::Step;
use std::collections::HashSet;
use uext4_format::dirent::{DirLeaf, Insertion};
use uext4_format::extent::Extent;
use uext4_format::{BlockNr, InodeFlags, InodeNr};
use uext4_num::{clamp_u32, u64_of};

impl Patch<'_, '_> {
    /// Adds entries to a directory: in gaps if it has no index, else it is built anew. A name that
    /// is there gets a suffix. Returns the inodes that got their name, fewer if there is no space.
    pub(super) fn add_entries(&mut self, nr: InodeNr, mut new: Vec<Entry>) -> Step<Vec<InodeNr>> {
        let dir = self.damaged_directory(nr, Accepted::default())?;
        let Some(dir) = dir.filter(|dir| !dir.has_stored_hashes() && !self.is_unreadable(nr))
        else {
            return Ok(Vec::new());
        };
        let extents = self.blocks_of_directory(&dir)?;
        let Some(entries) = self.all_entries(&dir, &extents)? else {
            return Ok(Vec::new());
        };
        let old: u64 = entries.iter().map(Entry::bytes).sum();
        let more: u64 = new.iter().map(Entry::bytes).sum();
        // Each name is copied once.
        self.check.take(old + 2 * more)?;
        part_from(&entries, &mut new);
        let named = self.add_to(&dir, &extents, entries, new)?;
        self.check.give_back(2 * (old + more));
        Ok(named)
    }

    /// Adds entries with new names to these, which are all that a directory has.
    fn add_to(
        &mut self,
        dir: &DamagedDirectory,
        extents: &[Extent],
        mut entries: Vec<Entry>,
        mut new: Vec<Entry>,
    ) -> Step<Vec<InodeNr>> {
        let nr = dir.nr;
        let inodes = |some: &[Entry]| some.iter().map(|entry| entry.inode).collect();
        let added = if dir.is_indexed {
            Insertions::default()
        } else {
            self.insert(dir, extents, &new)?
        };
        if !dir.is_indexed && added.n_entries == new.len() {
            return self.write_blocks(dir, added).map(|()| inodes(&new));
        }
        let inode = if dir.inode.flags.contains(InodeFlags::INLINE_DATA) {
            self.without_inline(nr, &dir.inode)
        } else {
            dir.inode.clone()
        };
        entries.extend(new.iter().cloned());
        let content = Content {
            nr,
            parent: self.parent_of(nr),
            entries: &entries,
            blocks_min: clamp_u32(DirBlock::all(extents).count()),
        };
        if self.write_directory(inode, &content, extents)? {
            self.check.give_back(self.bytes_of(&added));
            return Ok(inodes(&new));
        }
        new.truncate(added.n_entries);
        self.write_blocks(dir, added).map(|()| inodes(&new))
    }

    /// All entries but "." and ".."; `None` if a block is damaged. Their memory is counted.
    pub(super) fn all_entries(
        &mut self,
        dir: &DamagedDirectory,
        extents: &[Extent],
    ) -> Step<Option<Vec<Entry>>> {
        let is_inline = dir.inode.flags.contains(InodeFlags::INLINE_DATA);
        let mut entries = Vec::new();
        if is_inline {
            entries = self.inline_entries(dir.nr, &dir.inode, |patch, area| {
                patch.check.salvage(area, Scan::Damage).sound
            });
            entries.retain(|entry| !entry.is_dots());
        }
        let mut bytes = entries.iter().map(Entry::bytes).sum();
        self.check.take(bytes)?;
        for block in DirBlock::all(extents) {
            let block = self.read(block.nr)?;
            if dir.is_node(&block) {
                continue;
            }
            let mut found = self.check.salvage(dir.area(&block), Scan::Damage);
            if found.before_damage.is_some() {
                self.check.give_back(bytes);
                return Ok(None);
            }
            found.sound.retain(|entry| !entry.is_dots());
            let more: u64 = found.sound.iter().map(Entry::bytes).sum();
            self.check.take(more)?;
            bytes += more;
            entries.extend(found.sound);
        }
        Ok(Some(entries))
    }

    /// Puts entries into gaps, in order, as long as there are some.
    fn insert(
        &mut self,
        dir: &DamagedDirectory,
        extents: &[Extent],
        new: &[Entry],
    ) -> Step<Insertions> {
        let mut added = Insertions::default();
        for block in DirBlock::all(extents) {
            let rest = new.get(added.n_entries..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            self.check.take(self.check.block_bytes())?;
            let bytes = self.read(block.nr)?;
            let mut leaf = DirLeaf::new(bytes, dir.tail, dir.location_of(block));
            let n_fitting = rest
                .iter()
                .take_while(|entry| {
                    matches!(leaf.insert(&entry.item().entry()), Ok(Insertion::Done(_)))
                })
                .count();
            if n_fitting > 0 {
                added.n_entries += n_fitting;
                added.blocks.push((block.nr, leaf.into_bytes()));
            } else {
                self.check.give_back(self.check.block_bytes());
            }
        }
        Ok(added)
    }

    fn write_blocks(&mut self, dir: &DamagedDirectory, added: Insertions) -> Step {
        for (nr, mut bytes) in added.blocks {
            dir.seal(&mut bytes);
            self.write(nr, bytes)?;
            self.check.give_back(self.check.block_bytes());
        }
        Ok(())
    }

    /// Counted memory in bytes.
    fn bytes_of(&self, added: &Insertions) -> u64 {
        u64_of(added.blocks.len()) * self.check.block_bytes()
    }
}

/// Blocks with entries in their gaps, whose memory is counted.
#[derive(Default)]
struct Insertions {
    n_entries: usize,
    blocks: Vec<(BlockNr, Vec<u8>)>,
}

/// Gives new entries names that no other one has.
fn part_from(old: &[Entry], new: &mut [Entry]) {
    let mut taken: HashSet<Vec<u8>> = old.iter().map(|entry| entry.name.clone()).collect();
    for entry in new {
        let own = entry.name.clone();
        let mut suffix = 0;
        while !taken.insert(entry.name.clone()) {
            entry.name = with_suffix(&own, suffix);
            suffix += 1;
        }
    }
}
