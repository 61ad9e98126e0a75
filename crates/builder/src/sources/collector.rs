//! The entries of all layers, as far as they have come.
//!
//! Contents of streams are written when they come, since a stream is read once.

use std::io::Read;
use std::ops::Range;

use uext4_format::FileType;
use uext4_num::{clamp_u32, u64_of, usize_of};

use crate::content::streams::{Stream, are_sound};
use crate::content::writer::ContentWriter;
use crate::error::{Error, Result};
use crate::sources::entry::{Content, Data, Entry, Node, ReadAt};
use crate::sources::layers::PathSlot;
use crate::sources::spool::{Spool, Spooled};
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, Later};
use crate::tree::ids::FileId;
use crate::tree::keys::Key;

/// Logical blocks that a file can have.
const FILE_BLOCKS_MAX: u64 = uext4_format::extent::LOGICAL_BLOCKS;

/// Entries without contents between two calls of the callback.
const ENTRIES_UNWATCHED: u64 = 4096;

/// The tree so far, and the writer of contents.
pub(crate) struct Collector {
    pub(crate) tree: Tree,
    pub(crate) writer: ContentWriter,
    pub(crate) spool: Spool,
    /// Number of entries so far.
    pub(crate) entries: u64,
}

impl Collector {
    pub(crate) fn new(tree: Tree, writer: ContentWriter) -> Collector {
        Collector {
            tree,
            writer,
            spool: Spool::default(),
            entries: 0,
        }
    }

    /// Adds an entry to the tree of its layer, and writes its contents if it is a stream.
    pub(crate) fn add(&mut self, mut entry: Entry<'_>) -> Result<()> {
        self.entries += 1;
        if self.entries.is_multiple_of(ENTRIES_UNWATCHED) {
            self.writer.reporter.report()?;
        }
        let path = std::mem::take(&mut entry.path);
        let mtime = entry.attributes.mtime;
        let slot = self.tree.slot(&path)?;
        if let Some(file) = self.add_node(&path, &slot, entry)? {
            let file = self.tree.file_mut(file);
            (file.seconds, file.nanoseconds) = (mtime.seconds, mtime.nanoseconds);
        }
        Ok(())
    }

    fn add_content(&mut self, file: FileId, path: &[u8], content: Content<'_>) -> Result<()> {
        let size = content.size;
        let max = FILE_BLOCKS_MAX.saturating_mul(u64::from(self.writer.block_size()));
        if size > max {
            let problem = format!("the file has {size} bytes, and at most {max} are possible");
            return Err(Error::refused(path, problem, "use larger blocks"));
        }
        self.tree.file_mut(file).size = size;
        let (Data::Stream { ranges, .. } | Data::Later { ranges, .. }) = &content.data;
        if !are_sound(ranges, size) {
            let problem = "its ranges of data are not in order, or not inside the file";
            return Err(Error::refused(
                path,
                problem,
                "this is an error of the source",
            ));
        }
        match content.data {
            Data::Later { ranges, file: from } => self.add_later(file, size, ranges, from),
            Data::Stream { ranges, reader } => {
                if self.tree.is_covered(path) {
                    let spooled = self.spool(path, &ranges, reader)?;
                    return self.add_later(file, size, ranges, Box::new(spooled));
                }
                self.tree.keys.set(file, || Key::of_path(path));
                let stream = Stream {
                    file,
                    size,
                    ranges,
                    reader,
                };
                self.writer.write_stream(&mut self.tree, path, stream)
            }
        }
    }

    fn add_later(
        &mut self,
        file: FileId,
        size: u64,
        ranges: Vec<Range<u64>>,
        from: Box<dyn ReadAt>,
    ) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let is_whole = ranges.len() == 1 && ranges[0] == (0..size);
        let at = clamp_u32(self.tree.laters.len());
        self.tree.laters.push(Later {
            file: from,
            ranges: (!is_whole).then(|| ranges.into()),
        });
        self.tree.file_mut(file).location = DataLocation::Later(at);
        Ok(())
    }

    /// Keeps the contents of a file that upper layers seem to hide in a temporary file: another
    /// name may keep the file in the image.
    fn spool(
        &mut self,
        path: &[u8],
        ranges: &[Range<u64>],
        reader: &mut dyn Read,
    ) -> Result<Spooled> {
        let mut spooled = self.spool.begin(path)?;
        let mut left: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        while left > 0 {
            left -= spooled.copy(reader, left)?;
            self.writer.reporter.report()?;
        }
        spooled.finish(ranges)
    }

    fn add_node(
        &mut self,
        path: &[u8],
        slot: &PathSlot<'_>,
        entry: Entry<'_>,
    ) -> Result<Option<FileId>> {
        let mut entry = entry;
        if matches!(entry.node, Node::Symlink(_)) {
            entry.attributes.permissions = 0o777; // the only ones that Linux shows
        }
        let attributes = self.tree.attributes.intern(path, &entry.attributes)?;
        let kind = match &entry.node {
            Node::Directory => {
                return self.tree.add_directory(path, slot, attributes).map(Some);
            }
            Node::Link(target) => {
                self.tree.add_link(path, slot, target)?;
                return Ok(None);
            }
            Node::File(_) => FileType::Regular,
            Node::Symlink(_) => FileType::Symlink,
            Node::CharDevice(_) => FileType::CharDevice,
            Node::BlockDevice(_) => FileType::BlockDevice,
            Node::Fifo => FileType::Fifo,
            Node::Socket => FileType::Socket,
        };
        let file = self.tree.add_file(path, slot, kind, attributes)?;
        match entry.node {
            Node::File(content) => self.add_content(file, path, content)?,
            Node::Symlink(target) => self.add_target(file, path, &target)?,
            Node::CharDevice(device) | Node::BlockDevice(device) => {
                let number = u64::from(device.major) << 32 | u64::from(device.minor);
                self.tree.file_mut(file).size = number;
            }
            _ => {}
        }
        Ok(Some(file))
    }

    fn add_target(&mut self, file: FileId, path: &[u8], target: &[u8]) -> Result<()> {
        let max = usize_of(self.writer.block_size()).min(4096) - 1;
        if target.is_empty() || target.len() > max || target.contains(&0) {
            let problem = format!("the target of the symbolic link has not 1 to {max} bytes");
            return Err(Error::refused(
                path,
                problem,
                "use a shorter link, or larger blocks",
            ));
        }
        let location = self.tree.keep(target)?;
        let file = self.tree.file_mut(file);
        (file.location, file.size) = (location, u64_of(target.len()));
        Ok(())
    }
}
