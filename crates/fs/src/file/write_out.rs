//! Writing out data that waited: blocks are chosen now, for all that is consecutive at once.
//!
//! A failure of the device loses the blocks that it hit: they read as before the write, and the
//! error is told once, by the next `fsync` of the file or whoever asked for the write-out. When the
//! mount is read-only by then, or space is short against all promises, the data go on waiting.

use super::allocate::{NewBlocks, Shape};
use super::{delay, io};
use crate::delayed::Buffer;
use crate::inode::Inode;
use crate::map::ExtentState;
use crate::settings::Switch;
use crate::space::Reserve;
use crate::{Error, Fs, Result, Threads, credits};
use std::ops::Range;
use std::sync::Arc;
use uext4_format::LogicalBlock;

/// Most blocks of one step.
const STEP_BLOCKS: u64 = 1 << 16;

/// Writes out what waits of the file.
///
/// # Errors
/// The first failure; the file keeps it for its `fsync`, too.
pub(crate) fn write_out(fs: &Fs, inode: &Arc<Inode>) -> Result<()> {
    if !inode.has_delayed() {
        return Ok(());
    }
    let written = write_out_locked(fs, inode, &mut inode.io.write());
    fs.discard_unused(inode);
    written
}

/// As [`write_out`], and answers an error of an earlier one that nobody was told of.
pub(crate) fn write_out_and_tell(fs: &Fs, inode: &Arc<Inode>) -> Result<()> {
    let written = write_out(fs, inode);
    if !inode.has_write_error() {
        return written;
    }
    let mut buffer = inode.io.write();
    let error = buffer.error.take();
    inode.publish_delayed(&buffer);
    error.map_or(written, Err)
}

/// A user closes the file: what replaces its old content goes out (`auto_da_alloc`).
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

/// As [`write_out`], for a caller who holds the file.
pub(super) fn write_out_locked(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) -> Result<()> {
    let mut failure = None;
    while let Some(run) = buffer.first_run() {
        let step = run.start..run.end.min(run.start + STEP_BLOCKS);
        let Err(failed) = write_run(fs, inode, buffer, step) else {
            continue;
        };
        let keeps = matches!(
            failed.error,
            Error::NoSpace | Error::ReadOnly | Error::Journal(_)
        );
        failure.get_or_insert(failed.error);
        if keeps {
            break;
        }
        delay::discard(fs, inode, buffer, failed.blocks);
    }
    delay::settle(fs, inode, buffer);
    if let Some(error) = &failure {
        buffer.note_error(error);
        inode.publish_delayed(buffer);
    }
    grow_on_disk(fs, inode, buffer)?;
    failure.map_or(Ok(()), Err)
}

/// A step that came to nothing.
struct Failed {
    /// The blocks that it was about.
    blocks: Range<u64>,
    error: Error,
}

/// Writes out the front of consecutive blocks, as far as one run of space reaches.
fn write_run(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    blocks: Range<u64>,
) -> std::result::Result<(), Failed> {
    let (at, len) = (LogicalBlock(blocks.start as u32), blocks.end - blocks.start);
    let reserve = Reserve::Delayed;
    let reserved = NewBlocks::reserve(fs, inode, at, len as u32, Shape::Data, reserve);
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
    fs.device.write_vectored_at(place, &slices)?;
    let handle = fs.start(credits::MAP)?;
    new.commit(&handle)?;
    let ratio = u64::from(fs.geometry.blocks_per_cluster());
    let claims = buffer.take_claims(blocks.start / ratio..blocks.end.div_ceil(ratio));
    fs.space.use_delayed(claims, 0);
    let mut state = handle.write(inode);
    state.tree_claims = buffer.tree_claims;
    let inserted = new.insert(&handle, &mut state, ExtentState::Written);
    buffer.tree_claims = std::mem::take(&mut state.tree_claims);
    let gone = match inserted {
        Ok(()) => blocks.clone(),
        // Whatever else waits in these clusters has lost its claim.
        Err(_) => blocks.start / ratio * ratio..blocks.end.next_multiple_of(ratio),
    };
    delay::forget_bytes(fs, buffer.remove(gone));
    let size = state.disk.size;
    delay::set_size(fs, &mut state, buffer, size);
    inserted
}

/// Blocks that were given up, or punched, keep the size on disk back no longer.
fn grow_on_disk(fs: &Fs, inode: &Arc<Inode>, buffer: &Buffer) -> Result<()> {
    let (now, then) = {
        let state = inode.read();
        let then = delay::disksize(fs, &state, buffer, state.disk.size);
        (state.disksize, then)
    };
    if now != then && fs.writable().is_ok() {
        let handle = fs.start(credits::ATTRIBUTES)?;
        handle.write(inode).disksize = then;
    }
    Ok(())
}

/// Before the map of a file with clusters changes, nothing of it may wait: what a cluster costs
/// depends on its other blocks.
pub(super) fn before_unmapping(fs: &Fs, inode: &Arc<Inode>, buffer: &mut Buffer) -> Result<()> {
    if fs.geometry.blocks_per_cluster() > 1 && !buffer.is_empty() {
        write_out_locked(fs, inode, buffer)
    } else {
        Ok(())
    }
}

impl Fs {
    /// Writes out everything that waits.
    ///
    /// # Errors
    /// The first failure; the others are tried all the same.
    pub(crate) fn write_out_all(&self) -> Result<()> {
        let waiting = self.delayed.all();
        waiting
            .iter()
            .map(|inode| write_out(self, inode))
            .fold(Ok(()), Result::and)
    }

    /// Writes out what has waited long enough.
    pub(crate) fn write_out_old(&self) {
        if let Some(_pass) = self.changes.try_enter() {
            // What lost its last user is not worth writing.
            let _noted = self.note(self.reap());
        }
        let now = self.clock.monotonic();
        let before = now.saturating_sub(self.delayed.expire());
        for inode in self.delayed.older_than(before.as_nanos() as u64) {
            // Who stops changes writes out everything.
            let Some(_pass) = self.changes.try_enter() else {
                return;
            };
            if self.writable().is_err() {
                return;
            }
            // The file keeps the error for its fsync.
            let _told_later = self.note(write_out(self, &inode));
        }
    }

    /// Writes out what has waited longest while more waits than is allowed. No lock may be held.
    pub(crate) fn write_out_excess(&self) {
        while self.delayed.is_over() {
            let Some((since, inode)) = self.delayed.claim_oldest() else {
                return;
            };
            let written = self.note(write_out(self, &inode));
            self.delayed.done(inode.nr(), since);
            if written.is_err() {
                return;
            }
        }
    }

    /// Starts the thread that writes out, where there is something for it to do.
    pub(crate) fn start_flusher(self: &Arc<Self>, threads: Threads) {
        let background = threads == Threads::Background;
        if background && self.settings.has(Switch::Delalloc) && self.state.is_writable() {
            self.flusher.start(self);
        }
    }
}
