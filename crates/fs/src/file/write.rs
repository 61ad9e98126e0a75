//! Writes of file data.

use super::delay::{self, When};
use super::slice::Slice;
use super::{check_may_change, inline, io, stale_times, touch};
use crate::delayed::Buffer;
use crate::inode::{Inode, InodeState};
use crate::map::{self, ExtentState, Mapping};
use crate::space::Reserve;
use crate::{Error, Fs, Result, credits};
use uext4_format::Timestamp;
use uext4_journal::Object;
use uext4_sync::Arc;

/// Effect of a write on the file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The times become the time of the write.
    Change,
    /// The times stay: the caller sets them itself.
    Keep,
}

impl Times {
    pub(super) fn now(self, fs: &Fs) -> Option<Timestamp> {
        (self == Self::Change).then(|| fs.now())
    }
}

/// Writes `data` from byte `offset` on; answers how many bytes were written. That is less than all
/// when space or the largest size was reached, and zero only if `data` is empty.
pub(crate) fn write(
    fs: &Fs,
    inode: &Arc<Inode>,
    offset: u64,
    data: &[u8],
    reserve: Reserve,
) -> Result<usize> {
    write_at(fs, inode, offset, data, reserve, Times::Change)
}

/// As [`write`], with a choice of the times.
pub(crate) fn write_at(
    fs: &Fs,
    inode: &Arc<Inode>,
    offset: u64,
    data: &[u8],
    reserve: Reserve,
    times: Times,
) -> Result<usize> {
    retried(fs, data, || {
        let mut buffer = inode.io.write();
        let rules = Rules::of(fs, data, reserve, times);
        write_locked(fs, inode, &mut buffer, offset, data, rules)
    })
}

