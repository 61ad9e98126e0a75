//! Kinds of compression by their first bytes, and their decoders.
//!
//! A stream may consist of several members (gzip), frames (zstd, lz4) or streams (xz, bzip2).
//! Memory of a decoder is bounded: zstd windows of 128 MiB and 256 MiB of xz dictionaries, unless
//! the caller says otherwise; the others need up to 10 MiB.

use crate::fault::{Checked, Fault, Refusal};
#[cfg(feature = "lz4")]
use crate::lz4;
use std::io::{self, Read};

/// Bytes that [`Compression::of`] needs.
pub(crate) const MAGIC_BYTES: usize = 6;
#[cfg(feature = "xz")]
const XZ_MEMORY_BYTES: u64 = 256 << 20;
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_BYTES: u64 = 128 << 20;
/// Windows that zstd has: 1 KiB to 2 GiB.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_LOGS: (u32, u32) = (10, 31);

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Lz4,
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
            [0x04, 0x22, 0x4D, 0x18, ..] => Compression::Lz4,
            _ => Compression::None,
        }
    }

    /// The bytes after decompression, with at most `memory` bytes for a window.
    pub(crate) fn decoder(
        self,
        reader: Box<dyn Read + Send>,
        memory: Option<u64>,
    ) -> Checked<Box<dyn Read + Send>> {
        match self {
            Compression::None => Ok(reader),
            #[cfg(feature = "gzip")]
            Compression::Gzip => Ok(Box::new(Members::new(reader))),
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                let mut reader = zstd::Decoder::new(reader)?;
                let (least, most) = ZSTD_WINDOW_LOGS;
                let window = memory.unwrap_or(ZSTD_WINDOW_BYTES).max(1).ilog2();
                reader.window_log_max(window.clamp(least, most))?;
                Ok(Box::new(Bounded { reader }))
            }
            #[cfg(feature = "xz")]
            Compression::Xz => {
                let flags = liblzma::stream::CONCATENATED;
                let memory = memory.unwrap_or(XZ_MEMORY_BYTES);
                let stream = liblzma::stream::Stream::new_stream_decoder(memory, flags);
                let stream = stream.map_err(io::Error::from)?;
                let reader = liblzma::read::XzDecoder::new_stream(reader, stream);
                Ok(Box::new(Bounded { reader }))
            }
            #[cfg(feature = "bzip2")]
            Compression::Bzip2 => Ok(Box::new(bzip2::read::MultiBzDecoder::new(reader))),
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Ok(Box::new(lz4::Frames::new(reader))),
            #[allow(unreachable_patterns, reason = "reached where a feature is off")]
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
            Compression::Lz4 => "lz4",
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
            if text.contains("memory") {
                io::Error::other(Refusal {
                    problem: format!(
                        "its decoder needs more memory than it may take, which is 128 MiB for \
                         zstd and 256 MiB for xz by default ({text})"
                    ),
                    advice: "allow more, as with --decoder-memory 2G, or decompress it first",
                })
            } else {
                error
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
