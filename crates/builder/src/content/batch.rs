//! Batches: chunks of several files in one buffer, with checksums and without zero blocks.

use std::ops::Range;

use crc_fast::{CrcAlgorithm, checksum};
use uext4_num::{u64_of, usize_of};

use crate::content::chunks::{CHUNK_BYTES, overlap};
use crate::tree::ids::FileId;

/// A block of zeroes, of the largest size.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Chunks of several files, which are written together.
#[derive(Default)]
pub(crate) struct Batch {
    /// The bytes, padded with zeroes to whole blocks; more may be behind them.
    pub(crate) bytes: Vec<u8>,
    len: usize,
    pub(crate) parts: Vec<Part>,
}

/// A chunk of a file in a batch.
pub(crate) struct Part {
    pub(crate) file: FileId,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// The bytes in the batch, without padding.
    pub(crate) range: Range<usize>,
    /// Checksum of the bytes; `None` if all are zero.
    pub(crate) crc: Option<u64>,
    /// Blocks with data: ranges of blocks of the chunk.
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

    /// Appends a chunk of the file at `offset`: `len` bytes, in which `read` fills the parts that
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

    /// Whether it is large enough to be written.
    pub(crate) fn is_full(&self) -> bool {
        u64_of(self.len) >= CHUNK_BYTES
    }

    /// Finds out what the bytes of a chunk are, which are all there now.
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
    fn a_buffer_that_is_used_again_shows_nothing_of_its_past() {
        let mut batch = Batch::with_buffer(vec![9; 2048]);
        let read = |at: u64, bytes: &mut [u8]| {
            bytes.fill(u8::try_from(at / 3).unwrap());
            Ok::<_, ()>(())
        };
        batch.fill((0, 10), 1024, &[3..5, 7..8], read).unwrap();
        let range = batch.fill((100, 2000), 1024, &[0..101, 300..500], read);
        assert_eq!(range, Ok(1024..3024));
        assert_eq!(batch.len, 3072);
        let mut expected = vec![0; 3072];
        expected[3..5].fill(1);
        expected[7] = 2;
        expected[1024] = 33;
        expected[1224..1424].fill(100);
        assert_eq!(&batch.bytes[..3072], expected);
    }
}
