//! State shared by all groups: geometry, checksums, encoding of bitmaps and descriptors.

use uext4_alloc::Bitmap;
use uext4_format::superblock::DESC_SIZE_MAX;
use uext4_format::{Checksums, Geometry, GroupDescriptor, GroupNr};
use uext4_journal::Sink;
use uext4_num::usize_of;
use uext4_sync::Latest;

/// Shared by all groups of a file system.
pub(crate) struct GroupLayout {
    pub(super) geometry: Latest<Geometry>,
    pub(super) checksums: Checksums,
}

impl GroupLayout {
    /// The block of a bitmap; bits past its end are set, as ext4 requires.
    pub(super) fn bitmap_bytes(&self, bitmap: &Bitmap) -> Vec<u8> {
        let mut bytes = vec![0xFF; usize_of(self.geometry.block_size())];
        bitmap.write_to(&mut bytes);
        bytes
    }

    /// Emits a descriptor to its location.
    pub(super) fn emit(&self, nr: GroupNr, descriptor: &GroupDescriptor, out: &mut Sink<'_>) {
        let mut bytes = [0u8; usize_of(DESC_SIZE_MAX)];
        let size = usize::from(self.geometry.desc_size).min(bytes.len());
        descriptor.write_to(&mut bytes[..size], nr, &self.geometry, &self.checksums);
        let (block, offset) = self.geometry.descriptor_location(nr);
        out.patch(block, usize_of(offset), &bytes[..size]);
    }
}
