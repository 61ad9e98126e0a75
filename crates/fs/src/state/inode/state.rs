//! The live state of an inode and its rendering.

use super::changed_ranges::ChangedRanges;
use super::facts::{PublishedAttrs, PublishedFacts};
use crate::cache::extent_status::StatusSlot;
use std::ops::Range;
use uext4_format::{
    BlockNr, Checksums, GOOD_OLD_INODE_BYTES, Geometry, Inode as DiskInode, InodeNr, Seed,
};
use uext4_journal::{Render, Sink};
use uext4_num::clamp_u16;
use uext4_sync::{Arc, Rank};

/// Inodes up to this size are rendered on the stack.
pub(super) const STACK_BYTES: usize = 512;

/// The transaction in which the inode is dirty changes its data, size or map.
const UNSYNCED_DATA: u8 = 1;
/// A fast commit recorded the inode since it was loaded.
const RECORDED: u8 = 2;

/// How inodes are laid out and checksummed on one file system.
#[derive(Clone)]
pub(crate) struct InodeFormat {
    pub(crate) geometry: Geometry,
    pub(crate) checksums: Checksums,
}

impl InodeFormat {
    /// Seed of all checksums that belong to an inode's metadata blocks.
    pub(crate) fn seed(&self, nr: InodeNr, generation: u32) -> Seed {
        let seed = self.checksums.inode_seed(nr, generation);
        seed.unwrap_or(Seed(0))
    }
}

/// The current state of an inode. `disk` has every on-disk field; unknown bytes are kept in it.
pub struct InodeState {
    pub(crate) disk: DiskInode,
    /// The size on disk while it is below `disk.size`, which users see: the data between the two
    /// are in memory (`delayed`). Else `u64::MAX`.
    pub(crate) disksize: u64,
    /// Clusters reserved for map blocks that the current change of the map takes (`delayed`).
    pub(crate) tree_claims: u64,
    nr: InodeNr,
    /// Byte offset of the slot in its block, which has at most 64 KiB.
    offset: u16,
    block: BlockNr,
    format: Arc<InodeFormat>,
    /// Cached map lookups (extent status).
    pub(crate) status: StatusSlot,
    /// Ranges changed since the last commit, if it may be a fast one.
    changed: Option<Box<ChangedRanges>>,
    /// Of a directory: the published facts.
    pub(super) published: Option<Arc<PublishedFacts>>,
    /// Flags [`UNSYNCED_DATA`] and [`RECORDED`].
    notes: u8,
    /// What the present holder of the lock changes.
    changing: Change,
}

/// What a change of an inode leaves for `fdatasync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Nothing: attributes without which the data can be read.
    Attributes,
    /// Data, size or map, or it is not known.
    Data,
}

impl InodeState {
    pub(crate) fn new(
        nr: InodeNr,
        disk: DiskInode,
        place: (BlockNr, usize),
        format: Arc<InodeFormat>,
    ) -> Self {
        Self {
            disk,
            disksize: u64::MAX,
            tree_claims: 0,
            nr,
            offset: clamp_u16(place.1),
            block: place.0,
            format,
            status: StatusSlot::default(),
            changed: None,
            published: None,
            notes: 0,
            changing: Change::Data,
        }
    }

    /// Declares that the holder of the lock changes no data, no size on disk and no map, so that
    /// `fdatasync` need not commit the change.
    pub(crate) fn only_attributes(&mut self) {
        self.changing = Change::Attributes;
    }

    /// Whether a change of data, size or map is not rendered for a commit.
    pub(crate) fn has_unsynced_data(&self) -> bool {
        self.notes & UNSYNCED_DATA != 0
    }

    /// Byte offset of `i_block` on the device.
    pub(crate) fn i_block_byte(&self, block_bits: u32) -> u64 {
        const I_BLOCK_AT: u64 = 0x28;
        (self.block.0 << block_bits) + u64::from(self.offset) + I_BLOCK_AT
    }

    /// The attribute area. Inodes without extra fields have none, as in Linux.
    pub(crate) fn xattr_area(&self) -> &[u8] {
        if self.disk.extra_isize == 0 {
            &[]
        } else {
            &self.disk.tail
        }
    }

    pub(crate) fn xattr_area_mut(&mut self) -> &mut [u8] {
        if self.disk.extra_isize == 0 {
            &mut []
        } else {
            &mut self.disk.tail
        }
    }

