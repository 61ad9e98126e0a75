//! Bytes of a regular file: pieces of data with holes between them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::rng::Rng;

/// Bytes generated and written at once.
const CHUNK_BYTES: u64 = 64 << 10;

/// Words of text-like content.
const WORDS: [&str; 16] = [
    "block ",
    "inode ",
    "extent ",
    "journal ",
    "the ",
    "of ",
    "and ",
    "a ",
    "in ",
    "to ",
    "is ",
    "that ",
    "group ",
    "commit\n",
    "0x00ff, ",
    "return;\n",
];

/// Content of one regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Size in bytes; a range without a piece is a hole.
    pub size_bytes: u64,
    /// Data in ascending order, without overlap, all below the size.
    pub pieces: Vec<Piece>,
}

/// One run of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte of the piece, as an offset in the file.
    pub offset_bytes: u64,
    /// Length of the piece in bytes.
    pub len_bytes: u64,
    /// Seed that determines the bytes.
    pub seed: u64,
    /// How well the bytes compress.
    pub style: Style,
}

/// How well bytes compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Words: they compress well.
    Text,
    /// Noise: does not compress.
    Random,
}

impl Content {
    /// A file of one piece, without holes.
    pub fn dense(size_bytes: u64, seed: u64, style: Style) -> Self {
        let piece = Piece {
            offset_bytes: 0,
            len_bytes: size_bytes,
            seed,
            style,
        };
        let pieces = if size_bytes == 0 {
            Vec::new()
        } else {
            vec![piece]
        };
        Self { size_bytes, pieces }
    }

    /// Bytes of data without holes.
    pub fn data_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len_bytes).sum()
    }

    /// Writes the pieces into an empty file and sets its size.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn write_to(&self, file: &File) -> io::Result<()> {
        for piece in &self.pieces {
            piece.chunks(|offset, bytes| file.write_all_at(bytes, offset))?;
        }
        file.set_len(self.size_bytes)
    }

    /// Passes all bytes in order to `sink`, holes as zeros.
    pub fn feed(&self, mut sink: impl FnMut(&[u8])) {
        let mut position = 0;
        for piece in &self.pieces {
            feed_zeros(piece.offset_bytes - position, &mut sink);
            let fed: Result<(), ()> = piece.chunks(|_, bytes| {
                sink(bytes);
                Ok(())
            });
            debug_assert!(fed.is_ok());
            position = piece.offset_bytes + piece.len_bytes;
        }
        feed_zeros(self.size_bytes - position, &mut sink);
    }
}

impl Piece {
    fn chunks<E>(&self, mut each: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut rng = Rng::new(self.seed);
        let mut done = 0;
        while done < self.len_bytes {
            let len = CHUNK_BYTES.min(self.len_bytes - done) as usize;
            each(self.offset_bytes + done, &self.style.bytes(&mut rng, len))?;
            done += len as u64;
        }
        Ok(())
    }
}

impl Style {
    fn bytes(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        match self {
            Self::Random => rng.bytes(len),
            Self::Text => {
                let mut text = Vec::with_capacity(len + 16);
                while text.len() < len {
                    text.extend_from_slice(rng.pick(&WORDS).as_bytes());
                }
                text.truncate(len);
                text
            }
        }
    }
}

fn feed_zeros(mut len_bytes: u64, sink: &mut impl FnMut(&[u8])) {
    let zeros = vec![0; CHUNK_BYTES.min(len_bytes) as usize];
    while len_bytes > 0 {
        let len = CHUNK_BYTES.min(len_bytes);
        sink(&zeros[..len as usize]);
        len_bytes -= len;
    }
}
