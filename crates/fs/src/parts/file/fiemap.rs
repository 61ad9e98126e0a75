//! Extents of a file's data (`FS_IOC_FIEMAP`).

use super::{inline, io};
use crate::parts::map::{self, ExtentState, Mapped};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::Result;
use std::ops::ControlFlow;

/// A range of a file that is contiguous on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub logical_bytes: u64,
    /// First byte on the device.
    pub physical_bytes: u64,
    /// Length in bytes, in the file and on the device.
    pub len_bytes: u64,
    /// The flags, as `FIEMAP_EXTENT_*` of Linux.
    pub flags: u32,
}

impl Extent {
    /// No extent follows in the file.
    pub const LAST: u32 = 0x1;
    /// The place is not aligned to blocks.
    pub const NOT_ALIGNED: u32 = 0x100;
    /// The data are inside a metadata block (in the inode).
    pub const DATA_INLINE: u32 = 0x200;
    /// Allocated, and reads as zeroes.
    pub const UNWRITTEN: u32 = 0x800;

    fn is_followed_by(&self, next: &Extent) -> bool {
        self.flags == next.flags
            && self.logical_bytes + self.len_bytes == next.logical_bytes
            && self.physical_bytes + self.len_bytes == next.physical_bytes
    }
}

/// The extents that overlap `len` bytes from byte `start` on; whole extents, not clipped.
pub(crate) fn fiemap(fs: &Fs, inode: &Inode, start: u64, len: u64) -> Result<Vec<Extent>> {
    let _shared = inode.io.read();
    let state = inode.read();
    let end = start.saturating_add(len);
    if inline::is_inline(&state) {
        return Ok(inline_extent(fs, &state, start, end).into_iter().collect());
    }
    blocks(fs, &state, start, end)
}

fn inline_extent(fs: &Fs, state: &InodeState, start: u64, end: u64) -> Option<Extent> {
    let size = state.disk.size;
    (start < size && start < end).then(|| Extent {
        logical_bytes: 0,
        physical_bytes: state.i_block_byte(fs.base.geometry.block_bits),
        len_bytes: size,
        flags: Extent::LAST | Extent::DATA_INLINE | Extent::NOT_ALIGNED,
    })
}

fn blocks(fs: &Fs, state: &InodeState, start: u64, end: u64) -> Result<Vec<Extent>> {
    let bits = fs.base.geometry.block_bits;
    let mut found: Vec<Extent> = Vec::new();
    let mut more_follows = false;
    let first = first_block(fs, state, start)?;
    map::for_each(fs, state, first..map::LOGICAL_END, |mapped| {
        let extent = to_bytes(fs, mapped);
        match found
            .last_mut()
            .filter(|last| !map::has_extents(state) && last.is_followed_by(&extent))
        {
            Some(last) => last.len_bytes += extent.len_bytes,
            None if extent.logical_bytes >= end => {
                more_follows = true;
                return ControlFlow::Break(());
            }
            None => found.push(extent),
        }
        ControlFlow::Continue(())
    })?;
    debug_assert!(first << bits <= start);
    if let Some(last) = found.last_mut().filter(|_| !more_follows) {
        last.flags |= Extent::LAST;
    }
    Ok(found)
}

/// The first block of the extent that contains byte `start`, or the block of `start`.
fn first_block(fs: &Fs, state: &InodeState, start: u64) -> Result<u64> {
    let (block, _) = io::split(fs, start);
    let around = if u64::from(block.0) < map::LOGICAL_END {
        map::extent_around(fs, state, block)?
    } else {
        None
    };
    Ok(u64::from(around.map_or(block, |extent| extent.logical).0))
}

fn to_bytes(fs: &Fs, mapped: Mapped) -> Extent {
    let unwritten = mapped.state == ExtentState::Unwritten;
    Extent {
        logical_bytes: u64::from(mapped.logical.0) << fs.base.geometry.block_bits,
        physical_bytes: io::byte_of(fs, mapped.start),
        len_bytes: u64::from(mapped.len_blocks) << fs.base.geometry.block_bits,
        flags: if unwritten { Extent::UNWRITTEN } else { 0 },
    }
}
