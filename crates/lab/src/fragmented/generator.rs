//! Generates a large, fragmented file system in a sparse file, in seconds.
//!
//! The library's mkfs makes an empty one; then every block bitmap is replaced by the pattern of its
//! group, and counts and checksums are updated. Kernel and e2fsck accept the result. Up to
//! [`OWNED_BYTES_MAX`] the used blocks belong to the bad-blocks inode. In larger file systems they
//! have no owner, which e2fsck reports, because the extents alone would take gigabytes.

use super::owner;
use super::pattern::{self, Bits, WORDS};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use uext4::device::{BlockDevice, FileDevice};
use uext4::format::bitmap::uninit_block_bitmap;
use uext4::format::superblock::{SUPERBLOCK_OFFSET, state};
use uext4::format::{
    BlockNr, Checksums, Feature, Geometry, GroupDescriptor, GroupNr, Superblock,
    block_bitmap_checksum, group_flag,
};
use uext4::mkfs::{self, DeviceContents, InodeCount, JournalSize, MkfsOptions, Preset};

/// In file systems up to this size in bytes the used blocks have an owner.
pub(super) const OWNED_BYTES_MAX: u64 = 64 << 30;
const BLOCK_BYTES: u64 = 4096;
const JOURNAL_MIB: u32 = 64;
const UUID: [u8; 16] = *b"uext4 fragmented";
/// Time of all inodes in seconds since 1970: the same size gives the same bytes.
const TIME: u64 = 1_600_000_000;

/// Generates the file system of `size_bytes` in a new sparse file.
pub(super) fn generate(path: &Path, size_bytes: u64) -> Result<()> {
    let device = FileDevice::create(path, size_bytes)?;
    let report = mkfs::format(&device, &options()).context("mkfs")?;
    let geometry = report.geometry;
    ensure!(
        geometry.blocks_per_group == WORDS as u32 * 64,
        "groups are not of the usual size"
    );
    let image = Image {
        device: &device,
        geometry,
        checksums: report.superblock.checksums(),
    };
    let mut descriptors = image.descriptors()?;
    let per_flex = geometry.groups_per_flex() as usize;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = descriptors
        .len()
        .div_ceil(threads)
        .next_multiple_of(per_flex);
    let used = std::thread::scope(|scope| -> Result<Vec<u32>> {
        let parts = (0..).step_by(part).zip(descriptors.chunks_mut(part));
        let threads: Vec<_> = parts
            .map(|(first, part)| {
                let image = &image;
                scope.spawn(move || image.fill_groups(first, part))
            })
            .collect();
        let mut used = Vec::new();
        for thread in threads {
            used.extend(thread.join().expect("filling groups does not panic")?);
        }
        Ok(used)
    })?;
    if image.is_owned() {
        let table = descriptors[0].inode_table;
        owner::adopt(&device, &geometry, &image.checksums, table, &used)?;
    }
    image.write_descriptors(&descriptors)?;
    image.write_superblocks(report.superblock, &descriptors)?;
    Ok(device.flush()?)
}

fn options() -> MkfsOptions {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.remove(Feature::RESIZE_INODE);
    // Copies of the descriptors of 60 TiB take 30 MiB each: two are enough.
    options.features.remove(Feature::SPARSE_SUPER);
    options.features.insert(Feature::SPARSE_SUPER2);
    options.block_size = Some(BLOCK_BYTES as u32);
    options.inodes = InodeCount::BytesPerInode(64 << 10);
    options.journal = JournalSize::Mib(JOURNAL_MIB);
    options.reserved_permyriad = 0;
    options.contents = DeviceContents::Zeroed;
    options.uuid = Some(UUID);
    options.hash_seed = Some(UUID);
    options.time = Some(TIME);
    options
}

struct Image<'a> {
    device: &'a FileDevice,
    geometry: Geometry,
    checksums: Checksums,
}

