//! Inline data: files stored in the inode (feature inline_data).
//!
//! Invariants: the flag INLINE_DATA excludes a block map; conversion writes the data to a block
//! first, then changes attribute, flag and map in one transaction.

use super::allocate::NewBlocks;
use super::io;
use super::times::touch;
use crate::parts::map::{self, ExtentState};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::space::Reserve;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::xattr::{XattrName, XattrSet, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Full, InodeFlags, inline_data};
use uext4_journal::Handle;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;

/// Result of a change of inline data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Inline,
    /// Not stored: the inode has no space.
    Full,
}

/// Whether the file has inline data.
pub(super) fn is_inline(state: &InodeState) -> bool {
    state.disk.flags.contains(InodeFlags::INLINE_DATA)
}

/// Gives a new, empty file the attribute that goes with the flag INLINE_DATA. If the inode has no
/// space for it, the file maps blocks instead.
pub(crate) fn init(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    let mut state = handle.write(inode);
    if is_inline(&state) && store(&mut state, &[])?.is_err() {
        state.disk.flags.remove(InodeFlags::INLINE_DATA);
        map::init(fs, &mut state);
    }
    Ok(())
}

/// All of the inline data, as many bytes as the size says.
pub(super) fn content(state: &InodeState) -> Result<Vec<u8>> {
    let set = attributes(state)?;
    let value = match set.get(&XattrName::inline_data()) {
        Some(XattrValue::Here(value)) => value.as_slice(),
        _ => &[],
    };
    let disk = &state.disk;
    inline_data::read_file(&disk.i_block, value, disk.size).ok_or_else(|| {
        let problem = CorruptKind::InlineSize;
        Corrupt::new(DamageLocation::Inode(state.nr()), "inline data", problem).into()
    })
}

fn attributes(state: &InodeState) -> Result<XattrSet> {
    Ok(decode_ibody(
        &state.disk.tail,
        DamageLocation::Inode(state.nr()),
    )?)
}

/// Fills `buf` from byte `offset` on; the range does not extend past the end of the file.
pub(super) fn read(state: &InodeState, offset: u64, buf: &mut [u8]) -> Result<()> {
    if buf.is_empty() {
        return Ok(());
    }
    let content = content(state)?;
    let from = clamp_usize(offset);
    if let Some(bytes) = content.get(from..from + buf.len()) {
        buf.copy_from_slice(bytes);
    }
    Ok(())
}

/// Writes into the inode if the result fits; `update` sets size and times.
pub(super) fn write(
    fs: &Fs,
    inode: &Arc<Inode>,
    offset: u64,
    data: &[u8],
    update: impl FnOnce(&mut InodeState),
) -> Result<Stored> {
    let (from, end) = (clamp_usize(offset), offset + u64_of(data.len()));
    change(
        fs,
        inode,
        end,
        |content| {
            content.resize(content.len().max(from + data.len()), 0);
            content[from..][..data.len()].copy_from_slice(data);
        },
        update,
    )
}

/// Resizes the data in the inode if they fit.
pub(super) fn resize(fs: &Fs, inode: &Arc<Inode>, size: u64) -> Result<Stored> {
    let len = clamp_usize(size);
    change(
        fs,
        inode,
        size,
        |content| content.resize(len, 0),
        |state| {
            state.disk.size = size;
            touch(state, fs.now());
        },
    )
}

/// Changes the data in the inode. `need_bytes` is a lower bound of the new size.
fn change(
    fs: &Fs,
    inode: &Arc<Inode>,
    need_bytes: u64,
    edit: impl FnOnce(&mut Vec<u8>),
    update: impl FnOnce(&mut InodeState),
) -> Result<Stored> {
    let mut data = {
        let state = inode.read();
        let max = u64_of(inline_data::max_file_bytes(state.disk.tail.len()));
        if need_bytes > max {
            return Ok(Stored::Full);
        }
        content(&state)?
    };
    edit(&mut data);
    let handle = fs.start(credits::ATTRIBUTES)?;
    let mut state = handle.write(inode);
    if store(&mut state, &data)?.is_err() {
        return Ok(Stored::Full);
    }
    update(&mut state);
    Ok(Stored::Inline)
}

/// Stores the data in the inode; changes nothing when they do not fit.
fn store(state: &mut InodeState, data: &[u8]) -> Result<std::result::Result<(), Full>> {
    let mut set = attributes(state)?;
    let (i_block, value) = inline_data::split_file(data);
    set.set(XattrName::inline_data(), XattrValue::Here(value.to_vec()));
    let stored = encode_ibody(&mut state.disk.tail, &set);
    if stored.is_ok() {
        state.disk.i_block = i_block;
    }
    Ok(stored)
}

/// Moves the data to a block.
pub(super) fn convert(fs: &Fs, inode: &Arc<Inode>, reserve: Reserve) -> Result<()> {
    let data = content(&inode.read())?;
    if data.is_empty() {
        let handle = fs.start(credits::ATTRIBUTES)?;
        return clear(fs, &mut handle.write(inode));
    }
    if data.len() > fs.block_size() {
        return Err(Error::TooLarge);
    }
    let blocks = NewBlocks::reserve_first(fs, inode, reserve)?;
    fs.begin_unflushed(inode);
    io::write_padded(fs, blocks.run().start, 0, &data)?;
    let handle = fs.start(credits::MAP)?;
    let before = handle.write(inode).disk.clone();
    clear(fs, &mut handle.write(inode))?;
    let mapped = blocks.map(&handle, inode, ExtentState::Written, |_| {});
    if mapped.is_err() {
        handle.write(inode).disk = before;
    }
    mapped
}

/// Removes the data from the inode, and makes it an inode that maps blocks.
pub(crate) fn clear(fs: &Fs, state: &mut InodeState) -> Result<()> {
    let mut set = attributes(state)?;
    set.remove(&XattrName::inline_data());
    // With one attribute less, the rest always fits.
    let _ = encode_ibody(&mut state.disk.tail, &set);
    state.disk.flags.remove(InodeFlags::INLINE_DATA);
    map::init(fs, state);
    Ok(())
}
