//! Files of a damaged file system: the tree below a path, read past damage.
//!
//! Mechanism: what is damaged is replaced by a copy, where there is one: the superblock and
//! descriptors by their backups, blocks of inode tables and maps by their newest image in the log.
//! What has no copy is left out, and the walk goes on. Inodes in use without a name that can be
//! read come last, if the walk begins at the root.
//!
//! Invariants: each directory and each of their blocks is read once, and all files together have at
//! most the blocks of the file system, so that the size of the image bounds time and output.

use crate::content::Content;
use crate::deleted::{AsOf, History, inline_content, plausible};
use crate::map::{Nodes, Trust, nodes_max};
use crate::{Image, Memory, Result, Ring};
use std::collections::{HashMap, HashSet};
use uext4_format::dirent::{DirEntries, RecordHeader};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{
    Checksums, DamageLocation, FileType, Inode, InodeFlags, InodeNr, RawInode, Timestamp,
};
use uext4_num::{clamp_u16, clamp_usize, u64_of, usize_of};

/// Memory for each inode and for each block of a directory, in bytes.
const VISITED_BYTES: u64 = 48;
/// Longest path, in bytes.
const PATH_MAX: usize = 1 << 14;
/// Longest target of a symbolic link, in bytes.
const TARGET_MAX: u64 = 4096;

/// What the walk meets.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File(Content),
    /// A symbolic link.
    Link(Vec<u8>),
    /// Another name of a file that was met.
    Again,
    /// A device, pipe or socket.
    Special,
    /// An inode that cannot be read.
    Unreadable,
}

/// A name of the tree.
#[derive(Clone, Debug)]
pub struct Rescued {
    /// The path below the start, without a first `/`; empty for the start.
    pub path: Vec<u8>,
    /// The inode that it names.
    pub inode: InodeNr,
    /// The permissions and the type.
    pub mode: u16,
    /// Number of names.
    pub links: u16,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// What it is.
    pub kind: Kind,
}

/// A walk over a tree.
pub struct Rescue<'r> {
    history: History<'r>,
    memory: &'r Memory,
    inodes: HashSet<u32>,
    blocks: HashSet<u64>,
    nodes_left: u64,
    /// Blocks of files that may be read yet.
    data_left: u64,
    /// Blocks of directories that may be met yet, those that are met again included.
    entries_left: u64,
}

impl<'r> Rescue<'r> {
    /// A walk over an image, with its log where that can be read.
    ///
    /// # Errors
    /// Those of the device; too little memory.
    pub fn new(image: &'r Image, ring: Option<&'r mut Ring>, memory: &'r Memory) -> Result<Self> {
        Ok(Self {
            history: History::new(image, ring, memory)?,
            memory,
            inodes: HashSet::new(),
            blocks: HashSet::new(),
            nodes_left: nodes_max(image.geometry()),
            data_left: image.geometry().blocks_count,
            entries_left: image.geometry().blocks_count,
        })
    }

