//! Contents of files, cut into pieces of 1 MiB: zero blocks, checksums.
//!
//! A piece begins at a multiple of 1 MiB of its file, wherever the bytes come from. So the digest
//! of a file and its holes follow from its bytes alone.

use std::borrow::Cow;
use std::hash::Hasher;
use std::ops::Range;

use crc_fast::{CrcAlgorithm, checksum};
use siphasher::sip::SipHasher13;
use uext4_num::{clamp_usize, u64_of, usize_of};

use crate::tree::FileId;

/// Bytes of a piece, and about those of a batch.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// A block of zeroes, of the largest size.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Pieces of several files, which are written together.
#[derive(Default)]
pub(crate) struct Batch {
    /// The bytes, padded with zeroes to whole blocks; more may be behind them.
    pub(crate) bytes: Vec<u8>,
    len: usize,
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
    /// Blocks with data: ranges of blocks of the piece.
    pub(crate) data: Vec<Range<u32>>,
    /// Whether it completes the file.
    pub(crate) is_last: bool,
}

impl Batch {
    /// A batch that uses a buffer again.
    pub(crate) fn with_buffer(bytes: Vec<u8>) -> Batch {
        Batch {
            bytes,
            ..Batch::default()
        }
    }

    /// Appends a piece of the file at `offset`: `len` bytes, in which `read` fills the parts that
    /// the ranges of the file have. Answers its range. All else is zero, whatever the buffer had.
    pub(crate) fn fill<E>(
        &mut self,
        (offset, len): (u64, usize),
        block_size: u32,
        ranges: &[Range<u64>],
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Range<usize>, E> {
        let start = self.len;
        self.len += len.next_multiple_of(usize_of(block_size));
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        let bytes = &mut self.bytes[start..self.len];
        let mut done = 0;
        for data in ranges {
            if let Some(part) = overlap(data, offset, len) {
                bytes[done..part.start].fill(0);
                done = part.end;
                read(offset + u64_of(part.start), &mut bytes[part])?;
            }
        }
        bytes[done..].fill(0);
        Ok(start..start + len)
    }

    /// Bytes so far, with padding.
    pub(crate) fn len(&self) -> usize {
        self.len
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
        let data = data_blocks(&self.bytes[padded], block);
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

/// Runs of blocks that are not zero.
fn data_blocks(bytes: &[u8], block: usize) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for (at, bytes) in (0..).zip(bytes.chunks(block)) {
        if bytes == &ZEROES[..block] {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// The ranges with whole clusters, of a piece of this many blocks: a cluster has no holes.
pub(crate) fn whole_clusters(
    data: &[Range<u32>],
    cluster: u32,
    blocks: u32,
) -> Cow<'_, [Range<u32>]> {
    if cluster == 1 {
        return data.into();
    }
    let mut runs: Vec<Range<u32>> = Vec::with_capacity(data.len());
    for range in data {
        let start = range.start / cluster * cluster;
        let end = range.end.next_multiple_of(cluster).min(blocks);
        match runs.last_mut() {
            Some(last) if last.end >= start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs.into()
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
        assert_eq!(data_blocks(&bytes, 1024), [1..3, 4..5]);
        assert_eq!(data_blocks(&bytes[..1024], 1024), []);
    }

    #[test]
    fn clusters_have_no_holes() {
        let data = [1..2, 6..9, 13..14];
        assert_eq!(*whole_clusters(&data, 1, 14), data);
        assert_eq!(*whole_clusters(&data, 2, 14), [0..2, 6..10, 12..14]);
        let data = [1..2, 3..4, 21..22];
        assert_eq!(*whole_clusters(&data, 4, 22), [0..4, 20..22]);
    }

    #[test]
    fn a_buffer_that_is_used_again_shows_nothing_of_its_past() {
        let mut batch = Batch::with_buffer(vec![9; 2048]);
        let read = |at: u64, bytes: &mut [u8]| {
            bytes.fill(u8::try_from(at / 3).unwrap());
            Ok::<_, ()>(())
        };
        batch.fill((0, 10), 1024, &[3..5, 7..8], read).unwrap();
        let range = batch.fill((100, 2000), 1024, &[0..101, 300..500], read);
        assert_eq!(range, Ok(1024..3024));
        assert_eq!(batch.len(), 3072);
        let mut expected = vec![0; 3072];
        expected[3..5].fill(1);
        expected[7] = 2;
        expected[1024] = 33;
        expected[1224..1424].fill(100);
        assert_eq!(&batch.bytes[..3072], expected);
    }

    #[test]
    fn overlaps_are_counted_from_the_piece() {
        assert_eq!(overlap(&(10..20), 0, 15), Some(10..15));
        assert_eq!(overlap(&(10..20), 12, 3), Some(0..3));
        assert_eq!(overlap(&(10..20), 20, 3), None);
    }
}
