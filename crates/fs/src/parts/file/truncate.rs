//! Truncate: changes the size, and frees the blocks behind it.
//!
//! Crash safety: if the truncate takes more than one transaction, the inode is tracked as an orphan
//! from the first, which has the new size, to the last. Recovery completes it with
//! [`finish_truncate`].

use super::size::Sizes;
use super::symlink::is_fast_link;
use super::times::touch;
use super::write_out::before_unmapping;
use super::write_policy::check_may_change;
use super::{delay, inline, io};
use crate::parts::map::{self, LOGICAL_END, Progress};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::space::Reserve;
use crate::types::credits;
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::FileType;
use uext4_journal::{FullReason, Handle};
use uext4_sync::Arc;

/// Sets the size to `size` bytes: truncates the file, or extends it with a hole.
pub(crate) fn truncate(fs: &Fs, inode: &Arc<Inode>, size: u64) -> Result<()> {
    let mut buffer = inode.io.write();
    let buffer = &mut *buffer;
    fs.writable()?;
    let (old, inline, size_end) = {
        let state = inode.read();
        check_may_change(&state)?;
        (
            state.disk.size,
            inline::is_inline(&state),
            map::size_end_bytes(fs, &state),
        )
    };
    if size > size_end {
        return Err(Error::TooLarge);
    }
    super::size::allow(fs, size)?;
    if inline {
        if inline::resize(fs, inode, size)? == inline::Stored::Inline {
            return Ok(());
        }
        inline::convert(fs, inode, Reserve::MayUse)?;
    }
    fs.discard_preallocation(inode);
    if size < old {
        delay::discard(fs, inode, buffer, io::blocks_for(fs, size)..LOGICAL_END + 1);
        before_unmapping(fs, inode, buffer)?;
    }
    // A file that is rewritten from empty is written out at close (`auto_da_alloc`).
    buffer.out_at_close |= size == 0 && fs.base.settings.has(Switch::AutoDaAlloc);
    io::zero_tail(fs, inode, buffer, size.min(old))?;
    let now = fs.now();
    let mut handle = fs.start_recorded(credits::TRUNCATE)?;
    {
        let mut state = handle.write(inode);
        Sizes::of(&state)
            .resized(fs, buffer, size)
            .store(&mut state);
        touch(&mut state, now);
    }
    if size > old {
        Ok(())
    } else {
        cut(fs, &mut handle, inode, io::blocks_for(fs, size))
    }
}

/// Frees the blocks from `first` on. The new size is in the handle's transaction.
fn cut(fs: &Fs, handle: &mut Handle<'_>, inode: &Arc<Inode>, first: u64) -> Result<()> {
    let mut end = LOGICAL_END;
    let mut in_steps = fs.orphans.track_each_truncate();
    if in_steps {
        track(fs, handle, inode)?;
    }
    loop {
        let progress = {
            let mut state = handle.write(inode);
            map::remove(fs, handle, &mut state, first..end)?
        };
        let Progress::More { end: left } = progress else {
            break;
        };
        end = left;
        if !in_steps {
            in_steps = true;
            track(fs, handle, inode)?;
        }
        handle.restart(credits::TRUNCATE)?;
    }
    if in_steps {
        inode.set_truncating(&mut handle.write(inode), false);
        fs.orphans.remove_unless_needed(&fs.base, handle, inode)?;
    }
    Ok(())
}

/// Tracks an inode whose blocks are about to be freed in several transactions. Records would have
/// the new size without the rest of the cut, and none of the tracking.
pub(super) fn track(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    handle.require_full(FullReason::Orphan);
    inode.set_truncating(&mut handle.write(inode), true);
    fs.orphans.add(&fs.base, handle, inode)
}

/// Whether `i_block` of this file type maps blocks, so that a truncate may free some.
pub(crate) fn can_be_cut(fs: &Fs, state: &InodeState) -> bool {
    match state.disk.file_type() {
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => !is_fast_link(fs, state),
        _ => false,
    }
}

/// Frees the blocks that an interrupted truncate left behind the size, and ends the tracking.
pub(crate) fn finish_truncate(fs: &Fs, inode: &Arc<Inode>) -> Result<()> {
    let mut buffer = inode.io.write();
    let (size, inline) = {
        let state = inode.read();
        (state.disk.size, inline::is_inline(&state))
    };
    let mut handle = if inline {
        fs.start(credits::TRUNCATE)?
    } else {
        io::zero_tail(fs, inode, &mut buffer, size)?;
        let mut handle = fs.start(credits::TRUNCATE)?;
        cut(fs, &mut handle, inode, io::blocks_for(fs, size))?;
        handle
    };
    handle.restart(credits::ATTRIBUTES)?;
    fs.orphans.remove_unless_needed(&fs.base, &handle, inode)
}

/// Frees all blocks of an orphan that is being freed. Restarts the handle as often as needed; the
/// last transaction is the handle's at the end.
pub(crate) fn free_all_blocks(fs: &Fs, handle: &mut Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    let mut end = LOGICAL_END;
    loop {
        let progress = {
            let mut state = handle.write(inode);
            map::remove(fs, handle, &mut state, 0..end)?
        };
        match progress {
            Progress::Done => return Ok(()),
            Progress::More { end: left } => end = left,
        }
        handle.restart(credits::TRUNCATE)?;
        fs.promise_if_gone(handle, inode.nr());
    }
}
