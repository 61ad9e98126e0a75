//! Reading ahead: what the next part of a pass reads is asked for before this part is checked, so
//! that the device works meanwhile. Ranges that are close to each other are one request.

use crate::directories::LARGE_BLOCKS;
use crate::slots::written_inodes;
use crate::state::{Check, Step, Stop};
use std::ops::Range;
use uext4_format::extent::ExtentNode;
use uext4_format::indirect::{DIRECT_BLOCKS, pointer};
use uext4_format::{BlockNr, Inode, InodeFlags, InodeNr};
use uext4_num::{clamp_u32, clamp_usize, usize_of};

/// A part of a pass, and the part that the same thread checks next.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) nr: usize,
    pub(crate) next: Option<usize>,
}

/// Bytes between two ranges that are read as one: less than a seek costs.
const GAP_BYTES: u64 = 32 << 10;

/// Most bytes that are asked for at once.
const ASKED_BYTES: u64 = 8 << 20;

impl Check<'_> {
    /// Asks for blocks that are read soon.
    pub(crate) fn ask_for(&self, mut ranges: Vec<Range<u64>>) {
        let size = self.block_bytes();
        let count = self.geometry.blocks_count;
        ranges.retain(|range| range.start < range.end && range.end <= count);
        ranges.sort_unstable_by_key(|range| range.start);
        let gap = GAP_BYTES / size;
        ranges.dedup_by(|next, last| {
            let is_close = next.start <= last.end + gap;
            if is_close {
                last.end = last.end.max(next.end);
            }
            is_close
        });
        let mut left = ASKED_BYTES;
        for range in ranges {
            let bytes = left.min((range.end - range.start) * size);
            left -= bytes;
            if bytes == 0 {
                break;
            }
            self.device.read_ahead(range.start * size, bytes);
        }
    }

    /// Asks for the inode bitmaps and the written inodes of groups.
    pub(crate) fn ask_for_tables(&self, groups: Range<u32>) {
        let per_block = self.geometry.inodes_per_block().max(1);
        let mut ranges = Vec::new();
        for group in groups {
            let descriptor = self.descriptors.get(usize_of(group));
            let Some(found) = descriptor.and_then(Option::as_ref) else {
                continue;
            };
            let written = written_inodes(found, &self.geometry);
            if written > 0 {
                let table = found.inode_table.0;
                ranges.push(table..table.saturating_add(written.div_ceil(per_block).into()));
                ranges.push(one(found.inode_bitmap));
            }
        }
        self.ask_for(ranges);
    }

    /// Asks for blocks that small directories begin with: data, or the top of their maps.
    pub(crate) fn ask_for_directories<'a>(&self, all: impl Iterator<Item = &'a Inode>) {
        let mut ranges = Vec::new();
        for inode in all {
            if inode.flags.contains(InodeFlags::INLINE_DATA) {
                continue;
            }
            if !inode.flags.contains(InodeFlags::EXTENTS) {
                let direct = (0..usize_of(DIRECT_BLOCKS)).map(|at| pointer(&inode.i_block, at));
                ranges.extend(direct.filter(|block| block.0 != 0).map(one));
                continue;
            }
            let root = ExtentNode::new(&inode.i_block[..]);
            if root.depth() > 0 {
                ranges.extend(root.indexes().map(|index| one(index.child)));
            } else {
                ranges.extend(root.extents().map(|found| {
                    let most = found.start.0.saturating_add(LARGE_BLOCKS);
                    found.start.0..found.physical_end().min(most)
                }));
            }
        }
        self.ask_for(ranges);
    }

    /// The bytes of inodes in ascending order, without those of damaged groups. Inodes that are
    /// close to each other are read at once.
    pub(crate) fn read_inodes(&mut self, numbers: &[InodeNr]) -> Step<Vec<(InodeNr, Vec<u8>)>> {
        let size = self.block_bytes();
        let mut found = Vec::with_capacity(numbers.len());
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut run = 0..0;
        for (at, nr) in numbers.iter().enumerate() {
            let Some(byte) = self.inode_byte(*nr) else {
                continue;
            };
            if !run.contains(&(byte / size)) {
                run = self.run_of(byte / size, &numbers[at + 1..]);
                let blocks = clamp_u32(clamp_usize(run.end - run.start));
                match self.read_run(BlockNr(run.start), blocks, &mut bytes) {
                    // Blocks between those with inodes may be bad.
                    Err(Stop::Failed(_)) if blocks > 1 => {
                        run.end = run.start + 1;
                        self.read_run(BlockNr(run.start), 1, &mut bytes)?;
                    }
                    read => read?,
                }
            }
            let start = clamp_usize(byte - run.start * size);
            let end = start + usize::from(self.geometry.inode_size);
            found.extend(bytes.get(start..end).map(|raw| (*nr, raw.to_vec())));
        }
        self.buffer = bytes;
        Ok(found)
    }

    /// The blocks to read at once for an inode in `first` and those that follow it.
    fn run_of(&self, first: u64, numbers: &[InodeNr]) -> Range<u64> {
        let size = self.block_bytes();
        let most = first + u64::from(self.blocks_per_read());
        let mut end = first + 1;
        for nr in numbers {
            let next = self.inode_byte(*nr).map(|byte| byte / size);
            let Some(next) = next.filter(|next| (first..most).contains(next)) else {
                break;
            };
            if next >= end + GAP_BYTES / size {
                break;
            }
            end = end.max(next + 1);
        }
        first..end
    }
}

/// The range of a block.
pub(crate) fn one(block: BlockNr) -> Range<u64> {
    block.0..block.0.saturating_add(1)
}
