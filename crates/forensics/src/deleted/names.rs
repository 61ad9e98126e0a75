//! Names of deleted inodes: from directories, from the space between their entries, from images of
//! their blocks in the log, and from deleted directories.
//!
//! Mechanism: an entry that was removed stays in the space of the entry before it, so each offset
//! of a block that can begin an entry is read. The names of all directories in use lead to the
//! root.
//!
//! Invariants: only names of inodes that are asked about, and of directories, are kept, at most
//! [`NAMES_MAX`] of each. A block is read for the first directory that maps it, and directories
//! have no more blocks than the file system, so that the size of the image bounds the time.

use super::history::{AsOf, History};
use super::versions::Version;
use crate::content::Content;
use crate::map::{Nodes, Part, Trust, nodes_max, walk};
use crate::{Memory, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use uext4_format::dirent::{DirEntries, RecordHeader};
use uext4_format::{Checksums, DamageLocation, FileType, Inode, InodeFlags, InodeNr};
use uext4_num::u64_of;

/// Most names of an inode.
const NAMES_MAX: usize = 256;
/// Most images that are looked at for deleted directories.
const STEPS_MAX: u64 = 1 << 22;
/// Memory for each block of a directory, in bytes.
const BLOCK_BYTES: u64 = 48;
/// Memory for each name, beside its bytes.
const NAME_BYTES: u64 = 96;
/// Most components of a path.
const DEPTH_MAX: usize = 256;
/// Type bytes of entries.
const REGULAR: u8 = 1;
const DIRECTORY: u8 = 2;
const TYPE_MAX: u8 = 7;

/// A name that an inode had.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    parent: InodeNr,
    name: Box<[u8]>,
    /// The transaction of the image with it; `None` if it is in a directory.
    order: Option<u32>,
    kind: u8,
    /// Whether it is an entry that is not removed.
    is_entry: bool,
}

/// The names that were found.
pub(crate) struct Names<'n, 'h> {
    history: &'n History<'h>,
    memory: &'n Memory,
    wanted: BTreeSet<u32>,
    of: HashMap<u32, Vec<Name>>,
    /// Directories in use.
    directories: HashMap<u32, (InodeNr, Box<[u8]>)>,
    /// Blocks that were read.
    visited: HashSet<u64>,
    /// Blocks of directories that may be met yet, those that are met again included.
    blocks_left: u64,
    nodes_left: u64,
    steps_left: u64,
}

impl<'n, 'h> Names<'n, 'h> {
    /// Looks for the names of these inodes in all directories in use.
    pub(crate) fn find(
        history: &'n History<'h>,
        versions: &[Version],
        memory: &'n Memory,
    ) -> Result<Self> {
        memory.take(u64_of(versions.len()).saturating_mul(16))?;
        let mut names = Self {
            history,
            memory,
            wanted: versions.iter().map(|version| version.nr.0).collect(),
            of: HashMap::new(),
            directories: HashMap::new(),
            visited: HashSet::new(),
            blocks_left: history.image.geometry().blocks_count,
            nodes_left: nodes_max(history.image.geometry()),
            steps_left: STEPS_MAX,
        };
        let image = history.image;
        let mut nodes = Nodes::new(image.geometry(), image);
        image.inodes(&mut |slot| {
            if slot.is_allocated {
                let parsed = Inode::parse(slot.bytes, slot.nr, image.geometry(), &Checksums::NONE);
                if let Ok(inode) = parsed
                    && inode.file_type() == Some(FileType::Directory)
                {
                    names.read_directory(slot.nr, &inode, &mut nodes)?;
                }
            }
            Ok::<(), crate::Error>(())
        })?;
        Ok(names)
    }

