//! Writes of file data.
//!
//! A write is a loop: `plan` decides how the next bytes are stored, one executor stores them
//! (`overwrite`, `unwritten`, `delay`, `fill_hole`), and `size_and_times` updates size and times.
//!
//! Invariant: blocks become written in the transaction in which the size on disk reaches them, so
//! no commit contains written extents behind that size. Delayed data in front would keep that size
//! back, so they are written out first.
//!
//! Locking: `Inode::io` exclusively for the whole write. It keeps sizes, map and inline data as
//! they are, so the state is read once (`Snapshot`), together with the first mapping. Flags and
//! times may change meanwhile: such a change counts as later than the write.

mod delay;
mod fill_hole;
mod overwrite;
mod plan;
mod size_and_times;
mod unwritten;

use super::delay::When;
use super::write_policy::{WritePolicy, check_may_change, check_regular};
use super::{inline, io, size};
use crate::parts::map;
use crate::state::delayed::Buffer;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::space::Reserve;
use crate::types::attr::Checks;
use crate::types::error::{Error, Result};
use plan::{Limits, Piece};
use size_and_times::Snapshot;
use uext4_format::{InodeFlags, LogicalBlock, Timestamp};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;

/// Where the first byte of a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At this byte of the file.
    Offset(u64),
    /// At the end of the file, which no other write moves meanwhile.
    End,
}

impl From<u64> for Position {
    fn from(offset_bytes: u64) -> Self {
        Self::Offset(offset_bytes)
    }
}

/// What a write has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The first byte in the file.
    pub offset: u64,
    /// Length in bytes; less than the request after an error.
    pub len_bytes: usize,
    /// Flags that the file had at the write.
    pub(crate) flags: InodeFlags,
}

/// Writes `data`; stores less than all when space or the largest size was reached, and nothing only
/// if `data` is empty.
pub(crate) fn write(
    fs: &Fs,
    inode: &Arc<Inode>,
    position: Position,
    data: &[u8],
    policy: WritePolicy,
) -> Result<Written> {
    retried(fs, data.len(), || {
        let mut buffer = inode.io.write();
        fs.writable()?;
        let state = inode.read();
        let offset = check_position(&state, position, policy.checks)?;
        let mut written = Written {
            offset,
            len_bytes: 0,
            flags: state.disk.flags,
        };
        if data.is_empty() {
            return Ok(written);
        }
        check_may_change(&state)?;
        let room = map::size_end_bytes(fs, &state).saturating_sub(offset);
        if room == 0 {
            return Err(Error::TooLarge);
        }
        let data = &data[..clamp_usize(room).min(data.len())];
        let mut write = Write::new(fs, inode, &mut buffer, &state, offset, data, policy);
        let first = write.plan(&state)?;
        drop(state);
        size::allow(fs, offset + u64_of(data.len()))?;
        written.len_bytes = write.run(first)?;
        Ok(written)
    })
}

/// Fails early when any write to the file must fail: no block is mapped, and no space is left.
///
/// # Errors
/// [`Error::NoSpace`] in that case.
pub(crate) fn check_room(fs: &Fs, inode: &Arc<Inode>, reserve: Reserve) -> Result<()> {
    let has_some = {
        let buffer = inode.io.read();
        let state = inode.read();
        !buffer.is_empty() || inline::is_inline(&state) || state.disk.sectors(&fs.base.geometry) > 0
    };
    if has_some {
        Ok(())
    } else {
        retried(fs, 0, || {
            fs.space
                .with_commits(&fs.base, || fs.space.check_room(reserve))
        })
    }
}

/// Runs a write. On [`Error::NoSpace`], writes out all delayed data, which need less than was
/// reserved for them, and runs it once more. Then balances the dirty data.
fn retried<T>(fs: &Fs, len_bytes: usize, mut write: impl FnMut() -> Result<T>) -> Result<T> {
    let mut written = write();
    if matches!(written, Err(Error::NoSpace)) && fs.space.delayed_tree_clusters() > 0 {
        fs.write_out_all()?;
        written = write();
    }
    fs.balance_delayed(u64_of(len_bytes));
    written
}

