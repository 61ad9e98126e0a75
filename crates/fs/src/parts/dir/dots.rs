//! "." and "..": a new directory, its parent, and whether anything else is left.

use super::view::{Dir, Form};
use super::{grow, inline};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::Result;
use uext4_format::{CorruptKind, FileType, InodeNr, LogicalBlock, dirent};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Writes "." and ".." of a new directory. It has no block yet, and no other thread knows it.
pub(crate) fn init(fs: &Fs, handle: &Handle<'_>, dir: &Arc<Inode>, parent: InodeNr) -> Result<()> {
    let mut view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        return inline::init(&mut view, handle, parent);
    }
    let kind = view.config().entry_type(FileType::Directory);
    let mut image = vec![0; fs.block_size()];
    dirent::init_first_block(&mut image, view.config().tail, dir.nr(), parent, kind);
    grow::append(&mut view, handle, image)?;
    Ok(())
}

/// The inode that ".." names.
pub(crate) fn parent_of(fs: &Fs, dir: &Arc<Inode>) -> Result<InodeNr> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        return Ok(inline::parent_of(&view));
    }
    let found = view.find_in(&*view.block_or_damage(LogicalBlock(0))?, &fs.hashed(b".."))?;
    Ok(found
        .ok_or_else(|| view.damage(CorruptKind::NoDotDot))?
        .inode)
}

/// Sets ".." to `parent`.
pub(crate) fn set_parent(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    parent: InodeNr,
) -> Result<()> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        inline::set_parent(&view, handle, parent);
        return Ok(());
    }
    let block = view.block_or_damage(LogicalBlock(0))?;
    let mut state = handle.write(&block);
    let kind = view.config().entry_type(FileType::Directory);
    let changed = view
        .leaf(state.bytes_mut(), block.nr())
        .retarget(b"..", parent, kind)?;
    if changed {
        Ok(())
    } else {
        Err(view.damage(CorruptKind::NoDotDot).into())
    }
}

/// True when only "." and ".." are left. Stays true only while `index` is held exclusively.
pub(crate) fn is_empty(fs: &Fs, dir: &Arc<Inode>) -> Result<bool> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        return inline::is_empty(&view);
    }
    let used = view.search_all(|block| {
        let state = block.read();
        let empty = view.leaf(state.bytes(), block.nr()).is_empty()?;
        Ok((!empty).then_some(()))
    })?;
    Ok(used.is_none())
}
