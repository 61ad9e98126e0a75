//! Reads block bitmaps without caching them, for trees and summaries of free space, which are much
//! smaller than their bitmaps.
//!
//! Bitmaps that are contiguous on the device, as those of a flexible group are, take one read.
//! Invariant: a bitmap that changed since the mount is in memory. A bitmap that is not there is
//! current on the device, also if it was read a moment ago.
//!
//! Locking: the block half of one group at a time, shared; none while reading.

use super::Space;
use crate::types::error::Result;
use std::ops::Range;
use uext4_alloc::{Bitmap, Stat};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, GroupDescriptor, GroupNr};
use uext4_journal::Object;
use uext4_num::{u64_of, usize_of};

enum Source {
    Memory,
    /// The group was never allocated from.
    Computed(GroupDescriptor),
    Device(GroupDescriptor),
}

impl Source {
    fn block(&self) -> Option<u64> {
        match self {
            Self::Device(descriptor) => Some(descriptor.block_bitmap.0),
            _ => None,
        }
    }
}

impl Space {
    /// Calls `each` with the bitmap of every group, ascending.
    pub(super) fn visit_bitmaps(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, Result<&Bitmap>),
    ) {
        let sources: Vec<_> = groups.iter().map(|nr| self.source(*nr)).collect();
        let mut groups = groups.iter();
        let mut used = Bitmap::new(self.geometry().clusters_per_group);
        for row in sources.chunk_by(|a, b| match (a, b) {
            (Ok(a), Ok(b)) => a.block().is_some_and(|nr| b.block() == Some(nr + 1)),
            _ => false,
        }) {
            let bytes = self.read_row(row);
            let blocks = bytes.chunks(usize_of(self.geometry().block_size()));
            let blocks = blocks.map(Some).chain(std::iter::repeat(None));
            for ((source, nr), bytes) in row.iter().zip(&mut groups).zip(blocks) {
                let seen = match source {
                    Ok(source) => self.see(*nr, source, bytes, &mut used),
                    Err(error) => Err(error.clone()),
                };
                each(*nr, seen.map(|()| &used));
            }
        }
    }

    /// Prefetches the bitmaps of these groups; contiguous ones in one request. Skips groups without
    /// free space, and bitmaps that need no read.
    pub(super) fn read_ahead(&self, groups: Range<u32>) {
        let wanted = groups
            .map(GroupNr)
            .filter(|nr| self.engine.group_free(*nr) > 0);
        let blocks: Vec<u64> = wanted
            .filter_map(|nr| self.source(nr).ok()?.block())
            .collect();
        let block_size = u64::from(self.geometry().block_size());
        for row in blocks.chunk_by(|a, b| a + 1 == *b) {
            let len = u64_of(row.len());
            self.engine.stats().add(Stat::BitmapsAhead, len);
            self.device
                .read_ahead(row[0] * block_size, len * block_size);
        }
    }

    fn source(&self, nr: GroupNr) -> Result<Source> {
        let Some(group) = self.groups.get(usize_of(nr.0)).and_then(|cell| cell.get()) else {
            let descriptor = self
                .raw
                .parse(nr, &self.layout.geometry, &self.layout.checksums)?;
            let uninit = descriptor.has_flag(uext4_format::group_flag::BLOCK_UNINIT);
            return Ok(if uninit {
                Source::Computed(descriptor)
            } else {
                Source::Device(descriptor)
            });
        };
        let half = group.blocks.live().read();
        Ok(match (&half.used, half.uninit) {
            (Some(_), _) => Source::Memory,
            (None, true) => Source::Computed(half.descriptor()),
            (None, false) => Source::Device(half.descriptor()),
        })
    }

    /// The blocks of contiguous bitmaps; empty if they cannot be read.
    fn read_row(&self, row: &[Result<Source>]) -> Vec<u8> {
        let first = row.iter().flatten().find_map(Source::block);
        let Some(first) = first else {
            return Vec::new();
        };
        let read = Stat::BitmapsRead;
        self.engine.stats().add(read, u64_of(row.len()));
        self.read_blocks(first, row.len()).unwrap_or_default()
    }

    fn read_blocks(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let block_size = self.geometry().block_size();
        let mut bytes = vec![0; count * usize_of(block_size)];
        self.device
            .read_at(first * u64::from(block_size), &mut bytes)?;
        Ok(bytes)
    }

    /// Puts the group's bitmap into `used`. `bytes` is its block; without it, the block is read
    /// alone.
    fn see(
        &self,
        nr: GroupNr,
        source: &Source,
        bytes: Option<&[u8]>,
        used: &mut Bitmap,
    ) -> Result<()> {
        let bits = self.geometry().clusters_in_group(nr);
        if used.len() != bits {
            *used = Bitmap::new(bits);
        }
        if self.copy_from_memory(nr, used) {
            return Ok(());
        }
        let descriptor = match source {
            // It left memory since. Changed bitmaps stay, so the device has the current one.
            Source::Memory => return self.see(nr, &self.source(nr)?, None, used),
            Source::Computed(descriptor) => {
                *used = self.computed_bitmap(nr, bits);
                descriptor
            }
            Source::Device(descriptor) => {
                let read = self.read_checked(nr, descriptor, bytes, used);
                if read.is_err() && self.copy_from_memory(nr, used) {
                    return Ok(());
                }
                read?;
                descriptor
            }
        };
        // If another thread loaded the bitmap meanwhile, it and the device may have changed since
        // the read.
        if self.copy_from_memory(nr, used) || used.count_clear() == descriptor.free_clusters {
            return Ok(());
        }
        let problem = CorruptKind::FreeCount {
            descriptor: descriptor.free_clusters,
            bitmap: used.count_clear(),
        };
        Err(Corrupt::new(DamageLocation::Group(nr), "block bitmap", problem).into())
    }

    /// Puts the bitmap of the device into `used` and verifies it. `bytes` is its block; without it,
    /// the block is read.
    fn read_checked(
        &self,
        nr: GroupNr,
        descriptor: &GroupDescriptor,
        bytes: Option<&[u8]>,
        used: &mut Bitmap,
    ) -> Result<()> {
        let alone = match bytes {
            Some(_) => Vec::new(),
            None => self.read_blocks(descriptor.block_bitmap.0, 1)?,
        };
        let bytes = bytes.unwrap_or(&alone);
        let (geometry, checksums) = (self.geometry(), &self.layout.checksums);
        descriptor.verify_block_bitmap(bytes, nr, geometry, checksums)?;
        used.copy_from_bytes(bytes);
        self.check_own_metadata(nr, used)
    }

    /// Copies the bitmap in memory to `used`; false if it is not there.
    fn copy_from_memory(&self, nr: GroupNr, used: &mut Bitmap) -> bool {
        let group = self.groups.get(usize_of(nr.0)).and_then(|cell| cell.get());
        let Some(group) = group else { return false };
        let half = group.blocks.live().read();
        let known = half.used.as_ref().map(|known| used.copy_from(known));
        known.is_some()
    }
}
