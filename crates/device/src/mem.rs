//! Sparse device in memory: tens of TiB of address space, memory for written chunks only.
//!
//! Layout: the bytes are cut into chunks of `CHUNK_BYTES`; chunk `c` lives in the map of shard
//! `c % SHARDS`. A chunk that is not in its map reads as zero. Chunks are reference counted and
//! copied on write, so a [`MemDevice::snapshot`] costs a map entry per chunk.
//! Locking: one shard lock ([`Rank::Device`]) at a time; readers of one shard do not exclude each
//! other.
//! An access that spans chunks is atomic per chunk only.

use crate::{BlockDevice, Error, range};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, Rank, RwLock, io_point};

/// Granularity of memory in bytes: small enough for scattered metadata, large enough that a
/// sequential transfer is a few locks per MiB.
const CHUNK_BYTES: usize = 16 << 10;
const SHARDS: usize = 256;

type Chunk = Arc<[u8; CHUNK_BYTES]>;
type Chunks = HashMap<u64, Chunk, BuildHasherDefault<ChunkHasher>>;

/// A multiplicative hash: chunk numbers are small, and no attacker chooses them.
#[derive(Default)]
struct ChunkHasher(u64);

impl Hasher for ChunkHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}

/// Sparse memory as a block device. Never fails within its bounds.
pub struct MemDevice {
    size_bytes: u64,
    shards: Box<[RwLock<Chunks>]>,
}

/// A part of an access that lies in one chunk.
struct Piece {
    chunk: u64,
    /// Offset in the chunk, in bytes.
    at: usize,
    /// Offset in the access, in bytes.
    done: u64,
    len: usize,
}

/// Cuts the access `offset..offset + len` at chunk boundaries.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let chunk = (offset + done) / u64_of(CHUNK_BYTES);
        let at = clamp_usize((offset + done) % u64_of(CHUNK_BYTES));
        let n = clamp_usize((len - done).min(u64_of(CHUNK_BYTES - at)));
        let piece = Piece {
            chunk,
            at,
            done,
            len: n,
        };
        done += u64_of(n);
        Some(piece)
    })
}

impl MemDevice {
    /// A device of `size_bytes` that reads as zero everywhere.
    pub fn new(size_bytes: u64) -> Self {
        let shards = (0..SHARDS)
            .map(|_| RwLock::new(Rank::Device, Chunks::default()))
            .collect();
        Self { size_bytes, shards }
    }

    /// A device that holds `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let device = Self::new(u64_of(bytes.len()));
        for piece in pieces(0, u64_of(bytes.len())) {
            let start = clamp_usize(piece.done);
            device.write_in_chunk(&piece, &bytes[start..start + piece.len]);
        }
        device
    }

    /// A copy that shares memory with this one until either writes. Not atomic with respect to
    /// concurrent writes.
    pub fn snapshot(&self) -> Self {
        let shards = self
            .shards
            .iter()
            .map(|s| RwLock::new(Rank::Device, s.read().clone()))
            .collect();
        Self {
            size_bytes: self.size_bytes,
            shards,
        }
    }

    /// Memory in use for data, in bytes; chunks shared with snapshots count in each.
    pub fn resident_bytes(&self) -> u64 {
        let chunks: usize = self.shards.iter().map(|shard| shard.read().len()).sum();
        u64_of(chunks) * u64_of(CHUNK_BYTES)
    }

    /// All bytes; for small devices in tests.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; clamp_usize(self.size_bytes)];
        for piece in pieces(0, self.size_bytes) {
            let start = clamp_usize(piece.done);
            self.read_in_chunk(&piece, &mut bytes[start..start + piece.len]);
        }
        bytes
    }

    fn shard(&self, chunk: u64) -> &RwLock<Chunks> {
        &self.shards[clamp_usize(chunk % u64_of(SHARDS))]
    }

    fn read_in_chunk(&self, piece: &Piece, buf: &mut [u8]) {
        match self.shard(piece.chunk).read().get(&piece.chunk) {
            Some(bytes) => buf.copy_from_slice(&bytes[piece.at..piece.at + piece.len]),
            None => buf.fill(0),
        }
    }

    fn write_in_chunk(&self, piece: &Piece, buf: &[u8]) {
        let mut chunks = self.shard(piece.chunk).write();
        let chunk = chunks
            .entry(piece.chunk)
            .or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
        Arc::make_mut(chunk)[piece.at..piece.at + piece.len].copy_from_slice(buf);
    }

    fn zero_in_chunk(&self, piece: &Piece) {
        let mut chunks = self.shard(piece.chunk).write();
        if piece.len == CHUNK_BYTES {
            chunks.remove(&piece.chunk);
        } else if let Some(chunk) = chunks.get_mut(&piece.chunk) {
            Arc::make_mut(chunk)[piece.at..piece.at + piece.len].fill(0);
        }
    }

    /// Drops every chunk inside a huge range by one pass over the maps: cheaper than a lookup per
    /// chunk when most chunks are absent.
    fn drop_chunks(&self, first: u64, end: u64) {
        for shard in &self.shards {
            shard
                .write()
                .retain(|chunk, _| *chunk < first || *chunk >= end);
        }
    }

    fn zero(&self, offset: u64, len: u64) {
        const CHUNK: u64 = u64_of(CHUNK_BYTES);
        let (first, end) = (offset.div_ceil(CHUNK), (offset + len) / CHUNK);
        if end.saturating_sub(first) <= u64_of(SHARDS) {
            return pieces(offset, len).for_each(|piece| self.zero_in_chunk(&piece));
        }
        self.drop_chunks(first, end);
        pieces(offset, first * CHUNK - offset).for_each(|piece| self.zero_in_chunk(&piece));
        pieces(end * CHUNK, offset + len - end * CHUNK)
            .for_each(|piece| self.zero_in_chunk(&piece));
    }
}

impl BlockDevice for MemDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        io_point();
        range::check(self.size_bytes, offset, u64_of(buf.len()))?;
        for piece in pieces(offset, u64_of(buf.len())) {
            let start = clamp_usize(piece.done);
            self.read_in_chunk(&piece, &mut buf[start..start + piece.len]);
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        io_point();
        range::check(self.size_bytes, offset, u64_of(buf.len()))?;
        for piece in pieces(offset, u64_of(buf.len())) {
            let start = clamp_usize(piece.done);
            self.write_in_chunk(&piece, &buf[start..start + piece.len]);
        }
        Ok(())
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        range::check(self.size_bytes, offset, range::total_bytes(bufs))?;
        let mut at = offset;
        for buf in bufs {
            self.write_at(at, buf)?;
            at += u64_of(buf.len());
        }
        Ok(())
    }
    fn flush(&self) -> Result<(), Error> {
        io_point();
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.write_zeroes(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        io_point();
        range::check(self.size_bytes, offset, len)?;
        self.zero(offset, len);
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        format!("memory ({} bytes)", self.size_bytes)
    }
}

#[cfg(test)]
mod tests;
