//! Delayed data of a file (`delayed`): when there are some, and how they are read and discarded.
//!
//! Not here: buffering new data (`write::delay`), writeback (`write_out`).

use super::io;
use crate::parts::map::{self, LOGICAL_END};
use crate::state::delayed::{Buffer, LazyBuffer};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::settings::Switch;
use std::ops::Range;
use uext4_num::{clamp_u64, clamp_usize, u64_of};
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
        if fs.base.settings.has(Switch::Delalloc) && len_bytes < AT_ONCE_BYTES {
            When::Later
        } else {
            When::AtOnce
        }
    }
}

/// Puts a file on the pool's list when its first data are delayed.
pub(super) fn enter(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) {
    if buffer.listed.is_none() {
        let now_ns = clamp_u64(fs.base.clock.monotonic().as_nanos());
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

/// Fills `buf` from delayed blocks.
pub(super) fn copy_out(fs: &Fs, buffer: &Buffer, at_byte: u64, buf: &mut [u8]) {
    let (mut at, mut rest) = (at_byte, buf);
    while !rest.is_empty() {
        let (block, within) = io::split(fs, at);
        let within = clamp_usize(within);
        let len = rest.len().min(fs.block_size() - within);
        let (here, behind) = rest.split_at_mut(len);
        match buffer.get(block.0.into()) {
            Some(bytes) => here.copy_from_slice(&bytes[within..within + len]),
            None => here.fill(0),
        }
        (at, rest) = (at + u64_of(len), behind);
    }
}

/// Discards delayed data: they are never written.
pub(super) fn discard(fs: &Fs, inode: &Inode, buffer: &mut Buffer, blocks: Range<u64>) {
    let removed = buffer.remove(blocks.clone());
    if removed > 0 {
        let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
        let taken = buffer.take_idle_claims(blocks, ratio);
        fs.space.undelay(taken.clusters, 0);
        buffer
            .promised
            .shrink(taken.promised * fs.base.geometry.cluster_size());
        forget_bytes(fs, removed);
        release_surplus(fs, inode, buffer);
    }
}

/// Discards all delayed data of the file and their state.
pub(crate) fn discard_delayed(fs: &Fs, inode: &Inode, buffer: &mut LazyBuffer) {
    if buffer.is_unused() {
        return;
    }
    discard(fs, inode, buffer, 0..LOGICAL_END + 1);
    (buffer.error, buffer.out_at_close) = (None, false);
    buffer.rest();
}

/// Uncounts this many delayed blocks.
pub(super) fn forget_bytes(fs: &Fs, blocks: u64) {
    let bytes = blocks << fs.base.geometry.block_bits;
    fs.delayed.count(-bytes.cast_signed());
}

/// After blocks left the buffer: releases surplus reservations for map blocks, and leaves the
/// pool's list with the last block.
pub(super) fn release_surplus(fs: &Fs, inode: &Inode, buffer: &mut Buffer) {
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
