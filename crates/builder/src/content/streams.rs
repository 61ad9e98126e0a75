//! Streams: contents that can be read only while their entry is added.
//!
//! The caller's thread reads; small files are gathered, so that writes are large.

use std::io::{self, Read};
use std::ops::Range;

use crate::content::batch::Batch;
use crate::content::chunks::{CHUNK_BYTES, chunk_len};
use crate::tree::ids::FileId;

/// A stream and the file that it fills.
pub(crate) struct Stream<'a> {
    pub(crate) file: FileId,
    pub(crate) size: u64,
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) reader: &'a mut dyn Read,
}

impl Stream<'_> {
    /// The offsets of the chunks in which data may be.
    pub(crate) fn chunk_offsets(&self) -> Vec<u64> {
        let mut offsets = Vec::new();
        let mut next = 0;
        for range in &self.ranges {
            let end = range.end.min(self.size);
            let mut offset = (range.start / CHUNK_BYTES * CHUNK_BYTES).max(next);
            while offset < end {
                offsets.push(offset);
                offset += CHUNK_BYTES;
            }
            next = next.max(offset);
        }
        offsets
    }

    /// Reads the chunk at an offset, which follows the one before.
    pub(crate) fn read(
        &mut self,
        batch: &mut Batch,
        offset: u64,
        block_size: u32,
        is_last: bool,
    ) -> io::Result<()> {
        let chunk = (offset, chunk_len(offset, self.size));
        let reader = &mut self.reader;
        let range = batch.fill(chunk, block_size, &self.ranges, |_, bytes| {
            reader.read_exact(bytes)
        })?;
        batch.complete(self.file, offset, range, block_size, is_last);
        Ok(())
    }
}

/// Whether the ranges are ascending and inside a file of this size.
pub(crate) fn are_sound(ranges: &[Range<u64>], size: u64) -> bool {
    let ascending = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
    let mut ranges = ranges.iter();
    ascending && ranges.all(|range| range.start <= range.end && range.end <= size)
}
