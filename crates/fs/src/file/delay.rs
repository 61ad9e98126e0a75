//! Delayed allocation: buffers new data in memory until writeback (`delayed`).

use super::io;
use crate::delayed::{Buffer, Promise, Waiting};
use crate::inode::{Inode, InodeState};
use crate::map::{self, LOGICAL_END};
use crate::quota::{Claim, Owners};
use crate::settings::Switch;
use crate::space::Reserve;
use crate::{Fs, Result};
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_sync::Arc;

/// Writes of at least this size in bytes are allocated at once: they form long extents by
/// themselves, and a copy of their data costs more than the delay gains.
const AT_ONCE_BYTES: usize = 1 << 20;

/// When new data get their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before the write returns.
    AtOnce,
    /// When the data are written out.
    Later,
}

impl When {
    /// The rule for a write of this length.
    pub(super) fn of(fs: &Fs, len_bytes: usize) -> Self {
        if fs.settings.has(Switch::Delalloc) && len_bytes < AT_ONCE_BYTES {
            When::Later
        } else {
            When::AtOnce
        }
    }
}

/// New data for blocks of a file that are neither mapped nor in its buffer.
pub(super) struct Fresh<'a> {
    pub(super) fs: &'a Fs,
    pub(super) inode: &'a Arc<Inode>,
    /// First logical block.
    pub(super) block: u64,
    /// Byte offset of the data in it.
    pub(super) within: usize,
    pub(super) data: &'a [u8],
}

impl Fresh<'_> {
    /// Reserves space, and copies the data to the buffer.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] and [`crate::Error::Quota`] when the reservation fails: nothing is
    /// buffered.
    pub(super) fn keep(&self, buffer: &mut Buffer, reserve: Reserve) -> Result<()> {
        let fs = self.fs;
        let blocks = self.blocks();
        let clusters = self.unclaimed(buffer, &blocks)?;
        let tree = self.tree_claims(buffer, &blocks);
        let promised = self.ask_owners(clusters.len() as u64, reserve)?;
        fs.space.delay(clusters.len() as u64, tree, reserve)?;
        buffer.tree_claims += tree;
        let promise = match promised.is_empty() {
            true => Promise::Unasked,
            false => Promise::ByOwners,
        };
        buffer.promised.absorb(promised);
        clusters
            .into_iter()
            .for_each(|cluster| buffer.note_claim(cluster, promise));
        self.copy_to(buffer);
        let bytes = (blocks.end - blocks.start) << fs.geometry.block_bits;
        fs.delayed.count(bytes as i64);
        enter(fs, self.inode, buffer);
        self.inode.publish_delayed(buffer);
        Ok(())
    }

    fn blocks(&self) -> Range<u64> {
        let bytes = (self.within + self.data.len()) as u64;
        self.block..self.block + io::blocks_for(self.fs, bytes)
    }

    /// Clusters without a reservation.
    fn unclaimed(&self, buffer: &Buffer, blocks: &Range<u64>) -> Result<Vec<u64>> {
        let ratio = u64::from(self.fs.geometry.blocks_per_cluster());
        let clusters = blocks.start / ratio..blocks.end.div_ceil(ratio);
        if ratio == 1 {
            return Ok(clusters.collect());
        }
        let state = self.inode.read();
        let mut unclaimed = Vec::new();
        for cluster in clusters.filter(|cluster| !buffer.is_claimed(*cluster)) {
            let first = LogicalBlock((cluster * ratio) as u32);
            if map::cluster_mate(self.fs, &state, first)?.is_none() {
                unclaimed.push(cluster);
            }
        }
        Ok(unclaimed)
    }

    /// Reserves quota of the file's owners: limits apply at the write, not at writeback.
    fn ask_owners(&self, clusters: u64, reserve: Reserve) -> Result<Claim> {
        let fs = self.fs;
        if clusters == 0 || !fs.quota.is_on() {
            return Ok(Claim::default());
        }
        let bytes = clusters * fs.geometry.cluster_size();
        let owners = Owners::of(&self.inode.read().disk);
        let (_all, claim) = fs.quota.claim_space(fs, owners, (bytes, bytes), reserve)?;
        Ok(claim)
    }

    /// Additional map blocks to reserve when these blocks are delayed.
    fn tree_claims(&self, buffer: &Buffer, blocks: &Range<u64>) -> u64 {
        let joins = blocks.start > 0 && buffer.get(blocks.start - 1).is_some();
        let runs = buffer.runs() + u64::from(!joins);
        let waiting = buffer.len_blocks() + blocks.end - blocks.start;
        // For a file without extents, the end decides.
        let end = buffer
            .last()
            .map_or(blocks.end, |last| blocks.end.max(last + 1));
        let state = self.inode.read();
        map::tree_growth_max(self.fs, &state, runs, waiting, end).saturating_sub(buffer.tree_claims)
    }

    fn copy_to(&self, buffer: &mut Buffer) {
        let block_size = self.fs.block_size();
        let (mut within, mut rest) = (self.within, self.data);
        for block in self.blocks() {
            let len = rest.len().min(block_size - within);
            let (here, behind) = rest.split_at(len);
            let bytes: Box<[u8]> = if len == block_size {
                here.into()
            } else {
                let mut bytes = vec![0; block_size];
                bytes[within..within + len].copy_from_slice(here);
                bytes.into()
            };
            buffer.insert(block, bytes);
            (within, rest) = (0, behind);
        }
    }
}

