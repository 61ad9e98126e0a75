//! Space accounting of a file: `i_blocks`, and the quota of its owners.

use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::quota::Usage;
use crate::types::error::{Error, Result};
use uext4_journal::Handle;

/// Adds blocks to the inode's block count and its owners' quota usage.
pub(super) fn charge(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    blocks: u64,
) -> Result<()> {
    let more = blocks << (fs.base.geometry.block_bits - 9);
    let sectors = state.disk.sectors(&fs.base.geometry) + more;
    state
        .disk
        .set_sectors(sectors, &fs.base.geometry)
        .map_err(|_| Error::TooLarge)?;
    let charged = (state.nr(), &state.disk);
    fs.quota.charge(handle, charged, Usage::sectors(more));
    Ok(())
}

/// Subtracts blocks from the inode's block count and its owners' quota usage.
pub(super) fn discharge(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, blocks: u64) {
    let sectors = state.disk.sectors(&fs.base.geometry);
    let left = sectors.saturating_sub(blocks << (fs.base.geometry.block_bits - 9));
    // Cannot fail: the number decreases.
    let _ = state.disk.set_sectors(left, &fs.base.geometry);
    let less = Usage::sectors(sectors - left).less();
    fs.quota.charge(handle, (state.nr(), &state.disk), less);
}