    /// Whether the inode has the number of its fields behind the first 128 bytes, if it has such
    /// bytes: 0 in inodes that were written before the inode table was made wider.
    pub(crate) fn has_room_for_fields(&self) -> bool {
        const LEAST: u16 = 4;
        let size = usize::from(self.format.geometry.inode_size);
        size <= GOOD_OLD_INODE_BYTES || self.disk.extra_isize >= LEAST
    }

    /// False if the inode surely has no attributes. No I/O.
    pub(crate) fn has_xattrs(&self) -> bool {
        // The magic is not zero; an area without it is empty.
        let magic = self.xattr_area().get(..4);
        self.disk.file_acl != BlockNr(0) || magic.is_some_and(|magic| magic != [0; 4])
    }

    /// The size on disk in bytes.
    pub(crate) fn size_on_disk(&self) -> u64 {
        self.disksize.min(self.disk.size)
    }

    /// Notes a changed range of the map, for a fast commit.
    pub(crate) fn record_changed(&mut self, range: Range<u64>) {
        self.changed.get_or_insert_default().add(range);
    }

    /// Takes the ranges noted since the last commit.
    pub(crate) fn take_changed(&mut self) -> ChangedRanges {
        self.changed
            .take()
            .map_or_else(Default::default, |changed| *changed)
    }

    /// Whether a fast commit recorded the inode, so that more of them are likely.
    pub(crate) fn is_recorded(&self) -> bool {
        self.notes & RECORDED != 0
    }

    /// The bytes that a commit would log now, without the attribute area, for a record.
    pub(crate) fn record_bytes(&mut self) -> Box<[u8]> {
        self.notes |= RECORDED;
        let (size, base) = (self.format.geometry.inode_size, GOOD_OLD_INODE_BYTES);
        let mut bytes = vec![0; usize::from(size)];
        self.with_disk_size(|state| state.write_bytes(&mut bytes));
        bytes.truncate(base + usize::from(self.disk.extra_isize));
        bytes.into()
    }

    /// As [`Self::record_bytes`], of the file without its data, with its last name.
    pub(crate) fn emptied_bytes(&mut self) -> Box<[u8]> {
        let (size, links) = (self.disk.size, self.disk.links);
        (self.disk.size, self.disk.links) = (0, 1);
        let bytes = self.record_bytes();
        (self.disk.size, self.disk.links) = (size, links);
        bytes
    }

    pub(crate) fn nr(&self) -> InodeNr {
        self.nr
    }

    /// Seed of all checksums that belong to this inode's metadata blocks.
    pub(crate) fn seed(&self) -> Seed {
        self.format.seed(self.nr, self.disk.generation)
    }
}

impl InodeState {
    fn write_bytes(&self, buf: &mut [u8]) {
        self.disk
            .write_to(buf, self.nr, &self.format.geometry, &self.format.checksums);
    }
}

impl Render for InodeState {
    const RANK: Rank = Rank::InodeState;

    fn released(&mut self) {
        if std::mem::replace(&mut self.changing, Change::Data) == Change::Data {
            self.notes |= UNSYNCED_DATA;
        }
        if let Some(published) = &self.published {
            published.publish(PublishedAttrs::of(self).to_words());
        }
    }

    fn shared_block(&self) -> Option<BlockNr> {
        Some(self.block)
    }

    fn record_key(&self) -> Option<u64> {
        Some(self.nr.0.into())
    }

    fn render(&mut self, out: &mut Sink<'_>) {
        self.changed = None;
        self.with_disk_size(|state| state.render_disk(out));
        self.notes &= !UNSYNCED_DATA;
    }
}

impl InodeState {
    fn with_disk_size(&mut self, work: impl FnOnce(&Self)) {
        let seen = self.disk.size;
        self.disk.size = self.size_on_disk();
        work(self);
        self.disk.size = seen;
    }

    fn render_disk(&self, out: &mut Sink<'_>) {
        let size = usize::from(self.format.geometry.inode_size);
        if size <= STACK_BYTES {
            let mut buf = [0u8; STACK_BYTES];
            self.write_bytes(&mut buf[..size]);
            out.patch(self.block, usize::from(self.offset), &buf[..size]);
        } else {
            let mut buf = vec![0u8; size];
            self.write_bytes(&mut buf);
            out.patch(self.block, usize::from(self.offset), &buf);
        }
    }
}
