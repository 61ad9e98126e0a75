//! The attribute block of an inode: creation, change, sharing, copy and free.
//!
//! Concurrency: the thread that drops the last reference clears the block's bytes under its lock
//! before it frees the block, so a thread that finds the block by its hash sees that it is gone.

use super::areas::LoadedBlock;
use super::refs::Refs;
use super::share;
use crate::cache::meta::MetaBlock;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::space::{Reserve, metadata_end};
use crate::types::error::{Error, Result};
use uext4_format::xattr::{XattrBlock, XattrSet, encode_block};
use uext4_format::{BlockNr, BlockRun};
use uext4_journal::{Handle, Object};
use uext4_sync::Arc;

/// Stores `new` in the inode's block, and the block's number in `state`. Changes nothing after an
/// error other than damage.
pub(super) fn put(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    (old, reserve): (Option<&LoadedBlock>, Reserve),
    new: &XattrSet,
    refs: &mut Refs,
) -> Result<()> {
    if old.map_or(new.is_empty(), |old| old.set == *new) {
        return Ok(());
    }
    let mut image = vec![0; fs.block_size()];
    if !new.is_empty() {
        encode_block(&mut image, new).map_err(|_| Error::NoSpace)?;
        if let Some(block) = share::join(fs, handle, &image) {
            state.disk.file_acl = block.nr();
            return release_old(fs, handle, old, refs);
        }
        if old.is_some_and(|old| replace(fs, handle, old, &image, new, refs)) {
            return Ok(());
        }
    }
    state.disk.file_acl = if new.is_empty() {
        BlockNr(0)
    } else {
        let nr = create(fs, handle, state, image, reserve)?;
        refs.take_all(new);
        // Before the old block is released: its reference may be the last on the values.
        if let Err(error) = refs.apply_increments(fs, handle) {
            give_up(fs, handle, nr)?;
            return Err(error);
        }
        nr
    };
    release_old(fs, handle, old, refs)
}

/// Changes the block in place if the inode does not share it.
fn replace(
    fs: &Fs,
    handle: &Handle<'_>,
    old: &LoadedBlock,
    image: &[u8],
    new: &XattrSet,
    refs: &mut Refs,
) -> bool {
    let alone = |bytes: &[u8]| XattrBlock::new(bytes).refcount() == 1;
    if !alone(old.meta.live().read().bytes()) {
        return false;
    }
    {
        let mut block = handle.write(&old.meta);
        if !alone(block.bytes()) {
            return false;
        }
        block.bytes_mut().copy_from_slice(image);
    }
    fs.shared_xattrs
        .note(XattrBlock::new(image).hash(), old.meta.nr());
    refs.take_all(new);
    refs.drop_all(&old.set);
    true
}

fn create(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &InodeState,
    image: Vec<u8>,
    reserve: Reserve,
) -> Result<BlockNr> {
    // Metadata may use reserved blocks, unless the caller's request may not.
    if reserve == Reserve::Keep && !fs.space.has_room(reserve) {
        return Err(Error::NoSpace);
    }
    let end = metadata_end(&fs.base);
    let nr = fs
        .space
        .allocate_block(&fs.base, handle, None, state.nr(), reserve, end)?;
    let hash = XattrBlock::new(&image).hash();
    fs.blocks
        .create(handle, nr, fs.blocks.xattr_seal(), image.into());
    fs.shared_xattrs.note(hash, nr);
    Ok(nr)
}

/// Frees a block that was just created, unless another inode shares it by now.
fn give_up(fs: &Fs, handle: &Handle<'_>, nr: BlockNr) -> Result<()> {
    match fs.blocks.cached(nr, fs.blocks.xattr_seal()) {
        Some(block) if drop_reference(handle, &block) => free(fs, handle, nr),
        _ => Ok(()),
    }
}

fn release_old(
    fs: &Fs,
    handle: &Handle<'_>,
    old: Option<&LoadedBlock>,
    refs: &mut Refs,
) -> Result<()> {
    let Some(old) = old else { return Ok(()) };
    if !drop_reference(handle, &old.meta) {
        return Ok(());
    }
    refs.drop_all(&old.set);
    free(fs, handle, old.meta.nr())
}

/// Drops one reference; true if it was the last one, and the block must be freed.
fn drop_reference(handle: &Handle<'_>, block: &Arc<MetaBlock>) -> bool {
    let mut state = handle.write(block);
    let refcount = XattrBlock::new(state.bytes()).refcount();
    if refcount > 1 {
        XattrBlock::new(state.bytes_mut()).set_refcount(refcount - 1);
    } else {
        state.bytes_mut().fill(0);
    }
    refcount <= 1
}

fn free(fs: &Fs, handle: &Handle<'_>, nr: BlockNr) -> Result<()> {
    fs.blocks.forget(handle, nr);
    fs.space.free(
        &fs.base,
        handle,
        BlockRun {
            start: nr,
            len_blocks: 1,
        },
    )
}
