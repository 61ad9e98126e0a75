//! Contents of files, cut into pieces of 1 MiB: zero blocks, checksums.
//!
//! A piece begins at a multiple of 1 MiB of its file, wherever the bytes come from. So the digest
//! of a file and its holes follow from its bytes alone.

use std::hash::Hasher;
use std::ops::Range;

use crc_fast::{CrcAlgorithm, checksum};
use siphasher::sip::SipHasher13;
use uext4_num::{clamp_u32, clamp_usize, u64_of, usize_of};

use crate::tree::FileId;

/// Bytes of a piece, and about those of a batch.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// Pieces of several files, which are written together.
#[derive(Default)]
pub(crate) struct Batch {
    /// The bytes, padded with zeroes to whole blocks.
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: Vec<Part>,
}

/// A piece of a file in a batch.
pub(crate) struct Part {
    pub(crate) file: FileId,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// The bytes in the batch, without padding.
    pub(crate) range: Range<usize>,
    /// Checksum of the bytes; `None` if all are zero.
    pub(crate) crc: Option<u64>,
    /// Blocks with data: ranges of blocks of the batch.
    pub(crate) data: Vec<Range<u32>>,
    /// Whether it completes the file.
    pub(crate) is_last: bool,
}

impl Batch {
    /// Appends a piece of `len` bytes, zero so far; answers its range.
    pub(crate) fn begin(&mut self, len: usize, block_size: u32) -> Range<usize> {
        let start = self.bytes.len();
        let padded = len.next_multiple_of(usize_of(block_size));
        self.bytes.resize(start + padded, 0);
        start..start + len
    }

    /// Finds out what the bytes of a piece are, which are all there now.
    pub(crate) fn complete(
        &mut self,
        file: FileId,
        offset: u64,
        range: Range<usize>,
        block_size: u32,
        is_last: bool,
    ) {
        let block = usize_of(block_size);
        let padded = range.start..range.start + range.len().next_multiple_of(block);
        let first = clamp_u32(range.start / block);
        let data = data_blocks(&self.bytes[padded], block, first);
        let crc = (!data.is_empty())
            .then(|| checksum(CrcAlgorithm::Crc64Nvme, &self.bytes[range.clone()]));
        self.parts.push(Part {
            file,
            offset,
            range,
            crc,
            data,
            is_last,
        });
    }
}

/// Runs of blocks that are not zero, counted from `first`.
fn data_blocks(bytes: &[u8], block: usize, first: u32) -> Vec<Range<u32>> {
    let zeroes = vec![0; block];
    let mut runs: Vec<Range<u32>> = Vec::new();
    for (at, bytes) in (first..).zip(bytes.chunks(block)) {
        if bytes == zeroes {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// The digest of a file after a piece with data.
pub(crate) fn digest(so_far: u64, offset: u64, crc: u64) -> u64 {
    let mut hasher = SipHasher13::new();
    for number in [so_far, offset, crc] {
        hasher.write_u64(number);
    }
    hasher.finish()
}

/// The piece at `offset`: its length in a file of this size.
pub(crate) fn piece_len(offset: u64, size: u64) -> usize {
    clamp_usize(size.saturating_sub(offset).min(PIECE_BYTES))
}

/// The part of a range of the file that a piece has, as a range of the piece.
pub(crate) fn overlap(range: &Range<u64>, offset: u64, len: usize) -> Option<Range<usize>> {
    let start = range.start.max(offset);
    let end = range.end.min(offset + u64_of(len));
    (start < end).then(|| clamp_usize(start - offset)..clamp_usize(end - offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_blocks_are_left_out() {
        let mut bytes = vec![0; 5 * 1024];
        (bytes[1024], bytes[2047], bytes[2048], bytes[5119]) = (1, 1, 1, 1);
        assert_eq!(data_blocks(&bytes, 1024, 10), [11..13, 14..15]);
        assert_eq!(data_blocks(&bytes[..1024], 1024, 0), []);
    }

    #[test]
    fn overlaps_are_counted_from_the_piece() {
        assert_eq!(overlap(&(10..20), 0, 15), Some(10..15));
        assert_eq!(overlap(&(10..20), 12, 3), Some(0..3));
        assert_eq!(overlap(&(10..20), 20, 3), None);
    }
}
