//! Reads of file data.

use super::write_policy::check_not_encrypted;
use super::{delay, inline, io};
use crate::parts::map::{self, ExtentState, Mapping};
use crate::state::delayed::Buffer;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::Result;
use uext4_device::Backing;
use uext4_num::{clamp_u32, clamp_usize, u64_of};

/// A range of a file and its byte offset on the device; `None` reads as zeroes.
struct Segment {
    len_bytes: u64,
    at_byte: Option<u64>,
    /// The range is buffered (delayed allocation).
    waits: bool,
}

impl Segment {
    fn is_followed_by(&self, next: &Segment) -> bool {
        let end = self.at_byte.map(|at| at + self.len_bytes);
        self.waits == next.waits && end == next.at_byte
    }

    /// The range in the host file; `None` if the data are not in one.
    fn in_host_file<'a>(&self, fs: &'a Fs) -> Option<FileRange<'a>> {
        let place = fs.base.device.backing(self.at_byte?, self.len_bytes)?;
        Some(FileRange {
            place,
            len_bytes: clamp_usize(self.len_bytes),
        })
    }
}

/// A range of file data inside the host file that backs the device.
#[derive(Clone, Copy, Debug)]
pub struct FileRange<'a> {
    /// Start in the host file.
    pub place: Backing<'a>,
    /// Length of the range in bytes.
    pub len_bytes: usize,
}

/// Limit for in-place reads; more segments are not worth separate transfers.
const RANGES_MAX: usize = 16;

/// Passes the places of a byte range's data, up to the end of the file, to `take`; returns its
/// result. The data stay in place until it returns: the file's lock is held. Returns false, without
/// a call of `take`, if some data have no place (holes, delayed allocation), are inline, or are in
/// too many places.
pub(crate) fn with_data_ranges(
    fs: &Fs,
    inode: &Inode,
    offset: u64,
    len: usize,
    take: impl FnOnce(&[FileRange<'_>]) -> bool,
) -> Result<bool> {
    let buffer = inode.io.read();
    let segments = {
        let state = inode.read();
        check_not_encrypted(&state)?;
        let left = state.disk.size.saturating_sub(offset);
        if left == 0 || inline::is_inline(&state) {
            return Ok(false);
        }
        plan(fs, &state, &buffer, offset, left.min(u64_of(len)))?
    };
    if segments.len() > RANGES_MAX {
        return Ok(false);
    }
    let ranges = segments.iter().map(|segment| segment.in_host_file(fs));
    let ranges: Option<Vec<FileRange<'_>>> = ranges.collect();
    Ok(ranges.is_some_and(|ranges| take(&ranges)))
}

/// Reads up to `buf.len()` bytes from byte `offset` on; returns how many (less only at the end).
pub(crate) fn read(fs: &Fs, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let buffer = inode.io.read();
    let (segments, len) = {
        let state = inode.read();
        check_not_encrypted(&state)?;
        let left = state.disk.size.saturating_sub(offset);
        let len = clamp_usize(left).min(buf.len());
        if inline::is_inline(&state) {
            inline::read(&state, offset, &mut buf[..len])?;
            return Ok(len);
        }
        (plan(fs, &state, &buffer, offset, u64_of(len))?, len)
    };
    fetch(fs, &buffer, &segments, offset, &mut buf[..len])?;
    Ok(len)
}

/// The segments of a byte range; extents that are contiguous on disk are merged.
fn plan(
    fs: &Fs,
    state: &InodeState,
    buffer: &Buffer,
    offset: u64,
    len: u64,
) -> Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut done = 0;
    while done < len {
        let segment = next_segment(fs, state, buffer, offset + done, len - done)?;
        done += segment.len_bytes;
        match segments.last_mut() {
            Some(last) if last.is_followed_by(&segment) => {
                last.len_bytes += segment.len_bytes;
            }
            _ => segments.push(segment),
        }
    }
    Ok(segments)
}

fn next_segment(
    fs: &Fs,
    state: &InodeState,
    buffer: &Buffer,
    at: u64,
    len: u64,
) -> Result<Segment> {
    if at >> fs.base.geometry.block_bits >= map::LOGICAL_END {
        return Ok(Segment {
            len_bytes: len,
            at_byte: None,
            waits: false,
        });
    }
    let (block, within) = io::split(fs, at);
    let max_blocks = clamp_u32(io::blocks_for(fs, within + len));
    let waiting = buffer.len_from(block.0.into()).min(max_blocks.into());
    if waiting > 0 {
        return Ok(Segment {
            len_bytes: ((waiting << fs.base.geometry.block_bits) - within).min(len),
            at_byte: None,
            waits: true,
        });
    }
    let mut mapping = map::lookup(fs, state, block, max_blocks)?;
    if let Mapping::Hole { len_blocks } = &mut mapping {
        *len_blocks = buffer.cut_hole(block.0.into(), *len_blocks);
    }
    let mapped = u64::from(mapping.len_blocks()) << fs.base.geometry.block_bits;
    let at_byte = match mapping {
        Mapping::Mapped {
            start,
            state: ExtentState::Written,
            ..
        } => Some(io::byte_of(fs, start) + within),
        _ => None,
    };
    Ok(Segment {
        len_bytes: (mapped - within).min(len),
        at_byte,
        waits: false,
    })
}

fn fetch(
    fs: &Fs,
    buffer: &Buffer,
    segments: &[Segment],
    offset: u64,
    buf: &mut [u8],
) -> Result<()> {
    let (mut at, mut rest) = (offset, buf);
    for segment in segments {
        let (part, behind) = rest.split_at_mut(clamp_usize(segment.len_bytes));
        match segment.at_byte {
            Some(byte) => fs.base.device.read_at(byte, part)?,
            None if segment.waits => delay::copy_out(fs, buffer, at, part),
            None => part.fill(0),
        }
        (at, rest) = (at + segment.len_bytes, behind);
    }
    Ok(())
}
