//! Writeback of delayed data: allocates blocks for whole runs of consecutive data.
//!
//! A device error loses the affected blocks: they read as before the write, and each open file gets
//! the error once, from its next `fsync`. If the mount is read-only by then, or space is short
//! despite the reservations (a damaged bitmap takes space away), the data stay delayed.
//! Not here: periodic writeback (`delayed::balance`).

use super::allocate::{NewBlocks, Shape};
use super::lost_flush::lost;
use super::size::Sizes;
use super::{delay, io};
use crate::parts::map::ExtentState;
use crate::state::delayed::{Advance, Buffer, ErrorCursor, LazyBuffer};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::quota::Owners;
use crate::state::space::Reserve;
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_num::clamp_u32;
use uext4_sync::{Arc, RwLockWriteGuard};

/// Most blocks of one step.
const STEP_BLOCKS: u64 = 1 << 16;

/// Writes out the delayed data of the file.
///
/// # Errors
/// The first failure; the file also keeps it for its `fsync`.
pub(crate) fn write_out(fs: &Fs, inode: &Arc<Inode>) -> Result<()> {
    if !inode.has_delayed() {
        return Ok(());
    }
    let written = {
        let mut buffer = inode.io.write();
        let written = write_out_locked(fs, inode, &mut buffer);
        buffer.rest();
        written
    };
    fs.discard_unused(inode);
    written
}

/// As [`write_out`]; also returns an earlier error that the open file has not reported.
pub(crate) fn write_out_and_report(
    fs: &Fs,
    inode: &Arc<Inode>,
    cursor: Option<&ErrorCursor>,
) -> Result<()> {
    report(fs, inode, cursor, write_out(fs, inode))
}

/// The result of `written`, or an earlier error that the open file has not reported.
pub(crate) fn report(
    fs: &Fs,
    inode: &Arc<Inode>,
    cursor: Option<&ErrorCursor>,
    written: Result<()>,
) -> Result<()> {
    let reported = inode.write_errors.check_and_advance(cursor);
    if reported == Advance::Nothing {
        return written;
    }
    let error = inode.io.read().error.clone().or(written.err());
    let error = error.unwrap_or_else(lost);
    if reported == Advance::First && !keeps_data(&error) {
        fs.delayed.unseen.seen();
    }
    Err(error)
}

/// Writes out at most this many delayed blocks of the file; returns how many are no longer delayed.
///
/// # Errors
/// As [`write_out`].
pub(crate) fn write_out_some(fs: &Fs, inode: &Arc<Inode>, blocks_max: u64) -> Result<u64> {
    let mut buffer = inode.io.write();
    let waited = buffer.len_blocks();
    write_out_up_to(fs, inode, &mut buffer, blocks_max)?;
    buffer.rest();
    Ok(waited - buffer.len_blocks())
}

/// Before a change to other owners, writes out the file's delayed data, because the former owners
/// hold the quota reservation. Data that cannot be written out now stay delayed without a
/// reservation.
pub(crate) fn write_out_before_chown<'a>(
    fs: &Fs,
    inode: &'a Arc<Inode>,
    owners: Owners,
) -> Option<RwLockWriteGuard<'a, LazyBuffer>> {
    if !fs.quota.is_on() || owners == Owners::of(&inode.read().disk) {
        return None;
    }
    let mut buffer = inode.io.write();
    // The file keeps the error for its `fsync`.
    let _told_later = fs
        .base
        .record_result(write_out_locked(fs, inode, &mut buffer));
    drop(std::mem::take(&mut buffer.promised));
    Some(buffer)
}

/// Close by a user: writes out data that replace the old content (`auto_da_alloc`).
pub(crate) fn close(fs: &Fs, inode: &Arc<Inode>) -> Result<()> {
    if !inode.has_delayed() {
        return Ok(());
    }
    let mut buffer = inode.io.write();
    if std::mem::take(&mut buffer.out_at_close) {
        write_out_locked(fs, inode, &mut buffer)
    } else {
        Ok(())
    }
}

/// As [`write_out`], for a caller that holds the file's lock.
pub(super) fn write_out_locked(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) -> Result<()> {
    write_out_up_to(fs, inode, buffer, u64::MAX)
}

