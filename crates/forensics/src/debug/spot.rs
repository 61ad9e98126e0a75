//! Where a structure is on the device.

use super::seal::Seal;
use super::{CommandError, Debugger};
use crate::log_blocks::LogBlocks;
use crate::map::Part;
use crate::{Error, Image, Result};
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::extent::ExtentNode;
use uext4_format::fields::{
    ATTRIBUTES, ENTRY, EXTENT, Field, INDEX, INODE, JOURNAL, MMP, NODE, SUPERBLOCK, group_fields,
};
use uext4_format::jbd2::SUPERBLOCK_BYTES as JOURNAL_BYTES;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{BlockNr, Feature, GroupNr, InodeNr, RawInode};
use uext4_num::usize_of;
use uext4_sync::Arc;

/// Offset of the extra size of an inode.
const MAP_AT: usize = 0x28;
/// Bytes of a header, an extent and an index of a node.
const ITEM_BYTES: usize = 12;

type Found<T> = std::result::Result<T, CommandError>;

/// Some bytes of a block, with the fields of the structure there.
#[derive(Clone)]
pub struct Spot {
    pub(super) device: Arc<dyn BlockDevice>,
    /// The first byte that is read and written.
    pub(super) byte: u64,
    /// Bytes that are read and written: a block, or a superblock.
    pub(super) len: usize,
    /// The structure in them.
    pub(super) range: Range<usize>,
    pub(super) table: &'static [Field],
    pub(super) seal: Seal,
}

impl Spot {
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        self.device.read_at(self.byte, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn part<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.range.clone()).unwrap_or_default()
    }

    pub(super) fn part_mut<'b>(&self, bytes: &'b mut [u8]) -> &'b mut [u8] {
        bytes.get_mut(self.range.clone()).unwrap_or_default()
    }
}

impl Debugger {
    pub(super) fn superblock(&self) -> Spot {
        Spot {
            device: Arc::clone(&self.device),
            byte: SUPERBLOCK_OFFSET,
            len: SUPERBLOCK_BYTES,
            range: 0..SUPERBLOCK_BYTES,
            table: SUPERBLOCK,
            seal: Seal::Superblock,
        }
    }

    /// A part of a block of the file system.
    pub(super) fn spot(
        &self,
        image: &Image,
        block: u64,
        range: Range<usize>,
        table: &'static [Field],
        seal: Seal,
    ) -> Found<Spot> {
        let len = usize_of(image.geometry().block_size());
        let is_inside = block < image.geometry().blocks_count && range.end <= len;
        if !is_inside || range.start > range.end {
            return Err(CommandError::Outside);
        }
        let byte = block.checked_mul(image.geometry().block_size().into());
        Ok(Spot {
            device: Arc::clone(&self.device),
            byte: byte.ok_or(CommandError::Outside)?,
            len,
            range,
            table,
            seal,
        })
    }

    pub(super) fn group(&self, image: &Image, group: GroupNr) -> Found<Spot> {
        let geometry = image.geometry();
        if group.0 >= geometry.group_count {
            return Err(CommandError::Outside);
        }
        let (block, offset) = geometry.descriptor_location(group);
        let from = usize_of(offset);
        let range = from..from.saturating_add(geometry.desc_size.into());
        let table = group_fields(geometry.desc_size);
        self.spot(image, block.0, range, table, Seal::Group(group))
    }

    pub(super) fn inode(&self, image: &Image, nr: InodeNr) -> Found<Spot> {
        let geometry = image.geometry();
        let (group, index) = geometry.split_inode(nr).ok_or(CommandError::Outside)?;
        let table = image.descriptor(group).inode_table;
        let (block, offset) = geometry.inode_location(table, index);
        let from = usize_of(offset);
        let range = from..from.saturating_add(geometry.inode_size.into());
        self.spot(image, block.0, range, INODE, Seal::Inode(nr))
    }

    pub(super) fn mmp(&self, image: &Image) -> Found<Spot> {
        if !image.geometry().features.has(Feature::MMP) {
            return Err(CommandError::Missing("multiple mount protection"));
        }
        let block = image.superblock().mmp_block;
        self.spot(image, block, 0..SUPERBLOCK_BYTES, MMP, Seal::Mmp)
    }