/// Appends `data`; answers the offset and how many bytes were written.
pub(crate) fn append(
    fs: &Fs,
    inode: &Arc<Inode>,
    data: &[u8],
    reserve: Reserve,
) -> Result<(u64, usize)> {
    retried(fs, data, || {
        let mut buffer = inode.io.write();
        let offset = inode.read().disk.size;
        let rules = Rules::of(fs, data, reserve, Times::Change);
        let written = write_locked(fs, inode, &mut buffer, offset, data, rules)?;
        Ok((offset, written))
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
        !buffer.is_empty() || inline::is_inline(&state) || state.disk.sectors(&fs.geometry) > 0
    };
    match has_some {
        true => Ok(()),
        false => retried(fs, &[], || {
            fs.space.with_commits(fs, || fs.space.check_room(reserve))
        }),
    }
}

/// Runs a write. On [`Error::NoSpace`], writes out all delayed data, which need less than was
/// reserved for them, and runs it once more. Then balances the dirty data.
fn retried<T>(fs: &Fs, data: &[u8], mut write: impl FnMut() -> Result<T>) -> Result<T> {
    let mut written = write();
    if matches!(written, Err(Error::NoSpace)) && fs.space.delayed_tree_clusters() > 0 {
        fs.write_out_all()?;
        written = write();
    }
    fs.balance_delayed(data.len() as u64);
    written
}

/// Parameters that hold for the whole write.
#[derive(Clone, Copy)]
struct Rules {
    reserve: Reserve,
    when: When,
    /// The new times.
    now: Option<Timestamp>,
}

impl Rules {
    fn of(fs: &Fs, data: &[u8], reserve: Reserve, times: Times) -> Self {
        Self {
            reserve,
            when: When::of(fs, data.len()),
            now: times.now(fs),
        }
    }
}

fn write_locked(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    offset: u64,
    data: &[u8],
    rules: Rules,
) -> Result<usize> {
    fs.writable()?;
    if data.is_empty() {
        return Ok(0);
    }
    let (size, inline, size_end) = {
        let state = inode.read();
        check_may_change(&state)?;
        (
            state.disk.size,
            inline::is_inline(&state),
            map::size_end_bytes(fs, &state),
        )
    };
    let room = size_end
        .checked_sub(offset)
        .filter(|room| *room > 0)
        .ok_or(Error::TooLarge)?;
    let data = &data[..room.min(data.len() as u64) as usize];
    if inline {
        if inline::write(fs, inode, offset, data, rules.now)? == inline::Stored::Inline {
            return Ok(data.len());
        }
        inline::convert(fs, inode, rules.reserve)?;
    }
    if offset > size {
        io::zero_tail(fs, inode, buffer, size)?;
    }
    write_slices(fs, inode, buffer, offset, data, rules)
}

fn write_slices(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    offset: u64,
    data: &[u8],
    rules: Rules,
) -> Result<usize> {
    let mut done = 0;
    let mut stopped = None;
    while done < data.len() {
        let at = offset + done as u64;
        let part = Part {
            at,
            data: &data[done..],
            reached: if done > 0 { at } else { 0 },
        };
        match write_slice(fs, inode, buffer, part, rules) {
            Ok(written) => done += written,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    if done > 0 {
        settle(fs, inode, buffer, offset + done as u64, rules.now)?;
    }
    match stopped {
        Some(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

/// Updates size and times that the slices have not updated.
fn settle(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &Buffer,
    end: u64,
    now: Option<Timestamp>,
) -> Result<()> {
    let (size, grows, stale) = {
        let state = inode.read();
        let size = state.disk.size.max(end);
        let grows = delay::disksize(fs, &state, buffer, size).unwrap_or(size)
            != state.disksize.unwrap_or(state.disk.size);
        (size, grows, now.filter(|now| stale_times(&state, *now)))
    };
    if grows {
        let handle = fs.start(credits::ATTRIBUTES)?;
        note_write(fs, &mut handle.write(inode), buffer, end, now);
        return Ok(());
    }
    if size != inode.read().disk.size {
        // No change on disk.
        let mut state = inode.live().write_unlogged();
        delay::set_size(fs, &mut state, buffer, size);
    }
    if let Some(now) = stale {
        fs.change_times(inode, now, |state| touch(state, now))?;
    }
    Ok(())
}

pub(super) fn note_write(
    fs: &Fs,
    state: &mut InodeState,
    buffer: &Buffer,
    end: u64,
    now: Option<Timestamp>,
) {
    let size = state.disk.size.max(end);
    delay::set_size(fs, state, buffer, size);
    if let Some(now) = now {
        touch(state, now);
    }
}

/// The remaining part of a write.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    /// First byte in the file.
    pub(super) at: u64,
    pub(super) data: &'a [u8],
    /// End of the preceding parts in the file; 0 for the first.
    pub(super) reached: u64,
}

/// Writes the front of `part`, up to the end of one mapping; answers how many bytes.
fn write_slice(
    fs: &Fs,
    inode: &Arc<Inode>,
    buffer: &mut Buffer,
    part: Part<'_>,
    rules: Rules,
) -> Result<usize> {
    let Part { at, data, .. } = part;
    let (block, within) = io::split(fs, at);
    let waited = delay::overwrite(fs, buffer, block.0.into(), within as usize, data);
    if waited > 0 {
        return Ok(waited);
    }
    let blocks = io::blocks_for(fs, within + data.len() as u64).min(u64::from(u32::MAX)) as u32;
    let mapping = map::lookup(fs, &inode.read(), block, blocks)?;
    if matches!(mapping, Mapping::Mapped { .. }) {
        fs.begin_unflushed(inode);
    }
    let mut slice = Slice {
        fs,
        inode,
        buffer,
        part,
        block,
        within,
        now: rules.now,
    };
    match mapping {
        Mapping::Mapped {
            start,
            len_blocks,
            state: ExtentState::Written,
        } => slice.overwrite(start, len_blocks),
        Mapping::Mapped {
            start,
            len_blocks,
            state: ExtentState::Unwritten,
        } => slice.fill_unwritten(start, len_blocks),
        Mapping::Hole { len_blocks } => {
            let len_blocks = delay::cut_hole(slice.buffer, block, len_blocks);
            match rules.when {
                When::Later => slice.keep(len_blocks, rules.reserve),
                When::AtOnce => slice.fill_hole(len_blocks, rules.reserve),
            }
        }
    }
}
