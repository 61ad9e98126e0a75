//! Replay of inode records.
//!
//! A record has all fields of an inode, except for those that other steps own here: its map and
//! block count ([`super::maps`]), its place on the orphan list, and a directory's entries, size and
//! links ([`super::names`]).

use super::maps::{generation, generation_of};
use super::{contradiction, load};
use crate::parts::{dir, file, xattr};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::quota::{Owners, Usage};
use crate::state::space::Was;
use crate::types::credits;
use crate::types::error::Result;
use std::collections::BTreeMap;
use uext4_format::fast_commit::Record;
use uext4_format::{
    Checksums, CorruptKind, FileType, I_BLOCK_BYTES, Inode as DiskInode, InodeFlags, InodeNr,
    RawInode,
};
use uext4_journal::Handle;
use uext4_num::u64_of;
use uext4_sync::Arc;

/// Flags of the storage format: they stay as the existing map requires.
const STORAGE: InodeFlags = InodeFlags(
    InodeFlags::EXTENTS.0
        | InodeFlags::HUGE_FILE.0
        | InodeFlags::INDEX.0
        | InodeFlags::INLINE_DATA.0,
);

/// Brings every recorded inode to its last state, and allocates new ones.
pub(super) fn apply(fs: &Fs, records: &[Record], last: &BTreeMap<InodeNr, &[u8]>) -> Result<()> {
    for (nr, raw) in last {
        let kind = FileType::from_mode(RawInode(raw).mode())
            .ok_or(contradiction(*nr, CorruptKind::FileType))?;
        match kind {
            FileType::Directory => apply_directory(fs, *nr, raw, first_parent(records, *nr))?,
            _ => apply_file(fs, *nr, raw, kind)?,
        }
    }
    Ok(())
}

/// The directory in which an inode was created.
fn first_parent(records: &[Record], nr: InodeNr) -> Option<InodeNr> {
    records.iter().find_map(|record| match record {
        Record::Create(dentry) if dentry.inode == nr => Some(dentry.parent),
        _ => None,
    })
}

fn apply_file(fs: &Fs, nr: InodeNr, raw: &[u8], kind: FileType) -> Result<()> {
    let handle = fs.start(credits::CREATE)?;
    free_other_life(fs, &handle, nr, raw)?;
    if fs.space.take_inode(&fs.base, &handle, nr, kind)? == Was::Free {
        return make(fs, &handle, nr, raw, kind).map(|_| ());
    }
    let inode = load(fs, nr)?;
    let mut state = handle.write(&inode);
    if state.disk.file_type() != Some(kind) {
        return Err(contradiction(nr, CorruptKind::FcOtherType));
    }
    merge_file(fs, &handle, &mut state, raw)
}

/// Frees the number if another file has it on disk, which the records removed. Its blocks are
/// unmapped already.
fn free_other_life(fs: &Fs, handle: &Handle<'_>, nr: InodeNr, raw: &[u8]) -> Result<()> {
    if generation_of(fs, nr)?.is_none_or(|found| found == generation(raw)) {
        return Ok(());
    }
    let inode = load(fs, nr)?;
    fs.finish_evict(handle, &inode)
}

/// Fills a newly allocated inode from its record, with an empty map.
fn make(
    fs: &Fs,
    handle: &Handle<'_>,
    nr: InodeNr,
    raw: &[u8],
    kind: FileType,
) -> Result<Arc<Inode>> {
    let mut disk = parse(
        fs,
        nr,
        raw,
        &vec![0; usize::from(fs.base.geometry.inode_size)],
    )?;
    disk.dtime = 0;
    disk.blocks_raw = 0;
    disk.flags.remove(InodeFlags::HUGE_FILE);
    if !keeps_content(&disk, kind) {
        disk.i_block = [0; I_BLOCK_BYTES];
        if disk.flags.contains(InodeFlags::EXTENTS) {
            uext4_format::extent::ExtentNode::init_root(&mut disk.i_block[..], 0);
        }
    }
    let inode = fs.inodes.insert_new(&fs.space, handle, nr, &disk)?;
    fs.quota
        .charge(handle, (nr, &inode.read().disk), Usage::INODE);
    Ok(inode)
}