impl Image<'_> {
    fn descriptors(&self) -> Result<Vec<GroupDescriptor>> {
        let size = usize::from(self.geometry.desc_size);
        let mut bytes = vec![0; self.geometry.group_count as usize * size];
        let start = self.geometry.descriptor_block(0).0 * BLOCK_BYTES;
        self.device.read_at(start, &mut bytes)?;
        Ok((0..)
            .zip(bytes.chunks(size))
            .map(|(nr, bytes)| {
                GroupDescriptor::parse(bytes, GroupNr(nr), &self.geometry, &self.checksums)
            })
            .collect::<Result<_, _>>()?)
    }

    fn is_owned(&self) -> bool {
        self.geometry.size_bytes() <= OWNED_BYTES_MAX
    }

    /// Fills the groups from `first` on; returns the blocks that need an owner. The bitmaps of a
    /// flexible group are adjacent and written together.
    fn fill_groups(&self, first: u32, descriptors: &mut [GroupDescriptor]) -> Result<Vec<u32>> {
        let mut used = Vec::new();
        let per_flex = self.geometry.groups_per_flex() as usize;
        let starts = (first..).step_by(per_flex);
        for (start, flex) in starts.zip(descriptors.chunks_mut(per_flex)) {
            let mut bytes = Vec::with_capacity(flex.len() * BLOCK_BYTES as usize);
            for (group, descriptor) in (start..).zip(&mut *flex) {
                bytes.extend(self.fill_group(GroupNr(group), descriptor, &mut used)?);
            }
            let at = flex[0].block_bitmap;
            let in_a_row = (at.0..)
                .zip(&*flex)
                .all(|(nr, one)| one.block_bitmap.0 == nr);
            ensure!(
                in_a_row,
                "bitmaps of a flexible group do not stand in a row"
            );
            self.device.write_at(at.0 * BLOCK_BYTES, &bytes)?;
        }
        Ok(used)
    }

    /// The bitmap of a group; updates its descriptor.
    fn fill_group(
        &self,
        group: GroupNr,
        descriptor: &mut GroupDescriptor,
        used: &mut Vec<u32>,
    ) -> Result<Vec<u8>> {
        let geometry = &self.geometry;
        let mut bitmap = vec![0; BLOCK_BYTES as usize];
        if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
            bitmap = uninit_block_bitmap(geometry, group, descriptor);
        } else {
            let at = descriptor.block_bitmap.0 * BLOCK_BYTES;
            self.device.read_at(at, &mut bitmap)?;
        }
        let long_run =
            pattern::has_long_run(group.0, geometry.group_count, geometry.groups_per_flex());
        let pattern = pattern::pattern(group.0, long_run);
        if self.is_owned() {
            let first = geometry.group_first_block(group).0 as u32; // small file systems only
            push_new(&bitmap, &pattern, first, used);
        }
        descriptor.free_clusters = merge(&mut bitmap, &pattern);
        descriptor.flags &= !group_flag::BLOCK_UNINIT;
        if let Some(seed) = self.checksums.metadata {
            let checksum = block_bitmap_checksum(seed, &bitmap, geometry);
            descriptor.set_block_bitmap_checksum(checksum, geometry);
        }
        Ok(bitmap)
    }

    fn write_descriptors(&self, descriptors: &[GroupDescriptor]) -> Result<()> {
        let geometry = &self.geometry;
        let size = usize::from(geometry.desc_size);
        let blocks = geometry.descriptor_blocks_count() as usize;
        let mut bytes = vec![0; blocks * BLOCK_BYTES as usize];
        for ((nr, descriptor), out) in (0..).zip(descriptors).zip(bytes.chunks_mut(size)) {
            descriptor.write_to(out, GroupNr(nr), geometry, &self.checksums);
        }
        for group in (0..geometry.group_count).map(GroupNr) {
            if let Some((_, run)) = geometry.descriptor_run(group) {
                self.device.write_at(run.start.0 * BLOCK_BYTES, &bytes)?;
            }
        }
        Ok(())
    }

    fn write_superblocks(
        &self,
        mut superblock: Superblock,
        descriptors: &[GroupDescriptor],
    ) -> Result<()> {
        let free = descriptors.iter().map(|one| u64::from(one.free_clusters));
        superblock.free_blocks_count = free.sum();
        let bytes = superblock.to_bytes();
        self.device.write_at(SUPERBLOCK_OFFSET, &bytes)?;
        superblock.state &= !state::VALID;
        for group in (1..self.geometry.group_count).map(GroupNr) {
            if let Some(BlockNr(nr)) = self.geometry.superblock_block(group) {
                superblock.block_group_nr = group.0 as u16; // as mke2fs: its low 16 bits
                self.device
                    .write_at(nr * BLOCK_BYTES, &superblock.to_bytes())?;
            }
        }
        Ok(())
    }
}

/// Adds the pattern to the bitmap; returns the number of clear bits.
fn merge(bitmap: &mut [u8], pattern: &Bits) -> u32 {
    let mut free = 0;
    for (bytes, pattern) in bitmap.chunks_exact_mut(8).zip(pattern) {
        let used = u64::from_le_bytes(bytes.try_into().expect("chunks of 8 bytes")) | pattern;
        bytes.copy_from_slice(&used.to_le_bytes());
        free += used.count_zeros();
    }
    free
}

/// Pushes the blocks that are used in the pattern but not in the bitmap.
fn push_new(bitmap: &[u8], pattern: &Bits, first: u32, used: &mut Vec<u32>) {
    for ((bytes, pattern), first) in bitmap
        .chunks_exact(8)
        .zip(pattern)
        .zip((first..).step_by(64))
    {
        let known = u64::from_le_bytes(bytes.try_into().expect("chunks of 8 bytes"));
        let new = pattern & !known;
        used.extend(
            (0..64)
                .filter(|bit| new >> bit & 1 == 1)
                .map(|bit| first + bit),
        );
    }
}
