//! Inodes and contents of the walk, with what the log has where a table is damaged.

use super::{Kind, Rescue, TARGET_MAX};
use crate::Result;
use crate::content::Content;
use crate::deleted::{AsOf, inline_content};
use crate::map::{Nodes, Trust};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{Checksums, FileType, Inode, InodeFlags, InodeNr};
use uext4_num::{clamp_u16, clamp_usize, u64_of, usize_of};

impl Rescue<'_> {
    /// An inode, from its table or from the newest image of that with a sound one.
    pub(super) fn inode(&self, nr: InodeNr) -> Option<Inode> {
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

    pub(super) fn kind(&mut self, inode: &Inode) -> Result<Kind> {
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

    pub(super) fn extents(&mut self, inode: &Inode, content: &mut Content) -> Result<Vec<Extent>> {
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
}
