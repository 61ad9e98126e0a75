//! Check of directories: their blocks and entries, and the inodes that these name.

use super::ahead::{Turn, one};
use super::index::Htree;
use super::names::Reach;
use super::opened::{Dir, Opened};
use crate::report::Pass;
use crate::state::{Check, Step};
use uext4_format::dirent::{BlockKind, LeafTail, verify_block};
use uext4_format::inline_data;
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody};
use uext4_format::{BlockNr, CorruptKind, DamageLocation, Feature, Inode, InodeFlags, InodeNr};
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Directories of a part that one thread checks at a time. Tests have many parts.
const PART_DIRECTORIES: usize = if cfg!(test) { 2 } else { 16 };

/// Blocks of a part of a large directory, and of a directory that is large.
const PART_BLOCKS: usize = if cfg!(test) { 2 } else { 64 };
pub(crate) const LARGE_BLOCKS: u64 = if cfg!(test) { 3 } else { 64 };

impl Check<'_> {
    /// Checks many small directories at a time, then each large one, which has parts of its own.
    pub(crate) fn check_directories(&mut self) -> Step {
        let all = self.links.directories.iter().map(|found| InodeNr(found.nr));
        let all: Vec<_> = all
            .filter(|nr| !self.unreadable.has(u64::from(nr.0)))
            .collect();
        let bytes = u64_of(all.len()) * u64_of(size_of::<InodeNr>());
        self.take(bytes)?;
        let parts: Vec<_> = all.chunks(PART_DIRECTORIES).collect();
        self.by_parts(Pass::Directories, parts.len(), |check, turn| {
            check.check_part(&parts, turn)
        })?;
        self.opened = None;
        for nr in std::mem::take(&mut self.large) {
            if let Some((dir, inode)) = self.open_directory(nr)? {
                self.check_blocks(&dir, &inode)?;
                self.forget_names();
            }
        }
        self.give_back(bytes);
        Ok(())
    }

    /// Checks directories; those of the next part are opened before, and their blocks asked for.
    fn check_part(&mut self, parts: &[&[InodeNr]], turn: Turn) -> Step {
        let opened = match self.opened.take() {
            Some(opened) if opened.part == turn.nr => opened,
            _ => self.open_part(parts, turn.nr)?,
        };
        if let Some(next) = turn.next {
            let next = self.open_part(parts, next)?;
            self.ask_for_directories(next.directories.iter().map(|(_, inode)| inode));
            self.opened = Some(next);
        }
        for (dir, inode) in &opened.directories {
            self.check_directory(dir, inode)?;
        }
        self.give_back(opened.bytes);
        Ok(())
    }

    fn open_part(&mut self, parts: &[&[InodeNr]], part: usize) -> Step<Opened> {
        let each = size_of::<Inode>() + 2 * usize::from(self.geometry.inode_size);
        let bytes = u64_of(parts[part].len() * each);
        self.take(bytes)?;
        let found = self.read_inodes(parts[part])?;
        let directories = found
            .into_iter()
            .filter_map(|(nr, raw)| self.parse_directory(nr, &raw))
            .collect();
        Ok(Opened {
            part,
            bytes,
            directories,
        })
    }

    fn check_directory(&mut self, dir: &Dir, inode: &Inode) -> Step {
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            self.check_inline(dir, inode)?;
        } else if inode.size / self.block_bytes() > LARGE_BLOCKS {
            self.put_large(dir.nr)?;
        } else {
            self.check_blocks(dir, inode)?;
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

    pub(crate) fn open_directory(&mut self, nr: InodeNr) -> Step<Option<(Dir, Inode)>> {
        let raw = self.read_inode(nr)?;
        Ok(raw.and_then(|raw| self.parse_directory(nr, &raw)))
    }

    fn parse_directory(&self, nr: InodeNr, raw: &[u8]) -> Option<(Dir, Inode)> {
        let parsed = Inode::parse(raw, nr, &self.geometry, &self.checksums);
        let inode = parsed.ok()?;
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
            is_indexed: inode.flags.contains(InodeFlags::INDEX)
                && self.geometry.features.has(Feature::DIR_INDEX),
        };
        Some((dir, inode))
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
        let hashed = !inode
            .flags
            .intersects(InodeFlags(InodeFlags::CASEFOLD.0 | InodeFlags::ENCRYPT.0));
        let index = if dir.is_indexed {
            self.check_index(dir, &blocks)?
        } else {
            None
        };
        let bounds = index.as_ref().filter(|_| hashed);
        if wanted > LARGE_BLOCKS {
            let parts: Vec<_> = blocks.chunks(PART_BLOCKS).collect();
            self.by_parts(Pass::Directories, parts.len(), |check, turn| {
                if let Some(next) = turn.next {
                    check.ask_for(parts[next].iter().map(|(_, nr)| one(*nr)).collect());
                }
                check.check_run(dir, parts[turn.nr], index.as_ref(), bounds)
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
                if !dir.is_indexed && dir.seed.is_some() && BlockKind::of(bytes) != BlockKind::Leaf
                {
                    self.add_problem(place, "directory leaf", CorruptKind::ChecksumTail);
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
}
