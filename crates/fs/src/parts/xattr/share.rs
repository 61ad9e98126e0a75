//! Sharing of attribute blocks with equal content.
//!
//! The index of the blocks ([`crate::cache::mbcache`]) gives hints: the bytes are compared under
//! the block's lock before the block is logged.
//!
//! Invariant: a block is logged only while it has a reference. A block without one may be free: an
//! image of it would cancel its revoke and overwrite later data in its place.

use crate::cache::meta::{BlockState, MetaBlock};
use crate::state::engine::Fs;
use crate::types::settings::Switch;
use uext4_format::xattr::{BLOCK_MAGIC, REFCOUNT_MAX, XattrBlock};
use uext4_journal::{Handle, Object};
use uext4_sync::Arc;

/// Takes a reference on a cached block with the content of `image`, if one is known. Uncached
/// blocks are ignored, because a hint may be outdated.
pub(super) fn join(fs: &Fs, handle: &Handle<'_>, image: &[u8]) -> Option<Arc<MetaBlock>> {
    if !fs.base.settings.has(Switch::ShareXattrBlocks) {
        return None;
    }
    let hash = XattrBlock::new(image).hash();
    let nr = fs.shared_xattrs.candidate(hash)?;
    let block = fs.blocks.cached(nr, fs.blocks.xattr_seal())?;
    if !may_join(&block.live().read(), image) {
        return None;
    }
    {
        let state = handle.write_checked(&block, |state| {
            may_join(state, image).then_some(()).ok_or(())
        });
        let mut state = state.ok()?;
        let refcount = XattrBlock::new(state.bytes()).refcount();
        XattrBlock::new(state.bytes_mut()).set_refcount(refcount + 1);
    }
    Some(block)
}

fn may_join(state: &BlockState, image: &[u8]) -> bool {
    let block = XattrBlock::new(state.bytes());
    let open = block.magic() == BLOCK_MAGIC && (1..REFCOUNT_MAX).contains(&block.refcount());
    open && block.same_content(image)
}
