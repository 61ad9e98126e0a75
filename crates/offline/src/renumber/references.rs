//! Where the numbers of inodes that move are: entries of directories, and of attributes whose
//! values are inodes.

use super::Renumbered;
use crate::bitmaps::for_each_inode;
use crate::descriptors::Descriptors;
use std::collections::{BTreeMap, BTreeSet};
use uext4_format::dirent::renumber;
use uext4_format::xattr::{Area, renumber_values};
use uext4_format::{
    BlockNr, DamageLocation, Feature, FileType, GroupNr, Inode, InodeFlags, InodeNr, inline_data,
};
use uext4_num::usize_of;
use uext4_volume::FileMap;
use uext4_volume::Result;
use uext4_volume::Volume;

/// An inode whose number, as it was before the first transaction, is the begin of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) nr: InodeNr,
    pub(super) generation: u32,
}

impl Owner {
    pub(super) fn of(nr: InodeNr, inode: &Inode) -> Self {
        let generation = inode.generation;
        Self { nr, generation }
    }
}

/// A place with the number of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reference {
    /// A block of a directory, with its owner.
    Entry(Owner, BlockNr),
    /// A block of extended attributes.
    Value(BlockNr),
    /// An inode: an inline directory, or attributes in it.
    Inode(InodeNr),
}

/// For each inode that moves, what refers to its number.
pub(super) struct References {
    all: BTreeMap<InodeNr, Vec<Reference>>,
}

impl References {
    /// Reads all directories and attributes.
    ///
    /// # Errors
    /// Damage; those of the device.
    pub(super) fn read(
        volume: &Volume,
        descriptors: &Descriptors,
        numbers: &Renumbered,
    ) -> Result<Self> {
        let mut finder = Finder {
            volume,
            numbers,
            has_values: volume.geometry().features.has(Feature::EA_INODE),
            attributes: BTreeSet::new(),
            found: Self {
                all: BTreeMap::new(),
            },
        };
        for group in (0..volume.geometry().group_count).map(GroupNr) {
            let descriptor = descriptors.get(group)?;
            let visit = &mut |nr: InodeNr, inode: &Inode| finder.inode(nr, inode);
            for_each_inode(volume, &descriptor, group, visit)?;
        }
        Ok(finder.found)
    }

    /// The places with the number of an inode.
    pub(super) fn to(&self, nr: InodeNr) -> &[Reference] {
        self.all.get(&nr).map_or(&[], Vec::as_slice)
    }
}

struct Finder<'a> {
    volume: &'a Volume,
    numbers: &'a Renumbered,
    has_values: bool,
    /// Blocks of attributes that were read: several inodes may share one.
    attributes: BTreeSet<BlockNr>,
    found: References,
}

impl Finder<'_> {
    fn inode(&mut self, nr: InodeNr, inode: &Inode) -> Result<()> {
        if inode.file_type() == Some(FileType::Directory) {
            if inode.flags.contains(InodeFlags::INLINE_DATA) {
                self.inline_directory(nr, inode)?
            } else {
                self.directory(nr, inode)?
            }
        }
        if !self.has_values {
            return Ok(());
        }
        let mut tail = inode.tail.to_vec();
        self.values(&mut tail, Area::InInode, Reference::Inode(nr));
        let block = inode.file_acl;
        if block.0 != 0 && self.attributes.insert(block) {
            let mut bytes = self.volume.read(block)?;
            self.values(&mut bytes, Area::InBlock, Reference::Value(block));
        }
        Ok(())
    }

    fn values(&mut self, bytes: &mut [u8], area: Area, at: Reference) {
        let mut met = Vec::new();
        renumber_values(bytes, area, |nr| {
            met.push(nr);
            None
        });
        self.add(met, at);
    }

    fn directory(&mut self, nr: InodeNr, inode: &Inode) -> Result<()> {
        let map = FileMap::read(self.volume, nr, inode)?;
        let block_size = usize_of(self.volume.geometry().block_size());
        let blocks = map.extents.iter();
        let blocks = blocks.flat_map(|extent| extent.start.0..extent.physical_end());
        for block in blocks.map(BlockNr) {
            let mut bytes = self.volume.read(block)?;
            let met = numbers_in(
                &mut bytes,
                block_size,
                DamageLocation::InodeBlock(nr, block),
            )?;
            self.add(met, Reference::Entry(Owner::of(nr, inode), block));
        }
        Ok(())
    }

    fn inline_directory(&mut self, nr: InodeNr, inode: &Inode) -> Result<()> {
        let mut met = vec![inline_data::parent(&inode.i_block)];
        let mut inode = inode.clone();
        super::rewrite::inline_entries(nr, &mut inode, &mut |nr| {
            met.push(nr);
            None
        })?;
        self.add(met, Reference::Inode(nr));
        Ok(())
    }

    fn add(&mut self, met: Vec<InodeNr>, at: Reference) {
        for nr in met {
            if self.numbers.new_number(nr).is_some() {
                self.found.all.entry(nr).or_default().push(at);
            }
        }
    }
}

/// The numbers in the entries of a block.
fn numbers_in(bytes: &mut [u8], block_size: usize, place: DamageLocation) -> Result<Vec<InodeNr>> {
    let mut met = Vec::new();
    renumber(bytes, block_size, place, |nr| {
        met.push(nr);
        None
    })?;
    Ok(met)
}
