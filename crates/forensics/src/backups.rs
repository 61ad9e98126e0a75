//! Copies of the superblock and of descriptors, for those that are damaged.

use crate::{Image, Memory, Result};
use uext4_device::{BlockDevice, Overlay};
use uext4_format::superblock::SUPERBLOCK_OFFSET;
use uext4_format::{Geometry, GroupDescriptor, GroupNr};
use uext4_num::usize_of;
use uext4_sync::Arc;
use uext4_volume::superblock::{read_primary, read_superblock};

/// Block sizes, as log2 of KiB.
const SIZES: std::ops::RangeInclusive<u32> = 0..=6;
/// Groups with copies, whatever the features: the first powers of 3, 5 and 7.
const GROUPS: [u64; 9] = [1, 3, 5, 7, 9, 25, 27, 49, 81];
/// Memory for each descriptor that is replaced, in bytes.
const DESCRIPTOR_BYTES: u64 = 1 << 12;
/// Groups from the first one on that are tried, where all have copies.
const FIRST_GROUPS: u32 = 9;
/// Groups whose copies of a descriptor are read.
const COPIES: usize = 8;

impl Image {
    /// As [`Image::open`], by a copy of the superblock if the primary one is damaged, and with
    /// copies of damaged descriptors. The second value says where the superblock is, in KiB.
    ///
    /// # Errors
    /// As [`Image::open`] of the primary superblock, if no copy is sound.
    pub fn open_with_backups(
        device: Arc<dyn BlockDevice>,
        memory: &Memory,
    ) -> Result<(Self, Option<u64>)> {
        let overlay: Arc<dyn BlockDevice> = Arc::new(Overlay::new(Arc::clone(&device)));
        let opened = Self::open(Arc::clone(&overlay), None, memory);
        let (image, at) = match opened {
            Ok(image) => (image, None),
            Err(error) => {
                let found = positions().find(|kib| is_copy(&*device, *kib));
                let Some(kib) = found else {
                    return Err(error);
                };
                let copy = read_primary(&*device, Some(kib))?;
                overlay.write_at(SUPERBLOCK_OFFSET, &copy.to_bytes())?;
                (Self::open(Arc::clone(&overlay), None, memory)?, Some(kib))
            }
        };
        match image.replace_descriptors(&*overlay, memory)? {
            Descriptors::Sound => Ok((image, at)),
            Descriptors::Replaced => Ok((Self::open(overlay, None, memory)?, at)),
        }
    }

    /// Writes copies of the descriptors that are damaged in their places.
    fn replace_descriptors(
        &self,
        overlay: &dyn BlockDevice,
        memory: &Memory,
    ) -> Result<Descriptors> {
        let geometry = *self.geometry();
        let mut done = Descriptors::Sound;
        for group in (0..geometry.group_count).map(GroupNr) {
            if self.parsed_descriptor(group).is_ok() {
                continue;
            }
            if let Some(copy) = self.copy_of_descriptor(group) {
                // An overlay keeps whole pages.
                memory.take(DESCRIPTOR_BYTES)?;
                let mut slot = vec![0; geometry.desc_size.into()];
                copy.write_to(&mut slot, group, &geometry, self.checksums());
                let (block, offset) = geometry.descriptor_location(group);
                let start = block.0.saturating_mul(geometry.block_size().into());
                overlay.write_at(start.saturating_add(offset.into()), &slot)?;
                done = Descriptors::Replaced;
            }
        }
        Ok(done)
    }

    /// A sound copy of a descriptor. Its flags may be old, so it has none.
    fn copy_of_descriptor(&self, group: GroupNr) -> Option<GroupDescriptor> {
        let geometry = *self.geometry();
        let per_block = geometry.descriptors_per_block();
        let index = group.0.checked_div(per_block)?;
        let offset = group.0.checked_rem(per_block)?;
        let from = usize_of(offset).checked_mul(geometry.desc_size.into())?;
        let to = from.checked_add(geometry.desc_size.into())?;
        let blocks = backup_groups(&geometry, index)
            .filter_map(|backup| copy_block(&geometry, backup, index))
            .take(COPIES);
        for block in blocks {
            let bytes = self.block(block);
            let slot = bytes.as_deref().and_then(|bytes| bytes.get(from..to));
            let parsed =
                slot.map(|slot| GroupDescriptor::parse(slot, group, &geometry, self.checksums()));
            if let Some(Ok(mut copy)) = parsed {
                (copy.flags, copy.itable_unused) = (0, 0);
                return Some(copy);
            }
        }
        None
    }
}

/// Whether descriptors were replaced by their copies.
enum Descriptors {
    Sound,
    Replaced,
}

/// Whether there is a sound copy of a superblock for this position.
fn is_copy(device: &dyn BlockDevice, kib: u64) -> bool {
    let Ok(found) = read_superblock(device, Some(kib)) else {
        return false;
    };
    let Ok(geometry) = found.geometry() else {
        return false;
    };
    let group = GroupNr(found.block_group_nr.into());
    let block = geometry.superblock_block(group).map(|block| block.0);
    let bytes = block.and_then(|block| block.checked_mul(geometry.block_size().into()));
    bytes == kib.checked_mul(1024) && geometry.size_bytes() <= device.size_bytes()
}

/// Positions of copies in file systems of the default layout, in KiB.
fn positions() -> impl Iterator<Item = u64> {
    GROUPS.into_iter().flat_map(|group| {
        SIZES.map(move |bits| {
            let blocks_per_group = 8192_u64.checked_shl(bits).unwrap_or(0);
            let first = u64::from(bits == 0);
            let block = group.saturating_mul(blocks_per_group).saturating_add(first);
            block.checked_shl(bits).unwrap_or(u64::MAX)
        })
    })
}

/// Groups that may have a copy of a block of descriptors, whatever the features.
fn backup_groups(geometry: &Geometry, index: u32) -> impl Iterator<Item = GroupNr> {
    let per_block = geometry.descriptors_per_block();
    let first = index.saturating_mul(per_block);
    let last = first.saturating_add(per_block).saturating_sub(1);
    let in_meta_group = [first.saturating_add(1), last];
    let [one, two] = geometry.backup_bgs;
    let powers = [3_u32, 5, 7]
        .into_iter()
        .flat_map(|base| std::iter::successors(Some(base), move |power| power.checked_mul(base)));
    let all = in_meta_group
        .into_iter()
        .chain([one, two])
        .chain(1..FIRST_GROUPS)
        .chain(powers);
    let count = geometry.group_count;
    all.filter(move |group| (1..count).contains(group))
        .map(GroupNr)
}

/// The block of a group with a copy of a block of descriptors.
fn copy_block(geometry: &Geometry, backup: GroupNr, index: u32) -> Option<u64> {
    let (first, run) = geometry.descriptor_run(backup)?;
    let into = index
        .checked_sub(first)
        .filter(|into| *into < run.len_blocks)?;
    run.start.0.checked_add(into.into())
}