    fn read_directory(&mut self, nr: InodeNr, inode: &Inode, nodes: &mut Nodes<'_>) -> Result<()> {
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let root = uext4_format::inline_data::PARENT_BYTES;
            let area = inode.i_block.get(root..).unwrap_or_default();
            self.read_records(nr, area, None)?;
            return self.read_records(nr, &inode.tail, None);
        }
        let geometry = *self.history.image.geometry();
        let mut failed = Ok(());
        walk(&geometry, inode, Trust::Any, nodes, &mut |part| {
            if let Part::Data(extent) = part
                && failed.is_ok()
            {
                let len = u64::from(extent.len).min(self.blocks_left);
                self.blocks_left = self.blocks_left.saturating_sub(len);
                let mut blocks = extent.start.0..extent.start.0.saturating_add(len);
                failed = blocks.try_for_each(|block| self.read_block(nr, block));
            }
        });
        failed
    }

    /// Reads the names in a block of a directory and in its images.
    fn read_block(&mut self, nr: InodeNr, block: u64) -> Result<()> {
        if !self.visited.insert(block) {
            return Ok(());
        }
        self.memory.take(BLOCK_BYTES)?;
        if let Some(bytes) = self.history.image.block(block) {
            self.read_records(nr, &bytes, None)?;
        }
        self.read_images(nr, block)
    }

    fn read_images(&mut self, nr: InodeNr, block: u64) -> Result<()> {
        let history = self.history;
        for past in history.of(block..block.saturating_add(1)) {
            if let Some(bytes) = history.bytes(past) {
                self.read_records(nr, &bytes, Some(past.order))?;
            }
        }
        Ok(())
    }

    /// Reads the names in the blocks of a deleted directory.
    pub(crate) fn read_deleted(&mut self, version: &Version, content: &Content) -> Result<()> {
        if version.inode.flags.contains(InodeFlags::INLINE_DATA) {
            let root = uext4_format::inline_data::PARENT_BYTES;
            let area = version.inode.i_block.get(root..).unwrap_or_default();
            return self.read_records(version.nr, area, version.order);
        }
        for run in &content.runs {
            for block in run.start.0..run.physical_end() {
                self.read_block(version.nr, block)?;
            }
        }
        for block in self.logged_blocks(version) {
            if !self.visited.contains(&block) {
                self.memory.take(BLOCK_BYTES)?;
                self.visited.insert(block);
                self.read_images(version.nr, block)?;
            }
        }
        Ok(())
    }

    /// The blocks of a deleted directory that have images.
    fn logged_blocks(&mut self, version: &Version) -> BTreeSet<u64> {
        let geometry = *self.history.image.geometry();
        let history = self.history;
        let source = AsOf {
            history,
            order: version.order,
        };
        let mut nodes = Nodes {
            source: &source,
            left: self.nodes_left,
        };
        let checksums = history.image.checksums();
        let seed = checksums.inode_seed(version.nr, version.inode.generation);
        let trust = Trust::Sealed(seed);
        let (mut blocks, mut left) = (BTreeSet::new(), self.steps_left);
        walk(&geometry, &version.inode, trust, &mut nodes, &mut |part| {
            if let Part::Data(extent) = part {
                let logged = history.of(extent.start.0..extent.physical_end());
                let steps = left.min(u64_of(logged.len()));
                left = left.saturating_sub(steps);
                let some = logged.iter().take(uext4_num::clamp_usize(steps));
                blocks.extend(some.map(|past| past.logged.block));
            }
        });
        (self.nodes_left, self.steps_left) = (nodes.left, left);
        blocks
    }

    fn read_records(&mut self, dir: InodeNr, bytes: &[u8], order: Option<u32>) -> Result<()> {
        let place = DamageLocation::Inode(dir);
        let entries: BTreeMap<usize, u32> = DirEntries::new(bytes, 0, bytes.len(), place)
            .map_while(std::result::Result::ok)
            .map(|entry| (entry.offset, entry.inode.0))
            .collect();
        for at in (0..bytes.len()).step_by(4) {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(header) = RecordHeader::read(rest, bytes.len()) else {
                break;
            };
            let is_entry = entries.get(&at).is_some_and(|nr| *nr != 0);
            let is_asked = self.wanted.contains(&header.inode.0);
            let is_directory = is_entry && order.is_none() && header.code == DIRECTORY;
            if !is_asked && !is_directory {
                continue;
            }
            if let Some(name) = plausible(&header, rest) {
                self.add(dir, &header, name, order, is_entry && order.is_none())?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        dir: InodeNr,
        header: &RecordHeader,
        name: &[u8],
        order: Option<u32>,
        is_entry: bool,
    ) -> Result<()> {
        let bytes = NAME_BYTES.saturating_add(u64_of(name.len()));
        let nr = header.inode.0;
        if is_entry && header.code == DIRECTORY {
            self.memory.take(bytes)?;
            self.directories.insert(nr, (dir, name.into()));
        }
        if !self.wanted.contains(&nr) {
            return Ok(());
        }
        let new = Name {
            parent: dir,
            name: name.into(),
            order,
            kind: header.code,
            is_entry,
        };
        let list = self.of.entry(nr).or_default();
        let has_space = list.len() < NAMES_MAX;
        // Images repeat the names of the images before them.
        let known = list.iter_mut().find(|old| {
            let is_same = (old.parent, &old.name, old.kind) == (new.parent, &new.name, new.kind);
            is_same && old.is_entry == new.is_entry && old.order.is_some() == order.is_some()
        });
        match known {
            Some(known) => known.order = known.order.max(order),
            None if has_space => {
                self.memory.take(bytes)?;
                list.push(new);
            }
            None => {}
        }
        Ok(())
    }

    /// The path of a deleted inode. An unknown directory is named by its number.
    pub(crate) fn path(&self, version: &Version) -> Option<Vec<u8>> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let name = self.best(version.nr.0, version)?;
        parts.push(name.name.to_vec());
        let mut at = name.parent;
        while at != InodeNr::ROOT {
            if parts.len() >= DEPTH_MAX {
                return None;
            }
            let next = match self.directories.get(&at.0) {
                Some((parent, name)) => Some((*parent, name.to_vec())),
                None => self.any(at.0).map(|name| (name.parent, name.name.to_vec())),
            };
            let Some((parent, name)) = next else {
                parts.push(format!("inode-{at}").into_bytes());
                break;
            };
            parts.push(name);
            at = parent;
        }
        parts.reverse();
        Some(parts.join(&b'/'))
    }

    /// The name of an inode in the state that the version has.
    fn best(&self, nr: u32, version: &Version) -> Option<&Name> {
        let kind = if version.inode.file_type() == Some(FileType::Directory) {
            DIRECTORY
        } else {
            REGULAR
        };
        let names = self.of.get(&nr)?.iter();
        let fits = names.filter(|name| name.kind == 0 || name.kind == kind);
        // The name of the inode that has the number now.
        let fits = fits.filter(|name| !(version.is_reused && name.is_entry));
        fits.max_by_key(|name| {
            let is_older = name.order.is_some_and(|order| Some(order) <= version.order);
            let is_here = name.order.is_none() && version.order.is_none();
            (is_older || is_here, name.order)
        })
    }

    /// The newest name of a deleted directory.
    fn any(&self, nr: u32) -> Option<&Name> {
        let names = self.of.get(&nr)?.iter();
        let fits = names.filter(|name| name.kind == 0 || name.kind == DIRECTORY);
        fits.max_by_key(|name| name.order)
    }
}

/// The name of a record, if it can be one.
pub(crate) fn plausible<'b>(header: &RecordHeader, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let end = RecordHeader::BYTES.checked_add(header.name_len)?;
    let fits = header.rec_len >= end
        && header.rec_len.is_multiple_of(4)
        && header.rec_len <= bytes.len()
        && header.code <= TYPE_MAX;
    let name = bytes.get(RecordHeader::BYTES..end).filter(|_| fits)?;
    let is_name = !name.is_empty() && name != b"." && name != b"..";
    let is_sound = !name.contains(&b'/') && !name.contains(&0);
    (is_name && is_sound).then_some(name)
}
