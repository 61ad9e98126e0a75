//! Android's sparse format, version 1.0: a raw image becomes chunks in ascending order.
//!
//! A block of 4 KiB that repeats one word of 32 bits is part of a FILL chunk, any other of a RAW
//! chunk. Holes are FILL chunks of zeroes, not DONT_CARE: that keeps what the partition held, and
//! the tables that the file system calls zeroed would hold it.
//!
//! Invariants: chunks follow from the bytes alone, not from the holes of the host's file; those
//! only save reads.
//!
//! References: sparse_format.h of Android's libsparse.

use uext4_device::{BlockDevice, NewFile};
use uext4_num::{clamp_u32, clamp_usize, low_u32, u64_of};

use crate::progress::Meter;
use crate::{Error, Result};

const MAGIC: u32 = 0xED26_FF3A;
const FILE_HEADER: u16 = 28;
const CHUNK_HEADER: u16 = 12;
const RAW: u16 = 0xCAC1;
const FILL: u16 = 0xCAC2;
/// Bytes of a block of the sparse format, whatever the file system has.
pub(crate) const BLOCK: u32 = 4096;
/// Most blocks of a RAW chunk: its bytes fit into 32 bits with its header.
const RAW_BLOCKS_MAX: u32 = 1 << 19;
/// Bytes that are read at once.
const READ: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkKind {
    Raw,
    Fill(u32),
}

/// Writes chunks; the last one is open.
struct Chunks<'a> {
    out: &'a NewFile,
    /// End of the file so far, in bytes.
    end: u64,
    count: u32,
    open: Option<(ChunkKind, u32)>,
    /// Bytes of the open RAW chunk that are not written yet.
    raw: Vec<u8>,
}

impl Chunks<'_> {
    fn add(&mut self, kind: ChunkKind, blocks: u32, bytes: &[u8]) -> Result<()> {
        match &mut self.open {
            Some((open, have))
                if *open == kind && (kind != ChunkKind::Raw || *have < RAW_BLOCKS_MAX) =>
            {
                *have += blocks;
            }
            _ => {
                self.close()?;
                self.open = Some((kind, blocks));
                self.end += u64::from(CHUNK_HEADER); // its header follows at the end
            }
        }
        if kind == ChunkKind::Raw {
            self.raw.extend_from_slice(bytes);
            if u64_of(self.raw.len()) >= READ {
                self.write_raw()?;
            }
        }
        Ok(())
    }

    fn write_raw(&mut self) -> Result<()> {
        self.out.write_at(self.end, &self.raw)?;
        self.end += u64_of(self.raw.len());
        self.raw.clear();
        Ok(())
    }

    /// Writes the header of the open chunk.
    fn close(&mut self) -> Result<()> {
        let Some((kind, blocks)) = self.open.take() else {
            return Ok(());
        };
        self.write_raw()?;
        let (kind, data) = match kind {
            ChunkKind::Raw => (RAW, u64::from(blocks) * u64::from(BLOCK)),
            ChunkKind::Fill(word) => {
                self.out.write_at(self.end, &word.to_le_bytes())?;
                self.end += 4;
                (FILL, 4)
            }
        };
        let mut header = Vec::from(kind.to_le_bytes());
        header.extend([0; 2]);
        header.extend(blocks.to_le_bytes());
        header.extend(low_u32(data + u64::from(CHUNK_HEADER)).to_le_bytes());
        let at = self.end - data - u64::from(CHUNK_HEADER);
        self.out.write_at(at, &header)?;
        self.count += 1;
        Ok(())
    }

    fn write_header(&self, blocks: u32) -> Result<()> {
        let mut header = Vec::from(MAGIC.to_le_bytes());
        for half in [1, 0, FILE_HEADER, CHUNK_HEADER] {
            header.extend(half.to_le_bytes());
        }
        for word in [BLOCK, blocks, self.count, 0] {
            header.extend(word.to_le_bytes());
        }
        Ok(self.out.write_at(0, &header)?)
    }
}

/// Blocks of an image of `size_bytes`.
///
/// # Errors
/// A size that the format does not have.
pub(crate) fn blocks(size_bytes: u64) -> Result<u32> {
    let blocks = u32::try_from(size_bytes / u64::from(BLOCK));
    let blocks = blocks.map_err(|_| Error::Refused {
        problem: "an Android sparse image has less than 16 TiB",
        advice: "use the format raw or qcow2",
    })?;
    match size_bytes % u64::from(BLOCK) {
        0 => Ok(blocks),
        _ => Err(Error::Refused {
            problem: "an Android sparse image has whole blocks of 4 KiB",
            advice: "use a size that is a multiple of 4 KiB",
        }),
    }
}

/// Converts the first `size_bytes` of a raw image. Returns the size of the output in bytes.
///
/// # Errors
/// As [`blocks`], of the files, or cancelled.
pub(crate) fn convert(
    raw: &NewFile,
    size_bytes: u64,
    out: &NewFile,
    meter: &mut Meter<'_>,
) -> Result<u64> {
    let blocks = blocks(size_bytes)?;
    let mut chunks = Chunks {
        out,
        end: u64::from(FILE_HEADER),
        count: 0,
        open: None,
        raw: Vec::new(),
    };
    let mut at = 0;
    while at < size_bytes {
        let data = raw.data_from(at).map_err(|error| Error::File {
            path: raw.describe(),
            error,
        })?;
        // Holes of the host may have smaller blocks.
        let start = data.as_ref().map_or(size_bytes, |data| data.start);
        let start = (start / u64::from(BLOCK) * u64::from(BLOCK)).clamp(at, size_bytes);
        if start > at {
            chunks.add(
                ChunkKind::Fill(0),
                clamp_u32((start - at) / u64::from(BLOCK)),
                &[],
            )?;
            meter.add(start - at)?;
        }
        let end = data.map_or(size_bytes, |data| data.end);
        let end = end.next_multiple_of(u64::from(BLOCK)).min(size_bytes);
        at = start;
        while at < end {
            let mut bytes = vec![0; clamp_usize((end - at).min(READ))];
            raw.read_at(at, &mut bytes)?;
            for block in bytes.chunks(clamp_usize(BLOCK)) {
                chunks.add(kind(block), 1, block)?;
            }
            at += u64_of(bytes.len());
            meter.add(u64_of(bytes.len()))?;
        }
    }
    chunks.close()?;
    chunks.write_header(blocks)?;
    Ok(chunks.end)
}

fn kind(block: &[u8]) -> ChunkKind {
    let Some((first, rest)) = block.split_first_chunk::<4>() else {
        return ChunkKind::Raw;
    };
    if rest.chunks(4).all(|word| word == first) {
        ChunkKind::Fill(u32::from_le_bytes(*first))
    } else {
        ChunkKind::Raw
    }
}
