//! The bytes of a tar, front to back: a stream, or a file whose contents can be skipped and read
//! again later.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use uext4_builder::ReadAt;
use uext4_num::{clamp_usize, u64_of};

/// Bytes that one system call reads of a file: headers of several small files.
const WINDOW_BYTES: usize = 64 << 10;

/// A tar with the position of the next read.
pub(crate) struct Tape {
    bytes: Bytes,
    position: u64,
}

enum Bytes {
    Stream(Box<dyn Read + Send>),
    File(Window),
}

/// A part of a file, with the bytes around the last position.
struct Window {
    file: Arc<File>,
    range: Range<u64>,
    bytes: Vec<u8>,
    start: u64,
}

impl Tape {
    /// A stream, which is read once.
    pub(crate) fn stream(reader: Box<dyn Read + Send>) -> Tape {
        Tape {
            bytes: Bytes::Stream(reader),
            position: 0,
        }
    }

    /// These bytes of a file; positions count from their start.
    pub(crate) fn file(file: Arc<File>, range: Range<u64>) -> Tape {
        let start = range.start;
        let bytes = Vec::new();
        Tape {
            bytes: Bytes::File(Window {
                file,
                range,
                bytes,
                start,
            }),
            position: 0,
        }
    }

    /// Offset of the next byte, from the start of the tar.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The file and where in it the position is, if contents can be read later.
    pub(crate) fn file_position(&self) -> Option<(&Arc<File>, u64)> {
        match &self.bytes {
            Bytes::Stream(_) => None,
            Bytes::File(window) => Some((&window.file, window.range.start + self.position)),
        }
    }

    /// Moves the position; fails where the tar ends before.
    pub(crate) fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let end = self.position.checked_add(bytes);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Bytes::File(window) = &self.bytes {
            if end > window.range.end - window.range.start {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.position = end;
            return Ok(());
        }
        let skipped = io::copy(&mut self.by_ref().take(bytes), &mut io::sink())?;
        if skipped < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads a stream to its end, so that its decoder checks its sums and its writer is not cut
    /// off.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        match &self.bytes {
            Bytes::Stream(_) => io::copy(self, &mut io::sink()).map(drop),
            Bytes::File(_) => Ok(()),
        }
    }
}

impl Read for Tape {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.bytes {
            Bytes::Stream(reader) => reader.read(buf)?,
            Bytes::File(window) => window.read(self.position, buf)?,
        };
        self.position += u64_of(count);
        Ok(count)
    }
}

impl Window {
    fn read(&mut self, position: u64, buf: &mut [u8]) -> io::Result<usize> {
        let at = self.range.start + position;
        let held = self.start..self.start + u64_of(self.bytes.len());
        if !held.contains(&at) {
            self.fill(at)?;
        }
        let from = clamp_usize(at - self.start).min(self.bytes.len());
        let count = buf.len().min(self.bytes.len() - from);
        buf[..count].copy_from_slice(&self.bytes[from..from + count]);
        Ok(count)
    }

    fn fill(&mut self, at: u64) -> io::Result<()> {
        let left = clamp_usize(self.range.end.saturating_sub(at));
        self.start = at;
        self.bytes.resize(WINDOW_BYTES.min(left), 0);
        let result = self.file.read_exact_at(&mut self.bytes, at);
        if result.is_err() {
            self.bytes.clear();
        }
        result
    }
}

/// The contents of one file in a tar that stays open.
pub(crate) struct Stored {
    file: Arc<File>,
    /// Byte of the tar at which the contents start.
    start: u64,
    /// Ranges of the file, and where each starts behind `start`.
    pieces: Vec<(Range<u64>, u64)>,
}

impl Stored {
    /// Contents that have these ranges one after the other.
    pub(crate) fn new(file: Arc<File>, start: u64, ranges: &[Range<u64>]) -> Stored {
        let mut behind = 0;
        let pieces = ranges.iter().map(|range| {
            let piece = (range.clone(), behind);
            behind += range.end - range.start;
            piece
        });
        Stored {
            file,
            start,
            pieces: pieces.collect(),
        }
    }
}

impl ReadAt for Stored {
    fn read_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        let mut index = self
            .pieces
            .partition_point(|(range, _)| range.end <= offset);
        while !buf.is_empty() {
            let Some((range, behind)) = self.pieces.get(index) else {
                buf.fill(0);
                return Ok(());
            };
            let hole = clamp_usize(range.start.saturating_sub(offset)).min(buf.len());
            let (zeroes, rest) = buf.split_at_mut(hole);
            zeroes.fill(0);
            offset += u64_of(hole);
            let count = clamp_usize(range.end - offset.min(range.end)).min(rest.len());
            let (data, rest) = rest.split_at_mut(count);
            if !data.is_empty() {
                let at = self.start + behind + (offset - range.start);
                self.file.read_exact_at(data, at)?;
            }
            offset += u64_of(count);
            buf = rest;
            index += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn stored_contents_have_zeroes_in_holes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"..abcdefgh").unwrap();
        let stored = Stored::new(Arc::new(file), 2, &[2..5, 7..9, 9..12]);
        let whole = b"\0\0abc\0\0defgh\0\0";
        for from in 0..whole.len() {
            for to in from..whole.len() {
                let mut buf = vec![b'x'; to - from];
                stored.read_at(from as u64, &mut buf).unwrap();
                assert_eq!(buf, whole[from..to], "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_file_and_a_stream_read_alike() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let part = bytes[1000..].to_vec();
        let end = bytes.len() as u64;
        let mut tapes = [
            Tape::file(Arc::new(file), 1000..end),
            Tape::stream(Box::new(io::Cursor::new(part.clone()))),
        ];
        for tape in &mut tapes {
            let mut buf = [0; 777];
            for skip in [0, 5, 70_000, 1, 65_536] {
                tape.skip(skip).unwrap();
                let at = tape.position() as usize;
                tape.read_exact(&mut buf).unwrap();
                assert_eq!(buf, part[at..at + 777]);
            }
            let left = part.len() as u64 - tape.position();
            assert!(tape.skip(left + 1).is_err());
        }
    }
}
