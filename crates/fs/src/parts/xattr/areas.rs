//! The two attribute areas of an inode: reads and searches.

use super::value;
use crate::cache::meta::MetaBlock;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::Result;
use uext4_format::xattr::{XattrName, XattrSet, XattrValue, decode_block, decode_ibody};
use uext4_format::{BlockNr, DamageLocation};
use uext4_sync::Arc;

/// The attribute block of an inode, and its attributes when it was read.
pub(super) struct LoadedBlock {
    pub(super) meta: Arc<MetaBlock>,
    pub(super) set: XattrSet,
}

/// Attributes in the inode itself, after its extra fields.
pub(super) fn ibody(state: &InodeState) -> Result<XattrSet> {
    Ok(decode_ibody(
        state.xattr_area(),
        DamageLocation::Inode(state.nr()),
    )?)
}

/// Attributes in the inode's block, if it has one. While the state is locked, the inode's reference
/// keeps the block; its attributes change only through this inode.
pub(super) fn read_block(fs: &Fs, state: &InodeState) -> Result<Option<LoadedBlock>> {
    let nr = state.disk.file_acl;
    if nr == BlockNr(0) {
        return Ok(None);
    }
    let place = DamageLocation::Block(nr);
    let meta = fs.read_block(nr, fs.blocks.xattr_seal(), |bytes| {
        decode_block(bytes, place).map(drop)
    })?;
    let set = decode_block(&meta.image(), place)?;
    Ok(Some(LoadedBlock { meta, set }))
}

/// The entry of `name` in either area.
pub(super) fn find(fs: &Fs, state: &InodeState, name: &XattrName) -> Result<Option<XattrValue>> {
    if !state.has_xattrs() {
        return Ok(None);
    }
    if let Some(value) = ibody(state)?.get(name) {
        return Ok(Some(value.clone()));
    }
    let block = read_block(fs, state)?;
    Ok(block.and_then(|block| block.set.get(name).cloned()))
}

/// The value of `name`. The caller has no inode's state locked.
pub(super) fn value(fs: &Fs, inode: &Inode, name: &XattrName) -> Result<Option<Vec<u8>>> {
    let held = {
        let state = inode.read();
        match find(fs, &state, name)? {
            None => return Ok(None),
            Some(XattrValue::Here(value)) => return Ok(Some(value)),
            // Held before the owner's state is unlocked, so that the value inode stays in use.
            Some(XattrValue::Inode { inode, size, .. }) => value::open(fs, &state, inode, size)?,
        }
    };
    held.read(fs).map(Some)
}