    /// The inode at a path; `None` if a component is not found. Links are not followed.
    ///
    /// # Errors
    /// Too little memory.
    pub fn find(&mut self, path: &[u8]) -> Result<Option<InodeNr>> {
        let mut at = InodeNr::ROOT;
        for name in path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let Some(inode) = self.inode(at) else {
                return Ok(None);
            };
            let entries = self.entries(&inode)?;
            // Another look-up or the walk reads them again.
            let bytes = u64_of(self.blocks.len()).saturating_mul(VISITED_BYTES);
            self.memory.give_back(bytes);
            self.blocks.clear();
            self.entries_left = self.history.image.geometry().blocks_count;
            match entries.into_iter().find(|(_, entry)| entry == name) {
                Some((nr, _)) => at = nr,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Calls `take` for all names below an inode, directories before what is in them.
    ///
    /// # Errors
    /// Those of `take`; too little memory.
    pub fn walk<E: From<crate::Error>>(
        &mut self,
        start: InodeNr,
        take: &mut dyn FnMut(&Image, Rescued) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.walk_from(start, Vec::new(), take)?;
        if start == InodeNr::ROOT {
            self.walk_nameless(take)?;
        }
        Ok(())
    }

    fn walk_from<E: From<crate::Error>>(
        &mut self,
        start: InodeNr,
        path: Vec<u8>,
        take: &mut dyn FnMut(&Image, Rescued) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.memory.take(waiting_bytes(&path))?;
        let mut waiting = vec![(start, path)];
        while let Some((nr, path)) = waiting.pop() {
            self.memory.give_back(waiting_bytes(&path));
            let inode = self.inode(nr);
            let directory = inode
                .clone()
                .filter(|one| one.file_type() == Some(FileType::Directory));
            let is_new = self.inodes.insert(nr.0);
            if is_new {
                self.memory.take(VISITED_BYTES)?;
            } else if directory.is_some() {
                continue;
            }
            let before = self.memory.taken_bytes();
            let kind = match &inode {
                None => Kind::Unreadable,
                Some(inode) if !is_new && inode.file_type() == Some(FileType::Regular) => {
                    Kind::Again
                }
                Some(inode) => self.kind(inode)?,
            };
            let kept = self.memory.taken_bytes().saturating_sub(before);
            let rescued = Rescued {
                path: path.clone(),
                inode: nr,
                mode: inode.as_ref().map_or(0, |inode| inode.mode),
                links: inode.as_ref().map_or(0, |inode| inode.links),
                mtime: inode
                    .as_ref()
                    .map_or(Timestamp::default(), |inode| inode.mtime),
                kind,
            };
            take(self.history.image, rescued)?;
            self.memory.give_back(kept);
            let Some(directory) = directory else {
                continue;
            };
            for (child, name) in self.entries(&directory)?.into_iter().rev() {
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend(name);
                if below.len() <= PATH_MAX {
                    self.memory.take(waiting_bytes(&below))?;
                    waiting.push((child, below));
                }
            }
        }
        Ok(())
    }

    /// Files and directories in use that no name leads to.
    fn walk_nameless<E: From<crate::Error>>(
        &mut self,
        take: &mut dyn FnMut(&Image, Rescued) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let image = self.history.image;
        let first = image.geometry().first_inode;
        let hidden = uext4_volume::HiddenInodes::of(image.superblock(), image.geometry());
        let mut nameless = Vec::new();
        image.inodes(&mut |slot| {
            let raw = RawInode(slot.bytes);
            let is_file = matches!(raw.mode() >> 12, 0x4 | 0x8) && raw.links() > 0;
            let is_value = raw.flags().contains(InodeFlags::EA_INODE);
            let is_known = self.inodes.contains(&slot.nr.0) || hidden.contains(slot.nr);
            if slot.is_allocated && is_file && !is_value && !is_known && slot.nr.0 >= first {
                self.memory.take(VISITED_BYTES)?;
                nameless.push(slot.nr);
            }
            Ok::<(), crate::Error>(())
        })?;
        for nr in nameless {
            if !self.inodes.contains(&nr.0) {
                let path = format!("lost+found/inode-{nr}").into_bytes();
                self.walk_from(nr, path, take)?;
            }
        }
        Ok(())
    }

    /// An inode, from its table or from the newest image of that with a sound one.
    fn inode(&self, nr: InodeNr) -> Option<Inode> {
        let image = self.history.image;
        let geometry = image.geometry();
        let (group, index) = geometry.split_inode(nr)?;
        let table = image.descriptor(group).inode_table;
        let (block, offset) = geometry.inode_location(table, index);
        let from = usize_of(offset);
        let to = from.saturating_add(geometry.inode_size.into());
        let parse = |bytes: &[u8], checksums: &Checksums| {
            let slot = bytes.get(from..to)?;
            let inode = Inode::parse(slot, nr, geometry, checksums).ok()?;
            inode.file_type().is_some().then_some(inode)
        };
        let sound = self.history.block_as_of(block.0, None, &|bytes| {
            parse(bytes, image.checksums()).is_some()
        });
        match sound {
            Some(bytes) => parse(&bytes, image.checksums()),
            None => parse(&image.block(block.0)?, &Checksums::NONE),
        }
    }

    fn kind(&mut self, inode: &Inode) -> Result<Kind> {
        Ok(match inode.file_type() {
            Some(FileType::Directory) => Kind::Directory,
            Some(FileType::Regular) => Kind::File(self.content(inode)?),
            Some(FileType::Symlink) => self.target(inode)?.map_or(Kind::Unreadable, Kind::Link),
            Some(_) => Kind::Special,
            None => Kind::Unreadable,
        })
    }

    fn target(&mut self, inode: &Inode) -> Result<Option<Vec<u8>>> {
        if !uext4_volume::has_map(inode) && !inode.flags.contains(InodeFlags::INLINE_DATA) {
            return Ok(inode
                .i_block
                .get(..clamp_usize(inode.size))
                .map(<[u8]>::to_vec));
        }
        if inode.size > TARGET_MAX {
            return Ok(None);
        }
        let mut content = self.content(inode)?;
        let mut target = Vec::new();
        content.read(self.history.image, &mut |_, bytes| {
            target.extend_from_slice(bytes);
            Ok::<(), crate::Error>(())
        })?;
        Ok((u64_of(target.len()) == inode.size).then_some(target))
    }

    /// The content of a file; what its map lost is lost.
    fn content(&mut self, inode: &Inode) -> Result<Content> {
        let mut content = Content {
            size: inode.size,
            block_size: self.history.image.geometry().block_size().into(),
            ..Content::default()
        };
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            content.inline = inline_content(inode);
            if content.inline.is_none() {
                content.add_lost(0..u64::MAX, self.memory)?;
            }
            return Ok(content);
        }
        for extent in self.extents(inode, &mut content)? {
            let blocks = match extent.state {
                ExtentState::Written => u64::from(extent.len).min(self.data_left),
                ExtentState::Unwritten => extent.len.into(),
            };
            if extent.state == ExtentState::Written {
                self.data_left = self.data_left.saturating_sub(blocks);
            }
            let start = u64::from(extent.logical.0);
            if blocks < u64::from(extent.len) {
                let lost = start.saturating_add(blocks)..extent.logical_end();
                content.add_lost(lost, self.memory)?;
            }
            if blocks > 0 {
                let len = clamp_u16(blocks);
                content.add_run(Extent { len, ..extent }, self.memory)?;
            }
        }
        content.put_in_order();
        Ok(content)
    }

    fn extents(&mut self, inode: &Inode, content: &mut Content) -> Result<Vec<Extent>> {
        let history = &self.history;
        let source = AsOf {
            history,
            order: None,
        };
        let mut nodes = Nodes {
            source: &source,
            left: self.nodes_left,
        };
        let geometry = history.image.geometry();
        let extents = content.extents(geometry, inode, Trust::Any, &mut nodes, self.memory);
        self.nodes_left = nodes.left;
        extents
    }

    /// The names in a directory, each with its inode.
    fn entries(&mut self, inode: &Inode) -> Result<Vec<(InodeNr, Vec<u8>)>> {
        let mut entries = HashMap::new();
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let root = uext4_format::inline_data::PARENT_BYTES;
            self.add_entries(inode.i_block.get(root..).unwrap_or_default(), &mut entries)?;
            let value = inline_content(inode).unwrap_or_default();
            let behind = value.get(inode.i_block.len()..).unwrap_or_default();
            self.add_entries(behind, &mut entries)?;
        } else {
            let (mut lost, before) = (Content::default(), self.memory.taken_bytes());
            let extents = self.extents(inode, &mut lost)?;
            let after = self.memory.taken_bytes();
            self.memory.give_back(after.saturating_sub(before));
            for extent in extents {
                let len = u64::from(extent.len).min(self.entries_left);
                self.entries_left = self.entries_left.saturating_sub(len);
                for block in extent.start.0..extent.start.0.saturating_add(len) {
                    if !self.blocks.insert(block) {
                        continue;
                    }
                    self.memory.take(VISITED_BYTES)?;
                    if let Some(bytes) = self.history.image.block(block) {
                        self.add_entries(&bytes, &mut entries)?;
                    }
                }
            }
        }
        let mut entries: Vec<(InodeNr, Vec<u8>)> =
            entries.into_iter().map(|(name, nr)| (nr, name)).collect();
        entries.sort_by(|a, b| a.1.cmp(&b.1));
        let bytes = entries
            .iter()
            .map(|(_, name)| u64_of(name.len()).saturating_add(VISITED_BYTES));
        self.memory.give_back(bytes.sum());
        Ok(entries)
    }