    pub(super) fn journal(&self, image: &Image) -> Found<Spot> {
        let geometry = image.geometry();
        if !geometry.features.has(Feature::HAS_JOURNAL) {
            return Err(CommandError::Missing("a journal"));
        }
        let external = self.journal.as_ref();
        let log = uext4_volume::log::find(&self.device, image.superblock(), geometry, external);
        let log = log.map_err(Error::from)?;
        let (device, at) = (Arc::clone(&log.device), log.superblock);
        let block = LogBlocks::new(log, geometry.block_size()).device_block(at);
        let byte = block.and_then(|block| block.checked_mul(geometry.block_size().into()));
        Ok(Spot {
            device,
            byte: byte.ok_or(CommandError::Outside)?,
            len: JOURNAL_BYTES,
            range: 0..JOURNAL_BYTES,
            table: JOURNAL,
            seal: Seal::Journal,
        })
    }

    /// The block of attributes of an inode.
    pub(super) fn attributes(&self, image: &Image, nr: InodeNr) -> Found<Spot> {
        let inode = self.bytes_of(image, nr)?;
        let block = uext4_format::fields::find(INODE, "file_acl");
        let block = block.and_then(|field| field.get(&inode));
        match block {
            Some(uext4_format::fields::Value::Number(block)) if block != 0 => {
                let range = 0..ITEM_BYTES.saturating_mul(2).saturating_add(8);
                self.spot(
                    image,
                    block,
                    range,
                    ATTRIBUTES,
                    Seal::Attributes(BlockNr(block)),
                )
            }
            _ => Err(CommandError::Missing("a block of attributes")),
        }
    }

    /// An entry at an offset of a block of a directory.
    pub(super) fn entry(
        &self,
        image: &Image,
        nr: InodeNr,
        block: u64,
        offset: usize,
    ) -> Found<Spot> {
        let range = offset..offset.saturating_add(8);
        let is_there = super::show::maps(image, nr, &|part| match part {
            Part::Data(extent) => (extent.start.0..extent.physical_end()).contains(&block),
            _ => false,
        })?;
        if !is_there {
            return Err(CommandError::Missing("a block of this directory"));
        }
        let seal = Seal::Directory(nr, self.generation(image, nr)?);
        self.spot(image, block, range, ENTRY, seal)
    }

    /// The header of a node of a map: in the inode, or a block.
    pub(super) fn node(&self, image: &Image, nr: InodeNr, block: Option<u64>) -> Found<Spot> {
        let mut spot = match block {
            None => {
                let mut inode = self.inode(image, nr)?;
                inode.range = inode.range.start.saturating_add(MAP_AT)..inode.range.end;
                inode
            }
            Some(block) => {
                if !super::show::maps(image, nr, &|part| *part == Part::Node(block))? {
                    return Err(CommandError::Missing("a node of this map"));
                }
                let seal = Seal::Node(nr, self.generation(image, nr)?);
                let len = usize_of(image.geometry().block_size());
                self.spot(image, block, 0..len, NODE, seal)?
            }
        };
        spot.table = NODE;
        Ok(spot)
    }

    /// An extent or an index of a node.
    pub(super) fn extent(
        &self,
        image: &Image,
        nr: InodeNr,
        block: Option<u64>,
        index: usize,
    ) -> Found<Spot> {
        let mut spot = self.node(image, nr, block)?;
        let bytes = spot.read()?;
        let node = spot.part(&bytes).to_vec();
        let depth = ExtentNode::new(&node[..]).depth();
        let at = index
            .checked_add(1)
            .and_then(|at| at.checked_mul(ITEM_BYTES));
        let from = at.and_then(|at| spot.range.start.checked_add(at));
        let from = from.ok_or(CommandError::Outside)?;
        let to = from.checked_add(ITEM_BYTES).ok_or(CommandError::Outside)?;
        let end = match block {
            None => spot.range.start.saturating_add(uext4_format::I_BLOCK_BYTES),
            Some(_) => spot.range.end,
        };
        if to > end {
            return Err(CommandError::Outside);
        }
        spot.range = from..to;
        spot.table = if depth == 0 { EXTENT } else { INDEX };
        Ok(spot)
    }

    /// Some bytes of a block, without fields and without a checksum.
    pub(super) fn bytes(
        &self,
        image: &Image,
        block: u64,
        offset: usize,
        len: usize,
    ) -> Found<Spot> {
        let range = offset..offset.saturating_add(len);
        self.spot(image, block, range, &[], Seal::None)
    }

    pub(super) fn bytes_of(&self, image: &Image, nr: InodeNr) -> Found<Vec<u8>> {
        let spot = self.inode(image, nr)?;
        let bytes = spot.read()?;
        Ok(spot.part(&bytes).to_vec())
    }

    fn generation(&self, image: &Image, nr: InodeNr) -> Found<u32> {
        Ok(RawInode(&self.bytes_of(image, nr)?).generation())
    }
}
