//! Files of a damaged file system: the tree below a path, read past damage.
//!
//! Mechanism: what is damaged is replaced by a copy, where there is one: the superblock and
//! descriptors by their backups, blocks of inode tables and maps by their newest image in the log.
//! What has no copy is left out, and the walk goes on. Inodes in use without a name that can be
//! read come last, if the walk begins at the root.
//!
//! Layout: `read` has inodes and contents, `names` the names of directories.
//! Invariants: each directory and each of their blocks is read once, and all files together have at
//! most the blocks of the file system, so that the size of the image bounds time and output.

mod names;
mod read;

use crate::content::Content;
use crate::deleted::History;
use crate::map::nodes_max;
use crate::{Image, Memory, Result, Ring};
use std::collections::HashSet;
use uext4_format::{FileType, InodeFlags, InodeNr, RawInode, Timestamp};
use uext4_num::u64_of;

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
}

/// Memory for a name that is to be visited, in bytes.
fn waiting_bytes(path: &[u8]) -> u64 {
    u64_of(path.len()).saturating_add(VISITED_BYTES)
}
