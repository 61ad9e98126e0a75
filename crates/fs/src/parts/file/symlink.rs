//! Targets of symbolic links: in `i_block` if short ("fast"), else in a block.

use super::allocate::NewBlocks;
use super::write_policy::check_not_encrypted;
use super::{inline, io};
use crate::parts::map::{self, ExtentState};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::space::Reserve;
use crate::types::error::Result;
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, I_BLOCK_BYTES, InodeFlags, LogicalBlock,
};
use uext4_journal::Handle;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;

/// Stores the target of a new symbolic link; a long one goes to a block.
pub(crate) fn write_link(
    fs: &Fs,
    handle: &Handle<'_>,
    inode: &Arc<Inode>,
    target: &[u8],
    reserve: Reserve,
) -> Result<()> {
    if target.len() < I_BLOCK_BYTES {
        let mut state = handle.write(inode);
        let disk = &mut state.disk;
        disk.flags.remove(InodeFlags::EXTENTS);
        disk.i_block.fill(0);
        disk.i_block[..target.len()].copy_from_slice(target);
        disk.size = u64_of(target.len());
        return Ok(());
    }
    let blocks = NewBlocks::reserve_first(fs, inode, reserve)?;
    io::write_padded(fs, blocks.run().start, 0, target)?;
    map::init(fs, &mut handle.write(inode));
    blocks.map(handle, inode, ExtentState::Written, |state| {
        state.disk.size = u64_of(target.len());
    })
}

/// The target of a symbolic link.
pub(crate) fn read_link(fs: &Fs, inode: &Inode) -> Result<Vec<u8>> {
    let state = inode.read();
    check_not_encrypted(&state)?;
    let size = clamp_usize(state.disk.size);
    let problem =
        |problem| Corrupt::new(DamageLocation::Inode(state.nr()), "symbolic link", problem);
    if size == 0 || size > fs.block_size() {
        return Err(problem(CorruptKind::BadSize).into());
    }
    if inline::is_inline(&state) {
        return inline::content(&state);
    }
    if is_fast_link(fs, &state) {
        let target = state
            .disk
            .i_block
            .get(..size)
            .filter(|_| size < I_BLOCK_BYTES);
        return Ok(target.ok_or(problem(CorruptKind::BadSize))?.to_vec());
    }
    let block = map::block_of(fs, &state, LogicalBlock(0))?.ok_or(problem(CorruptKind::NoBlock))?;
    drop(state);
    read_block(fs, block, size)
}

fn read_block(fs: &Fs, block: BlockNr, size: usize) -> Result<Vec<u8>> {
    let mut target = vec![0; size];
    fs.base
        .device
        .read_at(io::byte_of(fs, block), &mut target)?;
    // The kernel stores a terminating zero and reads the target up to it.
    if let Some(end) = target.iter().position(|byte| *byte == 0) {
        target.truncate(end);
    }
    Ok(target)
}

/// Whether the target is in `i_block`. With value inodes the block count does not tell, because it
/// includes blocks of attributes.
pub(crate) fn is_fast_link(fs: &Fs, state: &InodeState) -> bool {
    let disk = &state.disk;
    if fs.base.features.has(Feature::EA_INODE) {
        return disk.size != 0 && disk.size < u64_of(I_BLOCK_BYTES);
    }
    let attributes = if disk.file_acl.0 == 0 {
        0
    } else {
        fs.base.geometry.cluster_size() >> 9
    };
    disk.sectors(&fs.base.geometry).saturating_sub(attributes) == 0
}
