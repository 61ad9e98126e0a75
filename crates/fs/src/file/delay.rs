//! Keeping data in memory until their blocks are chosen (`delayed`).

use super::io;
use crate::delayed::{Buffer, Promise, Waiting};
use crate::inode::{Inode, InodeState};
use crate::map::{self, LOGICAL_END};
use crate::quota::{Claim, Owners};
use crate::settings::Switch;
use crate::space::Reserve;
use crate::{Fs, Result};
use std::ops::Range;
use std::sync::Arc;
use uext4_format::LogicalBlock;

/// Writes of so many bytes and more get their blocks at once: they make long extents by themselves,
/// and a copy of them would cost more than it brings.
const AT_ONCE_BYTES: usize = 1 << 20;

/// When the blocks of new data are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before the write returns.
    AtOnce,
    /// When the data are written out.
    Later,
}

impl When {
    /// For a write of so many bytes.
    pub(super) fn of(fs: &Fs, len_bytes: usize) -> Self {
        if fs.settings.has(Switch::Delalloc) && len_bytes < AT_ONCE_BYTES {
            When::Later
        } else {
            When::AtOnce
        }
    }
}

/// Data for blocks of a file that are neither mapped nor in its buffer.
pub(super) struct Fresh<'a> {
    pub(super) fs: &'a Fs,
    pub(super) inode: &'a Arc<Inode>,
    /// First block.
    pub(super) block: u64,
    /// Where in it the data begin, in bytes.
    pub(super) within: usize,
    pub(super) data: &'a [u8],
}

impl Fresh<'_> {
    /// Claims space, and keeps the data in the buffer.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] and [`crate::Error::Quota`] when the space cannot be promised:
    /// nothing is kept.
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

    /// The clusters for which space must be claimed.
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

    /// Lets the owners of the file promise the space: their limits hold now, not later.
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

    /// What is missing of the claims for the map, when these blocks wait, too.
    fn tree_claims(&self, buffer: &Buffer, blocks: &Range<u64>) -> u64 {
        let joins = blocks.start > 0 && buffer.get(blocks.start - 1).is_some();
        let runs = buffer.runs() + u64::from(!joins);
        let waiting = buffer.len_blocks() + blocks.end - blocks.start;
        // A file without extents is told by where it ends.
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

/// Tells the pool of a file whose data begin to wait.
fn enter(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) {
    if buffer.listed.is_none() {
        let now_ns = fs.clock.monotonic().as_nanos() as u64;
        buffer.listed = Some(now_ns);
        fs.delayed.enter(inode, now_ns);
        fs.flusher.wake();
    }
}

/// All that waited of the file was written out, and what waits now came meanwhile: it is young.
pub(crate) fn renew_age(fs: &Fs, inode: &Arc<Inode>) {
    let mut buffer = inode.io.write();
    if let Some(since) = buffer.listed.take() {
        fs.delayed.leave(inode.nr(), since);
    }
    if !buffer.is_empty() {
        enter(fs, inode, &mut buffer);
    }
}

/// Changes blocks that wait; answers how many bytes that were, 0 when the first does not wait.
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

/// Fills `buf` from blocks that all wait.
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

/// Blocks of a hole from `block` on that do not wait, at most `len_blocks`.
pub(super) fn cut_hole(buffer: &Buffer, block: LogicalBlock, len_blocks: u32) -> u32 {
    let block = u64::from(block.0);
    let next = buffer
        .next_from(block)
        .map_or(u64::MAX, |next| next - block);
    next.min(len_blocks.into()) as u32
}

/// Forgets data that wait: they are never written.
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

/// Forgets all data of the file that wait, and what else is known of them.
pub(crate) fn discard_delayed(fs: &Fs, inode: &Inode, buffer: &mut Waiting) {
    if buffer.is_unused() {
        return;
    }
    discard(fs, inode, buffer, 0..LOGICAL_END + 1);
    (buffer.error, buffer.out_at_close) = (None, false);
    buffer.rest();
}

/// So many blocks wait no more.
pub(super) fn forget_bytes(fs: &Fs, blocks: u64) {
    fs.delayed
        .count(-((blocks << fs.geometry.block_bits) as i64));
}

/// After blocks left the buffer: claims for the map that are too much go, and with the last block
/// the place in the pool.
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

/// The size becomes `size`, on disk as far as nothing in front of it waits.
pub(super) fn set_size(fs: &Fs, state: &mut InodeState, buffer: &Buffer, size: u64) {
    state.disksize = disksize(fs, state, buffer, size);
    state.disk.size = size;
}

/// The file grows to `size` for its users; on disk it stays as it is.
pub(super) fn show_size(state: &mut InodeState, size: u64) {
    if size > state.disk.size {
        state.disksize.get_or_insert(state.disk.size);
        state.disk.size = size;
    }
}

/// What `InodeState::disksize` is for that size.
pub(super) fn disksize(fs: &Fs, state: &InodeState, buffer: &Buffer, size: u64) -> Option<u64> {
    let bits = fs.geometry.block_bits;
    let stored = state.disksize.unwrap_or(state.disk.size).min(size);
    let waits = buffer.next_from(stored >> bits).map(|block| block << bits);
    let reach = waits.map_or(size, |waits| waits.clamp(stored, size));
    (reach < size).then_some(reach)
}
