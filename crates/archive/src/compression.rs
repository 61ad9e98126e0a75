//! Kinds of compression by their first bytes, and their decoders.
//!
//! A stream may consist of several members (gzip), frames (zstd) or streams (xz). Memory of a
//! decoder is bounded: zstd windows of 128 MiB, and 256 MiB of xz dictionaries.

use crate::fault::{Checked, Fault};
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
            Compression::Gzip => Ok(Box::new(flate2::read::MultiGzDecoder::new(reader))),
            #[cfg(feature = "zstd")]
            Compression::Zstd => Ok(Box::new(zstd::Decoder::new(reader)?)),
            #[cfg(feature = "xz")]
            Compression::Xz => {
                let flags = liblzma::stream::CONCATENATED;
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, flags);
                let stream = stream.map_err(io::Error::from)?;
                Ok(Box::new(liblzma::read::XzDecoder::new_stream(
                    reader, stream,
                )))
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
