//! Compression of an output stream. Equal input gives equal output: no header has a time.

use std::io::{self, Write};

/// Level of gzip and zstd: that of their programs.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Compression {
    /// Not at all
    None,
    Gzip,
    Zstd,
}

/// A stream that compresses what is written to it.
pub(crate) enum Compressor<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    /// # Errors
    /// No memory for the state of zstd.
    pub(crate) fn new(inner: W, compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None(inner),
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Self::Gzip(flate2::write::GzEncoder::new(inner, level))
            }
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(inner, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    /// Writes the end of the stream; returns the inner writer.
    pub(crate) fn end(self) -> io::Result<W> {
        match self {
            Self::None(inner) => Ok(inner),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(inner) => inner.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::None(inner) => inner.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