/// Puts a file on the pool's list when its first data are delayed.
fn enter(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) {
    if buffer.listed.is_none() {
        let now_ns = fs.clock.monotonic().as_nanos() as u64;
        buffer.listed = Some(now_ns);
        fs.delayed.enter(inode, now_ns);
        fs.flusher.wake();
    }
}

/// Restarts the writeback age: the older data were written out, and the rest is newer.
pub(crate) fn renew_age(fs: &Fs, inode: &Arc<Inode>) {
    let mut buffer = inode.io.write();
    if let Some(since) = buffer.listed.take() {
        fs.delayed.leave(inode.nr(), since);
    }
    if !buffer.is_empty() {
        enter(fs, inode, &mut buffer);
    }
}

/// Overwrites delayed blocks; answers how many bytes, 0 if the first block is not delayed.
pub(super) fn overwrite(
    fs: &Fs,
    buffer: &mut Buffer,
    block: u64,
    within: usize,
    data: &[u8],
) -> usize {
    let (mut within, mut done) = (within, 0);
    for block in block.. {
        let rest = &data[done..];
        let len = rest.len().min(fs.block_size() - within);
        match buffer.get_mut(block) {
            Some(bytes) if len > 0 => bytes[within..within + len].copy_from_slice(&rest[..len]),
            _ => break,
        }
        (within, done) = (0, done + len);
    }
    done
}

/// Fills `buf` from delayed blocks.
pub(super) fn copy_out(fs: &Fs, buffer: &Buffer, at_byte: u64, buf: &mut [u8]) {
    let (mut at, mut rest) = (at_byte, buf);
    while !rest.is_empty() {
        let (block, within) = io::split(fs, at);
        let len = rest.len().min(fs.block_size() - within as usize);
        let (here, behind) = rest.split_at_mut(len);
        match buffer.get(block.0.into()) {
            Some(bytes) => here.copy_from_slice(&bytes[within as usize..within as usize + len]),
            None => here.fill(0),
        }
        (at, rest) = (at + len as u64, behind);
    }
}

/// Number of blocks of a hole, from `block` on, before the next delayed one; at most `len_blocks`.
pub(super) fn cut_hole(buffer: &Buffer, block: LogicalBlock, len_blocks: u32) -> u32 {
    let block = u64::from(block.0);
    let next = buffer
        .next_from(block)
        .map_or(u64::MAX, |next| next - block);
    next.min(len_blocks.into()) as u32
}

/// Discards delayed data: they are never written.
pub(super) fn discard(fs: &Fs, inode: &Inode, buffer: &mut Buffer, blocks: Range<u64>) {
    let removed = buffer.remove(blocks.clone());
    if removed > 0 {
        let ratio = u64::from(fs.geometry.blocks_per_cluster());
        let taken = buffer.take_idle_claims(blocks, ratio);
        fs.space.undelay(taken.clusters, 0);
        buffer
            .promised
            .shrink(taken.promised * fs.geometry.cluster_size());
        forget_bytes(fs, removed);
        settle(fs, inode, buffer);
    }
}

/// Discards all delayed data of the file and their state.
pub(crate) fn discard_delayed(fs: &Fs, inode: &Inode, buffer: &mut Waiting) {
    if buffer.is_unused() {
        return;
    }
    discard(fs, inode, buffer, 0..LOGICAL_END + 1);
    (buffer.error, buffer.out_at_close) = (None, false);
    buffer.rest();
}

/// Uncounts this many delayed blocks.
pub(super) fn forget_bytes(fs: &Fs, blocks: u64) {
    fs.delayed
        .count(-((blocks << fs.geometry.block_bits) as i64));
}

/// After blocks left the buffer: releases surplus reservations for map blocks, and leaves the
/// pool's list with the last block.
pub(super) fn settle(fs: &Fs, inode: &Inode, buffer: &mut Buffer) {
    let needed = match buffer.last() {
        None => 0,
        Some(last) => {
            let state = inode.read();
            let (runs, blocks) = (buffer.runs(), buffer.len_blocks());
            map::tree_growth_max(fs, &state, runs, blocks, last + 1)
        }
    };
    let too_much = buffer.tree_claims.saturating_sub(needed);
    buffer.tree_claims -= too_much;
    fs.space.undelay(0, too_much);
    if buffer.is_empty()
        && let Some(since) = buffer.listed.take()
    {
        fs.delayed.leave(inode.nr(), since);
    }
    inode.publish_delayed(buffer);
}

/// Sets the size to `size`, and the size on disk up to the first delayed block.
pub(super) fn set_size(fs: &Fs, state: &mut InodeState, buffer: &Buffer, size: u64) {
    state.disksize = disksize(fs, state, buffer, size);
    state.disk.size = size;
}

/// Grows the visible size to `size`; the size on disk stays.
pub(super) fn show_size(state: &mut InodeState, size: u64) {
    if size > state.disk.size {
        state.disksize.get_or_insert(state.disk.size);
        state.disk.size = size;
    }
}

/// The value of `InodeState::disksize` for `size`.
pub(super) fn disksize(fs: &Fs, state: &InodeState, buffer: &Buffer, size: u64) -> Option<u64> {
    let bits = fs.geometry.block_bits;
    let stored = state.disksize.unwrap_or(state.disk.size).min(size);
    let waits = buffer.next_from(stored >> bits).map(|block| block << bits);
    let reach = waits.map_or(size, |waits| waits.clamp(stored, size));
    (reach < size).then_some(reach)
}
