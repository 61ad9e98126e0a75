//! Frames of an lz4 stream, one after the other.
//!
//! The decoder takes an end of the input between two blocks of a frame for the end of the frame. So
//! the bytes that it takes are watched: an end where a frame has begun is an error.

use lz4_flex::frame::FrameDecoder;
use std::io::{self, Read};
use uext4_num::u64_of;

/// The contents of all frames.
pub(crate) struct Frames {
    decoder: FrameDecoder<Watched>,
    /// The decoder is inside a frame.
    is_inside: bool,
}

/// Counts bytes, and notices the end.
struct Watched {
    reader: Box<dyn Read + Send>,
    bytes: u64,
    is_at_end: bool,
}

impl Frames {
    pub(crate) fn new(reader: Box<dyn Read + Send>) -> Frames {
        Frames {
            decoder: FrameDecoder::new(Watched {
                reader,
                bytes: 0,
                is_at_end: false,
            }),
            is_inside: false,
        }
    }
}

impl Read for Frames {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let before = self.decoder.get_ref().bytes;
            let count = self.decoder.read(buf)?;
            if count > 0 || buf.is_empty() {
                self.is_inside |= count > 0;
                return Ok(count);
            }
            let watched = self.decoder.get_ref();
            let has_begun = self.is_inside || watched.bytes > before;
            match (watched.is_at_end, has_begun) {
                (true, true) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (true, false) => return Ok(0),
                (false, _) => self.is_inside = false,
            }
        }
    }
}

impl Read for Watched {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buf)?;
        self.bytes += u64_of(count);
        self.is_at_end |= count == 0 && !buf.is_empty();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    fn frame(contents: &[u8]) -> Vec<u8> {
        let info = FrameInfo::new().block_size(BlockSize::Max64KB);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(contents).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut frames = Frames::new(Box::new(io::Cursor::new(bytes.to_vec())));
        frames.read_to_end(&mut out).map(|_| out)
    }

    /// Also between two blocks, where the decoder sees no fault.
    #[test]
    fn every_cut_inside_a_frame_is_an_error() {
        let contents = [7; 300 << 10];
        let (first, second) = (frame(&contents), frame(b"more"));
        let both = [&first[..], &frame(b""), &second].concat();
        assert_eq!(decoded(&both).unwrap(), [&contents[..], b"more"].concat());
        assert_eq!(decoded(&first).unwrap(), contents);
        assert_eq!(decoded(b"").unwrap(), b"");
        for cut in 1..first.len() {
            assert!(decoded(&first[..cut]).is_err(), "{cut} of {}", first.len());
        }
    }
}