/// Where a write to the file begins, if its type and flags permit it.
pub(crate) fn check_position(
    state: &InodeState,
    position: Position,
    checks: Checks,
) -> Result<u64> {
    check_regular(state)?;
    let (size, flags) = (state.disk.size, state.disk.flags);
    let offset = match position {
        Position::Offset(offset) => offset,
        Position::End => size,
    };
    let fixed = flags.contains(InodeFlags::IMMUTABLE)
        || flags.contains(InodeFlags::APPEND) && offset < size;
    match checks {
        Checks::Library if fixed => Err(Error::NotPermitted),
        _ => Ok(offset),
    }
}

struct Write<'a> {
    fs: &'a Fs,
    inode: &'a Arc<Inode>,
    buffer: &'a mut Buffer,
    file: Snapshot,
    /// First byte of the write in the file.
    start: u64,
    data: &'a [u8],
    /// Bytes of `data` that are stored.
    done: usize,
    policy: WritePolicy,
    /// The new mtime and ctime; `None` if the caller sets them itself.
    now: Option<Timestamp>,
    /// When new data get their blocks.
    when: When,
    /// Limits of the next piece.
    limits: Limits,
}

impl<'a> Write<'a> {
    fn new(
        fs: &'a Fs,
        inode: &'a Arc<Inode>,
        buffer: &'a mut Buffer,
        state: &InodeState,
        start: u64,
        data: &'a [u8],
        policy: WritePolicy,
    ) -> Self {
        let now = policy.times.now(fs);
        let when = When::of(fs, data.len());
        Self {
            fs,
            inode,
            buffer,
            file: Snapshot::new(fs, state, start, now),
            start,
            data,
            done: 0,
            policy,
            now,
            when,
            limits: Limits::of(when),
        }
    }

    /// Stores the data, up to the first error; returns how many bytes. The error counts if nothing
    /// is stored.
    fn run(&mut self, first: Piece) -> Result<usize> {
        let mut piece = Ok(first);
        let stopped = loop {
            if let Err(error) = piece.and_then(|piece| self.execute(piece)) {
                break Some(error);
            }
            if self.done == self.data.len() {
                break None;
            }
            piece = self.plan(&self.inode.read());
        };
        if self.done > 0 {
            self.update_size_and_times()?;
        }
        match stopped {
            Some(error) if self.done == 0 => Err(error),
            _ => Ok(self.done),
        }
    }

    /// Executes one piece. A piece that stores no bytes changes what the next plan sees.
    fn execute(&mut self, piece: Piece) -> Result<()> {
        let stored = match piece {
            Piece::Inline => self.write_inline()?,
            Piece::Gap => self.zero_gap()?,
            Piece::Buffered => self.overwrite_buffered(),
            Piece::Overwrite { start, len_blocks } => self.overwrite(start, len_blocks)?,
            Piece::Unwritten { start, len_blocks } => self.fill_unwritten(start, len_blocks)?,
            Piece::Allocate { len_blocks } => self.fill_hole(len_blocks)?,
            Piece::Delay(need) => match self.delay(&need) {
                Err(error) => return self.limits.tighten(error, &need),
                Ok(stored) => stored,
            },
        };
        if stored > 0 {
            self.done += stored;
            self.limits = Limits::of(self.when);
        }
        Ok(())
    }

    /// The next byte in the file.
    fn at(&self) -> u64 {
        self.start + u64_of(self.done)
    }

    /// The block of the next byte, and its offset in it.
    fn block_and_offset(&self) -> (LogicalBlock, u64) {
        io::split(self.fs, self.at())
    }

    /// The next data, as far as they go to the first `len_blocks` blocks.
    fn front(&self, len_blocks: u32) -> &'a [u8] {
        let (_, within) = self.block_and_offset();
        let room = (u64::from(len_blocks) << self.fs.base.geometry.block_bits) - within;
        let data = &self.data[self.done..];
        &data[..clamp_usize(room).min(data.len())]
    }
}
