//! Kinds of compression by their first bytes, and their decoders.
//!
//! A stream may consist of several members (gzip), frames (zstd) or streams (xz). Memory of a
//! decoder is bounded: zstd windows of 128 MiB, and 256 MiB of xz dictionaries.

use crate::fault::{Checked, Fault, Refusal};
use std::io::{self, Read};

/// Bytes that [`Compression::of`] needs.
pub(crate) const MAGIC_BYTES: usize = 6;
#[cfg(feature = "xz")]
const XZ_MEMORY_BYTES: u64 = 256 << 20;

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Compression {
    /// The kind that begins with these bytes.
    pub(crate) fn of(start: &[u8]) -> Compression {
        match start {
            [0x1F, 0x8B, ..] => Compression::Gzip,
            // A frame, or a skippable one before it.
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Compression::Zstd,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Compression::Bzip2,
            _ => Compression::None,
        }
    }

    /// The bytes after decompression.
    pub(crate) fn decoder(self, reader: Box<dyn Read + Send>) -> Checked<Box<dyn Read + Send>> {
        match self {
            Compression::None => Ok(reader),
            #[cfg(feature = "gzip")]
            Compression::Gzip => Ok(Box::new(Members::new(reader))),
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                let reader = zstd::Decoder::new(reader)?;
                Ok(Box::new(Bounded { reader }))
            }
            #[cfg(feature = "xz")]
            Compression::Xz => {
                let flags = liblzma::stream::CONCATENATED;
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, flags);
                let stream = stream.map_err(io::Error::from)?;
                let reader = liblzma::read::XzDecoder::new_stream(reader, stream);
                Ok(Box::new(Bounded { reader }))
            }
            other => Err(Fault::refused(
                format!("is compressed with {}, which is not built in", other.name()),
                "decompress it first, or compress it with gzip, zstd or xz",
            )),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compression::None => "nothing",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bzip2",
        }
    }
}

/// Says what to do about a stream that needs more memory than a decoder gets.
#[cfg(any(feature = "zstd", feature = "xz"))]
struct Bounded<R> {
    reader: R,
}

#[cfg(any(feature = "zstd", feature = "xz"))]
impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf).map_err(|error| {
            let text = error.to_string();
            match text.contains("memory") {
                true => io::Error::other(Refusal {
                    problem: format!(
                        "its decoder needs more memory than the 128 MiB of zstd and 256 MiB of xz \
                         that it gets ({text})"
                    ),
                    advice: "decompress it first, as with zstd -d --long=31 or xz -d",
                }),
                false => error,
            }
        })
    }
}

/// The members of a gzip stream. Zeroes behind the last one are padding, as for gzip and tar.
#[cfg(feature = "gzip")]
struct Members {
    /// `None` behind the last one.
    decoder: Option<flate2::bufread::GzDecoder<io::BufReader<Box<dyn Read + Send>>>>,
}

#[cfg(feature = "gzip")]
impl Members {
    fn new(reader: Box<dyn Read + Send>) -> Members {
        let reader = io::BufReader::new(reader);
        Members {
            decoder: Some(flate2::bufread::GzDecoder::new(reader)),
        }
    }
}

#[cfg(feature = "gzip")]
impl Read for Members {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        use io::BufRead;
        while let Some(decoder) = &mut self.decoder {
            let count = decoder.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            let Some(decoder) = self.decoder.take() else {
                break;
            };
            let mut reader = decoder.into_inner();
            self.decoder = loop {
                let bytes = reader.fill_buf()?;
                let zeroes = bytes.iter().take_while(|byte| **byte == 0).count();
                match (zeroes, bytes.len()) {
                    (_, 0) => break None,
                    (0, _) => break Some(flate2::bufread::GzDecoder::new(reader)),
                    _ => reader.consume(zeroes),
                }
            };
        }
        Ok(0)
    }
}

/// The first bytes of a stream, at most `bytes`, and the stream with them.
pub(crate) fn peek(
    mut reader: Box<dyn Read + Send>,
    bytes: u64,
) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut start = Vec::new();
    reader.by_ref().take(bytes).read_to_end(&mut start)?;
    let whole = io::Cursor::new(start.clone()).chain(reader);
    Ok((start, Box::new(whole)))
}