fn write_out_up_to(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    blocks_max: u64,
) -> Result<()> {
    let mut failure = None;
    let enough = buffer.len_blocks().saturating_sub(blocks_max);
    while buffer.len_blocks() > enough
        && let Some(run) = buffer.first_run()
    {
        let step = run.start..run.end.min(run.start + STEP_BLOCKS.min(blocks_max));
        let Err(failed) = write_run(fs, inode, buffer, step) else {
            continue;
        };
        let keeps = keeps_data(&failed.error);
        failure.get_or_insert(failed.error);
        if keeps {
            break;
        }
        delay::discard(fs, inode, buffer, failed.blocks);
    }
    delay::release_surplus(fs, inode, buffer);
    if let Some(error) = &failure {
        buffer.error = Some(error.clone());
        let is_news = inode.write_errors.record();
        if is_news && !keeps_data(error) {
            fs.delayed.unseen.record(error);
        }
    }
    grow_on_disk(fs, inode, buffer)?;
    failure.map_or(Ok(()), Err)
}

/// Whether data stay delayed after this error.
fn keeps_data(error: &Error) -> bool {
    matches!(error, Error::NoSpace | Error::ReadOnly | Error::Journal(_))
}

/// A step of a writeout that failed.
struct Failed {
    /// Blocks of the file that were not written.
    blocks: Range<u64>,
    error: Error,
}

/// Writes out the front of consecutive blocks, up to the length of one run of space.
fn write_run(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    blocks: Range<u64>,
) -> std::result::Result<(), Failed> {
    let at = LogicalBlock(clamp_u32(blocks.start));
    let (len, reserve) = (clamp_u32(blocks.end - blocks.start), Reserve::Delayed);
    let reserved = NewBlocks::reserve(fs, inode, at, len, Shape::Data, reserve);
    let new = match reserved {
        Ok(new) => new,
        Err(error) => return Err(Failed { blocks, error }),
    };
    let end = blocks.start + u64::from(new.run().len_blocks);
    let blocks = blocks.start..end;
    write_to(fs, inode, buffer, new, &blocks).map_err(|error| Failed { blocks, error })
}

fn write_to(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    mut new: NewBlocks<'_>,
    blocks: &Range<u64>,
) -> Result<()> {
    fs.writable()?;
    let place = io::byte_of(fs, new.run().start);
    let slices = buffer.slices(blocks.clone());
    fs.begin_unflushed(inode);
    fs.base.device.write_vectored_at(place, &slices)?;
    let handle = fs.start_recorded(credits::MAP)?;
    new.commit(&handle)?;
    let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
    let clusters = blocks.start / ratio..blocks.end.div_ceil(ratio);
    let mut state = handle.write(inode);
    state.tree_claims = buffer.tree_claims;
    let inserted = new.insert(&handle, &mut state, ExtentState::Written);
    buffer.tree_claims = std::mem::take(&mut state.tree_claims);
    if inserted.as_ref().is_err_and(keeps_data) {
        // The data stay. A commit gives back the clusters that were just freed, but they are
        // claimed.
        if new.has_clusters() {
            fs.space.claim_freed(buffer.count_claims(clusters));
        }
        return inserted;
    }
    let taken = buffer.take_claims(clusters);
    fs.space.use_delayed(taken.clusters, 0);
    // The quota is charged now, so the reservation shrinks.
    buffer
        .promised
        .shrink(taken.promised * fs.base.geometry.cluster_size());
    let gone = match inserted {
        Ok(()) => blocks.clone(),
        // Other delayed data in these clusters have lost their reservation.
        Err(_) => blocks.start / ratio * ratio..blocks.end.next_multiple_of(ratio),
    };
    delay::forget_bytes(fs, buffer.remove(gone));
    let sizes = Sizes::of(&state);
    sizes.resized(fs, buffer, sizes.seen).store(&mut state);
    inserted
}

/// Updates the size on disk after delayed blocks in front of it were discarded.
fn grow_on_disk(fs: &Fs, inode: &Arc<Inode>, buffer: &Buffer) -> Result<()> {
    let before = Sizes::of(&inode.read());
    let after = before.resized(fs, buffer, before.seen);
    if after != before && fs.writable().is_ok() {
        let handle = fs.start_recorded(credits::ATTRIBUTES)?;
        after.store(&mut handle.write(inode));
    }
    Ok(())
}

/// Before the map of a bigalloc file changes, writes out its delayed data: the reservation of a
/// cluster depends on its other blocks.
pub(super) fn before_unmapping(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) -> Result<()> {
    if fs.base.geometry.blocks_per_cluster() > 1 && !buffer.is_empty() {
        write_out_locked(fs, inode, buffer)
    } else {
        Ok(())
    }
}

impl Fs {
    /// Writes out all delayed data.
    ///
    /// # Errors
    /// The first failure; the other files are tried nevertheless.
    pub(crate) fn write_out_all(&self) -> Result<()> {
        let waiting = self.delayed.all();
        waiting
            .iter()
            .map(|inode| write_out(self, inode))
            .fold(Ok(()), Result::and)
    }
}