/// Whether `i_block` holds content instead of a map.
fn keeps_content(disk: &DiskInode, kind: FileType) -> bool {
    let short = disk.size < u64_of(I_BLOCK_BYTES) && !disk.flags.contains(InodeFlags::EXTENTS);
    match kind {
        FileType::Regular => disk.flags.contains(InodeFlags::INLINE_DATA),
        FileType::Directory => false,
        FileType::Symlink => short || disk.flags.contains(InodeFlags::INLINE_DATA),
        _ => true,
    }
}

/// Merges the record into an existing file: inline data too, a map not.
fn merge_file(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, raw: &[u8]) -> Result<()> {
    let was_inline = state.disk.flags.contains(InodeFlags::INLINE_DATA);
    let is_inline = RawInode(raw).flags().contains(InodeFlags::INLINE_DATA);
    match (was_inline, is_inline) {
        (false, true) => {
            let problem = CorruptKind::FcIntoInode;
            return Err(contradiction(state.nr(), problem));
        }
        // The data are in blocks, which have their own records.
        (true, false) => file::leave_inode(fs, state)?,
        _ => {}
    }
    merge(fs, handle, state, raw)?;
    if is_inline {
        state.disk.i_block = RawInode(raw).i_block();
    }
    Ok(())
}

/// Merges the record into an existing inode, without `i_block`.
fn merge(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, raw: &[u8]) -> Result<()> {
    let nr = state.nr();
    let mut bytes = vec![0; usize::from(fs.base.geometry.inode_size)];
    state
        .disk
        .write_to(&mut bytes, nr, &fs.base.geometry, &fs.base.checksums);
    let mut disk = parse(fs, nr, raw, &bytes)?;
    xattr::transfer(fs, handle, state, Owners::of(&disk))?;
    disk.i_block = state.disk.i_block;
    disk.blocks_raw = state.disk.blocks_raw;
    disk.dtime = state.disk.dtime;
    disk.flags = InodeFlags(disk.flags.0 & !STORAGE.0 | state.disk.flags.0 & STORAGE.0);
    state.disk = disk;
    Ok(())
}

/// Parses the record's bytes, laid over those of `base`.
fn parse(fs: &Fs, nr: InodeNr, raw: &[u8], base: &[u8]) -> Result<DiskInode> {
    let mut bytes = base.to_vec();
    let len = raw.len().min(bytes.len());
    bytes[..len].copy_from_slice(&raw[..len]);
    let unverified = Checksums {
        metadata: None,
        ..fs.base.checksums
    };
    Ok(DiskInode::parse(
        &bytes,
        nr,
        &fs.base.geometry,
        &unverified,
    )?)
}

/// A new directory starts empty, because its names have their own records. An existing one keeps
/// its format, size and links. One that never got a name is unreachable and is skipped.
fn apply_directory(fs: &Fs, nr: InodeNr, raw: &[u8], parent: Option<InodeNr>) -> Result<()> {
    let kind = FileType::Directory;
    let handle = fs.start(credits::CREATE + credits::DIR_GROW)?;
    free_other_life(fs, &handle, nr, raw)?;
    if fs.space.is_inode_allocated(&fs.base, nr)? {
        let inode = load(fs, nr)?;
        let mut state = handle.write(&inode);
        if state.disk.file_type() != Some(kind) {
            return Err(contradiction(nr, CorruptKind::FcOtherType));
        }
        let (size, links) = (state.disk.size, state.disk.links);
        // An inline directory has entries in the attribute area.
        merge(fs, &handle, &mut state, RawInode(raw).fields())?;
        (state.disk.size, state.disk.links) = (size, links);
        return Ok(());
    }
    let Some(parent) = parent else { return Ok(()) };
    fs.space.take_inode(&fs.base, &handle, nr, kind)?;
    let inode = make(fs, &handle, nr, RawInode(raw).fields(), kind)?;
    {
        let mut state = handle.write(&inode);
        state.disk.size = 0;
        state.disk.links = 2;
        state.disk.flags.remove(InodeFlags::INDEX);
    }
    dir::init(fs, &handle, &inode, parent)
}
