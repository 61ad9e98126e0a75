//! Check of directories: their blocks and entries, and the inodes that these name.

use super::entries::Rules;
use super::index::Htree;
use super::names::Reach;
use crate::report::Pass;
use crate::state::{Check, Step};
use uext4_format::dirent::{BlockKind, DirEntry, DirLeaf, LeafTail, RecordHeader, verify_block};
use uext4_format::inline_data;
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody};
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr, Seed,
};
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Directories of a part that one thread checks at a time. Tests have many parts.
const PART_DIRECTORIES: usize = if cfg!(test) { 2 } else { 64 };

/// Blocks of a part of a large directory, and of a directory that is large.
const PART_BLOCKS: usize = if cfg!(test) { 2 } else { 64 };
const LARGE_BLOCKS: u64 = if cfg!(test) { 3 } else { 256 };

/// The directory being checked.
#[derive(Clone, Copy)]
pub(crate) struct Dir {
    pub(crate) nr: InodeNr,
    rules: Rules,
    pub(crate) seed: Option<Seed>,
    pub(crate) tail: LeafTail,
}

impl Check<'_> {
    /// Checks many small directories at a time, then each large one, which has parts of its own.
    pub(crate) fn check_directories(&mut self) -> Step {
        let all = self.links.directories.iter().map(|found| InodeNr(found.nr));
        let readable = |nr: &InodeNr| !self.unreadable.has(u64::from(nr.0));
        let all: Vec<_> = all.filter(readable).collect();
        let bytes = u64_of(all.len()) * u64_of(size_of::<InodeNr>());
        self.take(bytes)?;
        let parts: Vec<_> = all.chunks(PART_DIRECTORIES).collect();
        self.by_parts(Pass::Directories, parts.len(), |check, at| {
            let mut part = parts[at].iter();
            part.try_for_each(|nr| check.check_directory(*nr))
        })?;
        for nr in std::mem::take(&mut self.large) {
            if let Some((dir, inode)) = self.open_directory(nr)? {
                self.check_blocks(&dir, &inode)?;
                self.forget_names();
            }
        }
        self.give_back(bytes);
        Ok(())
    }

    fn check_directory(&mut self, nr: InodeNr) -> Step {
        let Some((dir, inode)) = self.open_directory(nr)? else {
            return Ok(());
        };
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            self.check_inline(&dir, &inode)?;
        } else if inode.size / self.block_bytes() > LARGE_BLOCKS {
            self.put_large(nr)?;
        } else {
            self.check_blocks(&dir, &inode)?;
        }
        self.forget_names();
        Ok(())
    }

    pub(crate) fn put_large(&mut self, nr: InodeNr) -> Step {
        match &mut self.trial {
            Some(trial) => trial.large.push(nr),
            None => {
                self.take(u64_of(size_of::<InodeNr>()))?;
                self.large.push(nr);
            }
        }
        Ok(())
    }

    fn open_directory(&mut self, nr: InodeNr) -> Step<Option<(Dir, Inode)>> {
        let Some(raw) = self.read_inode(nr)? else {
            return Ok(None);
        };
        let parsed = Inode::parse(&raw, nr, &self.geometry, &self.checksums);
        let Ok(inode) = parsed else {
            return Ok(None);
        };
        let seed = self.checksums.inode_seed(nr, inode.generation);
        let tail = match seed {
            Some(_) => LeafTail::Checksum,
            None => LeafTail::None,
        };
        let dir = Dir {
            nr,
            rules: self.rules_of(nr, &inode),
            seed,
            tail,
        };
        Ok(Some((dir, inode)))
    }

    fn check_inline(&mut self, dir: &Dir, inode: &Inode) -> Step {
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
        self.count_link(dir.nr)?;
        self.count_link(up)?;
        self.set_up(dir.nr, up);
        if up.0 == 0 {
            self.add_problem(place, "directory", CorruptKind::DotsElsewhere);
        }
        for entry in inline_data::records(&inode.i_block, &value, place) {
            match entry {
                Ok(entry) if entry.is_free() => {}
                Ok(entry) => self.check_entry(dir, &entry, place, Reach::Directory)?,
                Err(corrupt) => self.add_corrupt(&corrupt),
            }
        }
        Ok(())
    }

    fn check_blocks(&mut self, dir: &Dir, inode: &Inode) -> Step {
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
        let index = if indexed {
            self.check_index(dir, &blocks)?
        } else {
            None
        };
        let bounds = index.as_ref().filter(|_| hashed);
        if wanted > LARGE_BLOCKS {
            let parts: Vec<_> = blocks.chunks(PART_BLOCKS).collect();
            self.by_parts(Pass::Directories, parts.len(), |check, at| {
                check.check_run(dir, parts[at], index.as_ref(), bounds)
            })?;
        } else {
            self.check_run(dir, &blocks, index.as_ref(), bounds)?;
        }
        if let Some(index) = index {
            self.check_missing(dir, &index, wanted);
        }
        self.give_back(u64_of(blocks.len()) * 16);
        Ok(())
    }

    /// Checks blocks of a directory. `bounds` is the index, if it is one of the hashes of names.
    fn check_run(
        &mut self,
        dir: &Dir,
        blocks: &[(u64, BlockNr)],
        index: Option<&Htree>,
        bounds: Option<&Htree>,
    ) -> Step {
        let size = usize_of(self.geometry.block_size());
        let most = usize_of(self.blocks_per_read());
        let mut bytes = std::mem::take(&mut self.buffer);
        let runs = blocks.chunk_by(|(_, one), (_, next)| one.0 + 1 == next.0);
        for run in runs.flat_map(|run| run.chunks(most)) {
            let Some((_, start)) = run.first() else {
                continue;
            };
            self.read_run(*start, clamp_u32(run.len()), &mut bytes)?;
            for ((logical, nr), bytes) in run.iter().zip(bytes.chunks_exact(size)) {
                let place = DamageLocation::InodeBlock(dir.nr, *nr);
                let sealed = dir
                    .seed
                    .map_or(Ok(()), |seed| verify_block(bytes, seed, place));
                if let Err(corrupt) = sealed {
                    self.add_corrupt(&corrupt);
                    continue;
                }
                let in_index = index.is_some_and(|index| index.is_node(*logical));
                if !in_index || *logical == 0 {
                    self.check_leaf(dir, bytes, (*logical, place), bounds)?;
                }
            }
        }
        self.buffer = bytes;
        Ok(())
    }

    fn check_leaf(
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
        for (at, record) in leaf.records().enumerate() {
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
        let is_other = at == 0 && entry.inode != dir.nr;
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

    fn check_entry(
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
