//! Adds and removes the orphan file.
//!
//! Crash safety: the new file is an orphan until the transaction that enables the feature. The
//! transaction that disables it makes the old file an orphan on the legacy list. Recovery frees
//! either.

use crate::parts::file::{self, Position, WritePolicy};
use crate::parts::map;
use crate::state::engine::Fs;
use crate::state::inode::{InodeRef, NewInode};
use crate::types::attr::Caller;
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::ops::RangeInclusive;
use uext4_format::orphan_file::seal_orphan_block;
use uext4_format::{Feature, FileType, InodeNr};
use uext4_mkfs::default_orphan_file_blocks;
use uext4_num::u64_of;
use uext4_offline::Presence;

/// Fewest and most blocks of the file.
const BLOCKS: RangeInclusive<u32> = 1..=512;

/// Adds the file, of so many blocks, or removes it.
pub(super) fn set(fs: &Fs, wanted: Presence, blocks: Option<u32>) -> Result<()> {
    let features = fs.base.superblock.read().disk.features();
    let there = features.has(Feature::ORPHAN_FILE);
    if features.has(Feature::QUOTA) && there != (wanted == Presence::Present) {
        let problem = "orphan_file with the feature quota; its blocks change their owner";
        return Err(Error::NotSupported(problem));
    }
    match wanted {
        Presence::Present if !there && !features.has(Feature::HAS_JOURNAL) => Err(
            Error::NotSupported("the feature orphan_file needs the feature has_journal"),
        ),
        Presence::Present if !there => add(fs, blocks),
        Presence::Present if blocks.is_some() => Err(Error::NotSupported(
            "it has an orphan file; another size needs -O ^orphan_file first",
        )),
        Presence::Absent if there => remove(fs),
        _ => Ok(()),
    }
}

fn add(fs: &Fs, blocks: Option<u32>) -> Result<()> {
    let blocks =
        blocks.unwrap_or_else(|| default_orphan_file_blocks(fs.base.geometry.blocks_count));
    if !BLOCKS.contains(&blocks) {
        return Err(Error::Invalid("an orphan file has 1 to 512 blocks"));
    }
    let inode = make(fs)?;
    fill(fs, &inode, blocks)?;
    seal(fs, &inode, blocks)?;
    let handle = fs.start(credits::CREATE)?;
    fs.orphans.remove(&fs.base, &handle, inode.arc())?;
    handle.write(inode.arc()).disk.links = 1;
    inode.set_links(1);
    fs.base.superblock.update(&handle, |disk| {
        let mut features = disk.features();
        features.insert(Feature::ORPHAN_FILE);
        disk.set_features(features);
        disk.orphan_file_inum = inode.nr().0;
    });
    Ok(())
}

/// Creates a file without a name.
pub(super) fn make(fs: &Fs) -> Result<InodeRef> {
    let root = fs.inode(InodeNr::ROOT)?;
    let new = NewInode::new(FileType::Regular, 0o600);
    let draft = fs.draft_inode(&root, &new, &Caller::root())?;
    let handle = fs.start(credits::CREATE)?;
    let inode = fs.new_inode(&handle, &root, &draft)?;
    handle.write(inode.arc()).disk.links = 0;
    inode.set_unnamed();
    fs.orphans.add(&fs.base, &handle, inode.arc())?;
    Ok(inode)
}

/// Allocates the blocks of the file.
fn fill(fs: &Fs, inode: &InodeRef, blocks: u32) -> Result<()> {
    let zeroes = vec![0; fs.block_size()];
    for block in 0..u64::from(blocks) {
        let (at, mut done) = (block << fs.base.geometry.block_bits, 0);
        while done < zeroes.len() {
            let position = Position::Offset(at + u64_of(done));
            let written = file::write(
                fs,
                inode.arc(),
                position,
                &zeroes[done..],
                WritePolicy::INTERNAL,
            )?;
            done += written.len_bytes;
        }
    }
    file::write_out(fs, inode.arc())
}

/// Writes empty orphan blocks; their checksums depend on their locations.
fn seal(fs: &Fs, inode: &InodeRef, blocks: u32) -> Result<()> {
    let state = inode.read();
    let seed = fs.base.checksums.metadata.map(|_| state.seed());
    for nr in map::blocks_of(fs, &state, blocks, || Error::NoSpace)? {
        let mut bytes = vec![0; fs.block_size()];
        seal_orphan_block(&mut bytes, nr, seed);
        fs.base
            .device
            .write_at(nr.0 << fs.base.geometry.block_bits, &bytes)?;
    }
    drop(state);
    Ok(fs.base.device.flush()?)
}

fn remove(fs: &Fs) -> Result<()> {
    if !fs.orphans.is_empty() {
        return Err(Error::Busy);
    }
    let nr = InodeNr(fs.base.superblock.read().disk.orphan_file_inum);
    let inode = InodeRef::new(fs.load_inode(nr)?);
    let handle = fs.start(credits::REMOVE)?;
    handle.write(inode.arc()).disk.links = 0;
    fs.orphans.add_to_list(&fs.base, &handle, inode.arc())?;
    fs.base.superblock.update(&handle, |disk| {
        let mut features = disk.features();
        features.remove(Feature::ORPHAN_FILE);
        features.remove(Feature::ORPHAN_PRESENT);
        disk.set_features(features);
        disk.orphan_file_inum = 0;
    });
    drop(handle);
    inode.set_links(0);
    drop(inode);
    fs.reap()
}
