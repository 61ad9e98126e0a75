//! The stream of an archive: one buffer that data are read into and written from.

use crate::{Error, Result};
use std::io::Write;
use uext4_num::u64_of;

/// Size of the buffer in bytes, which is that of the largest write.
const BUFFER_BYTES: usize = 1 << 20;
/// Pieces of this length or more start in an empty buffer, so that reads stay large.
const LARGE_BYTES: usize = 128 << 10;

/// Buffered output of a stream.
pub(super) struct Output<'o> {
    out: &'o mut dyn Write,
    buffer: Vec<u8>,
    filled: usize,
    /// Bytes of the stream so far.
    pub(super) stream_bytes: u64,
}

impl<'o> Output<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            stream_bytes: 0,
        }
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = self.room(bytes.len())?;
            let (now, later) = bytes.split_at(room.len());
            room.copy_from_slice(now);
            self.advance(now.len());
            bytes = later;
        }
        Ok(())
    }

    pub(super) fn put_zeroes(&mut self, mut bytes: u64) -> Result<()> {
        while bytes > 0 {
            let room = self.room(uext4_num::clamp_usize(bytes))?;
            room.fill(0);
            let length = room.len();
            self.advance(length);
            bytes -= u64_of(length);
        }
        Ok(())
    }

    /// The place of the next bytes, at most `want` and at least one; [`Self::advance`] takes them.
    pub(super) fn room(&mut self, want: usize) -> Result<&mut [u8]> {
        let free = self.buffer.len() - self.filled;
        if free == 0 || (free < want && want >= LARGE_BYTES) {
            self.flush()?;
        }
        let end = self.buffer.len().min(self.filled + want);
        let (room, _) = self.buffer.split_at_mut(end);
        Ok(room.split_at_mut(self.filled).1)
    }

    /// Takes the first bytes of [`Self::room`].
    pub(super) fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
        self.stream_bytes += u64_of(bytes);
    }

    /// Writes what is in the buffer.
    pub(super) fn flush(&mut self) -> Result<()> {
        let (full, _) = self.buffer.split_at(self.filled);
        self.out.write_all(full).map_err(Error::Output)?;
        self.filled = 0;
        Ok(())
    }
}
