//! An empty map for a new file or directory.

use super::status;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use uext4_format::extent::ExtentNode;
use uext4_format::{Feature, InodeFlags};

/// Makes the inode an empty file or directory mapped by extents, or by block tables on a file
/// system without extents.
pub(crate) fn init(fs: &Fs, state: &mut InodeState) {
    status::forget_all(state);
    state.disk.i_block.fill(0);
    if fs.base.features.has(Feature::EXTENTS) {
        state.disk.flags.insert(InodeFlags::EXTENTS);
        ExtentNode::init_root(&mut state.disk.i_block[..], 0);
    }
}