    /// Adds the entries of a block. Behind a damaged record each offset may begin one.
    fn add_entries(&self, bytes: &[u8], entries: &mut HashMap<Vec<u8>, InodeNr>) -> Result<()> {
        let geometry = self.history.image.geometry();
        let place = DamageLocation::Superblock;
        let mut behind = 0;
        for entry in
            DirEntries::new(bytes, 0, bytes.len(), place).map_while(std::result::Result::ok)
        {
            behind = entry.offset.saturating_add(entry.rec_len);
            if !geometry.contains_inode(entry.inode) {
                continue;
            }
            let rest = bytes.get(entry.offset..).unwrap_or_default();
            let header = RecordHeader::read(rest, bytes.len());
            if let Some(name) = header.and_then(|header| plausible(&header, rest)) {
                self.add_entry(name, entry.inode, entries)?;
            }
        }
        for at in (behind.next_multiple_of(4)..bytes.len()).step_by(4) {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(header) = RecordHeader::read(rest, bytes.len()) else {
                break;
            };
            let is_known = geometry.contains_inode(header.inode) && header.code != 0;
            if let Some(name) = plausible(&header, rest).filter(|_| is_known) {
                self.add_entry(name, header.inode, entries)?;
            }
        }
        Ok(())
    }

    fn add_entry(
        &self,
        name: &[u8],
        nr: InodeNr,
        entries: &mut HashMap<Vec<u8>, InodeNr>,
    ) -> Result<()> {
        if !entries.contains_key(name) {
            self.memory
                .take(u64_of(name.len()).saturating_add(VISITED_BYTES))?;
            entries.insert(name.to_vec(), nr);
        }
        Ok(())
    }
}

/// Memory for a name that is to be visited, in bytes.
fn waiting_bytes(path: &[u8]) -> u64 {
    u64_of(path.len()).saturating_add(VISITED_BYTES)
}
