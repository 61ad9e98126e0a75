//! Check of directories: their blocks and entries, and the inodes that these name.

use super::entries::Rules;
use super::index::Htree;
use crate::state::{Check, Step};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use uext4_format::dirent::{BlockKind, DirEntry, DirLeaf, LeafTail, RecordHeader, verify_block};
use uext4_format::inline_data;
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody};
use uext4_format::{
    CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr, Seed,
};
use uext4_num::u64_of;

/// Memory for each name during the check of its directory, in bytes.
const BYTES_PER_NAME: u64 = 24;

/// The directory being checked.
pub(crate) struct Dir {
    pub(crate) nr: InodeNr,
    rules: Rules,
    pub(crate) seed: Option<Seed>,
    pub(crate) tail: LeafTail,
    names: HashSet<u64>,
    hasher: RandomState,
}

impl Check<'_> {
    pub(crate) fn check_directories(&mut self) -> Step {
        for at in 0..self.links.n_directories() {
            let Some(nr) = self.links.directory(at) else {
                continue;
            };
            if !self.unreadable.has(u64::from(nr.0)) {
                self.check_directory(nr)?;
            }
        }
        Ok(())
    }

    fn check_directory(&mut self, nr: InodeNr) -> Step {
        let Some(raw) = self.read_inode(nr)? else {
            return Ok(());
        };
        let parsed = Inode::parse(&raw, nr, &self.geometry, &self.checksums);
        let Ok(inode) = parsed else {
            return Ok(());
        };
        let seed = self.checksums.inode_seed(nr, inode.generation);
        let tail = match seed {
            Some(_) => LeafTail::Checksum,
            None => LeafTail::None,
        };
        let mut dir = Dir {
            nr,
            rules: self.rules_of(nr, &inode),
            seed,
            tail,
            names: HashSet::new(),
            hasher: RandomState::new(),
        };
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            self.check_inline(&mut dir, &inode)?;
        } else {
            self.check_blocks(&mut dir, &inode)?;
        }
        self.give_back(u64_of(dir.names.len()) * BYTES_PER_NAME);
        Ok(())
    }

    fn check_inline(&mut self, dir: &mut Dir, inode: &Inode) -> Step {
        let place = DamageLocation::Inode(dir.nr);
        let attributes = decode_ibody(&inode.tail, place).unwrap_or_default();
        let name = XattrName::inline_data();
        let value = attributes.iter().find(|found| found.name == name);
        let value = match value.map(|found| &found.value) {
            Some(XattrValue::Here(value)) => value.clone(),
            _ => {
                self.add_problem(place, "inline directory", CorruptKind::AttributeMissing);
                return Ok(());
            }
        };
        let up = inline_data::parent(&inode.i_block);
        self.links.count(dir.nr);
        self.record_parent(dir, up);
        if up.0 == 0 {
            self.add_problem(place, "directory", CorruptKind::DotsElsewhere);
        }
        for entry in inline_data::records(&inode.i_block, &value, place) {
            match entry {
                Ok(entry) if entry.is_free() => {}
                Ok(entry) => self.check_entry(dir, &entry, place)?,
                Err(corrupt) => self.add_corrupt(&corrupt),
            }
        }
        Ok(())
    }

    fn check_blocks(&mut self, dir: &mut Dir, inode: &Inode) -> Step {
        let blocks = self.blocks_of(dir.nr, inode)?;
        let wanted = inode.size / self.block_bytes();
        let in_order = blocks.iter().map(|(logical, _)| *logical).eq(0..wanted);
        if blocks.is_empty() || !in_order {
            self.add_problem(
                DamageLocation::Inode(dir.nr),
                "directory",
                CorruptKind::Holes,
            );
        }
        let indexed = inode.flags.contains(InodeFlags::INDEX)
            && self.geometry.features.has(Feature::DIR_INDEX);
        let hashed = !inode
            .flags
            .intersects(InodeFlags(InodeFlags::CASEFOLD.0 | InodeFlags::ENCRYPT.0));
        let mut index = if indexed {
            self.check_index(dir, &blocks)?
        } else {
            None
        };
        for (logical, nr) in &blocks {
            let bytes = self.read(*nr)?;
            let place = DamageLocation::InodeBlock(dir.nr, *nr);
            let sealed = dir
                .seed
                .map_or(Ok(()), |seed| verify_block(&bytes, seed, place));
            if let Err(corrupt) = sealed {
                self.add_corrupt(&corrupt);
                continue;
            }
            let in_index = index.as_ref().is_some_and(|index| index.is_node(*logical));
            if !in_index || *logical == 0 {
                let bounds = index.as_mut().filter(|_| hashed);
                self.check_leaf(dir, &bytes, (*logical, place), bounds)?;
            }
        }
        if let Some(index) = index {
            self.check_missing(dir, &index, wanted);
        }
        self.give_back(u64_of(blocks.len()) * 16);
        Ok(())
    }

    fn check_leaf(
        &mut self,
        dir: &mut Dir,
        bytes: &[u8],
        (logical, place): (u64, DamageLocation),
        bounds: Option<&mut Htree>,
    ) -> Step {
        let is_root = logical == 0 && BlockKind::of(bytes) == BlockKind::Root;
        let tail = if is_root { LeafTail::None } else { dir.tail };
        let leaf = DirLeaf::new(bytes, tail, place);
        for (at, record) in leaf.records().enumerate() {
            let entry = match record {
                Ok(entry) => entry,
                Err(corrupt) => {
                    self.add_corrupt(&corrupt);
                    break;
                }
            };
            if logical == 0 && at < 2 {
                self.check_dot(dir, &entry, at, place);
                self.check_end_of_dot(bytes, &entry, place);
            } else if !entry.is_free() {
                if let Some(index) = &bounds
                    && !index.allows(logical, entry.name)
                {
                    let name = shown(entry.name);
                    let problem = CorruptKind::LookedElsewhere;
                    self.add_detailed(place, "directory entry", problem, name);
                }
                self.check_entry(dir, &entry, place)?;
            }
        }
        Ok(())
    }

    /// Checks the first two entries of a directory.
    fn check_dot(&mut self, dir: &Dir, entry: &DirEntry<'_>, at: usize, place: DamageLocation) {
        let name: &[u8] = if at == 0 { b"." } else { b".." };
        let is_other = at == 0 && entry.inode != dir.nr;
        if entry.name != name || entry.is_free() || is_other {
            self.add_problem(place, "directory", CorruptKind::DotsElsewhere);
            return;
        }
        if let Some(problem) = self.problem_of_type(entry, FileType::Directory) {
            self.add_detailed(place, "directory entry", problem, shown(name));
        }
        self.links.count(entry.inode);
        if at == 1 {
            self.links.set_up(dir.nr, entry.inode);
        }
    }

    /// Checks the byte behind the name, which e2fsck wants to be zero.
    fn check_end_of_dot(&mut self, bytes: &[u8], entry: &DirEntry<'_>, place: DamageLocation) {
        let is_dot = !entry.is_free() && matches!(entry.name, b"." | b"..");
        if is_dot && bytes.get(end_of_name(entry)).is_some_and(|byte| *byte != 0) {
            let problem = CorruptKind::DotsUnended;
            self.add_problem(place, "directory", problem);
        }
    }

    fn record_parent(&mut self, dir: &Dir, up: InodeNr) {
        self.links.count(up);
        self.links.set_up(dir.nr, up);
    }

    fn check_entry(&mut self, dir: &mut Dir, entry: &DirEntry<'_>, place: DamageLocation) -> Step {
        if let Some(problem) = self.problem_of(dir.rules, entry) {
            self.add_detailed(place, "directory entry", problem, shown(entry.name));
            return Ok(());
        }
        self.take(BYTES_PER_NAME)?;
        if !dir.names.insert(dir.hasher.hash_one(entry.name)) {
            let problem = CorruptKind::NameTwice;
            self.add_detailed(place, "directory entry", problem, shown(entry.name));
        }
        self.links.count(entry.inode);
        let is_dir = self.links.kind(entry.inode) == Some(FileType::Directory);
        if is_dir && !self.links.adopt(entry.inode, dir.nr) {
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
