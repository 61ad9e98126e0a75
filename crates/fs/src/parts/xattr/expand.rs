//! Growth of the extra fields of old inodes.
//!
//! The attribute area follows the extra fields and shrinks; attributes that no longer fit move to
//! the block. If they fit nowhere, the superblock's minimum is tried, and else the inode stays as
//! it is.
//!
//! References: `s_want_extra_isize`, `s_min_extra_isize`; Linux grows inodes when they change.

use super::refs::Refs;
use super::{areas, change};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::{Error, Result};
use uext4_format::InodeFlags;
use uext4_format::xattr::{
    XattrName, XattrSet, block_capacity_bytes, encode_ibody, ibody_capacity_bytes,
};
use uext4_journal::{FullReason, Handle};
use uext4_sync::Arc;

/// Grows the extra fields of the inode to the wanted size, if they are smaller.
pub(crate) fn expand(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    if inode.read().disk.extra_isize >= fs.extra_isize.want {
        return Ok(());
    }
    handle.require_full(FullReason::Attribute);
    let mut refs = Refs::default();
    let expanded = {
        let mut state = handle.write(inode);
        let want = expand_to(fs, handle, &mut state, fs.extra_isize.want, &mut refs);
        match want {
            Err(Error::NoSpace) if state.disk.extra_isize < fs.extra_isize.min => {
                expand_to(fs, handle, &mut state, fs.extra_isize.min, &mut refs)
            }
            other => other,
        }
    };
    refs.apply(fs, handle)?;
    match expanded {
        Err(Error::NoSpace) => Ok(()),
        other => other,
    }
}

fn expand_to(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    extra_isize: u16,
    refs: &mut Refs,
) -> Result<()> {
    let more = usize::from(extra_isize - state.disk.extra_isize);
    let room = state.disk.tail.len().saturating_sub(more);
    let ibody = areas::ibody(state)?;
    let capacity = ibody_capacity_bytes(room);
    let left = if ibody.is_empty() || ibody.area_bytes() <= capacity {
        ibody
    } else if state.disk.flags.contains(InodeFlags::EA_INODE) {
        return Err(Error::NoSpace);
    } else {
        move_to_block(fs, handle, state, ibody, capacity, refs)?
    };
    let mut tail = vec![0; room];
    if !left.is_empty() {
        encode_ibody(&mut tail, &left).map_err(|_| Error::NoSpace)?;
    }
    state.disk.set_extra_isize(extra_isize, &tail);
    Ok(())
}

/// Moves attributes to the block, the largest first, until the others fit; returns the others.
/// Inline data cannot move.
fn move_to_block(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    ibody: XattrSet,
    capacity_bytes: usize,
    refs: &mut Refs,
) -> Result<XattrSet> {
    let old = areas::read_block(fs, state)?;
    let mut block = old.as_ref().map(|old| old.set.clone()).unwrap_or_default();
    let data = XattrName::inline_data();
    let mut movable: Vec<_> = ibody.iter().filter(|entry| entry.name != data).collect();
    movable.sort_by_key(|entry| entry.area_bytes());
    let mut left = ibody.clone();
    while !left.is_empty() && left.area_bytes() > capacity_bytes {
        let entry = movable.pop().ok_or(Error::NoSpace)?;
        left.remove(&entry.name);
        block.set(entry.name.clone(), entry.value.clone());
    }
    if block.area_bytes() > block_capacity_bytes(fs.block_size()) {
        return Err(Error::NoSpace);
    }
    change::store(fs, handle, state, (&left, &block), refs)?;
    Ok(left)
}
