//! Index of shareable attribute blocks by content hash.
//!
//! Layout: a table of words, each a block number and a part of its hash; a new block replaces the
//! word of its slot. The words are hints: the bytes are compared under the block's lock before the
//! block is logged.
//!
//! Invariant: a block is logged only while it has a reference. A block without one may be free: an
//! image of it would cancel its revoke and overwrite later data in its place.

use crate::Fs;
use crate::meta::{BlockState, MetaBlock};
use crate::settings::Switch;
use std::sync::Arc;
use uext4_format::BlockNr;
use uext4_format::xattr::{BLOCK_MAGIC, REFCOUNT_MAX, XattrBlock};
use uext4_journal::{Handle, Object};
use uext4_sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 1024;
const BLOCK_BITS: u32 = 48;

/// Last known blocks by hash.
pub(crate) struct SharedBlocks {
    slots: Box<[AtomicU64]>,
}

impl Default for SharedBlocks {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl SharedBlocks {
    fn slot(&self, hash: u32) -> &AtomicU64 {
        let mixed = hash.wrapping_mul(0x9E37_79B1);
        &self.slots[mixed as usize >> 22 & (SLOTS - 1)]
    }

    fn word(hash: u32, nr: BlockNr) -> u64 {
        u64::from(hash & 0xFFFF) << BLOCK_BITS | nr.0
    }

    /// Records that `nr` has content with `hash`.
    pub(super) fn note(&self, hash: u32, nr: BlockNr) {
        if hash != 0 {
            self.slot(hash)
                .store(Self::word(hash, nr), Ordering::Relaxed);
        }
    }

    /// A block that may have content with `hash`.
    fn candidate(&self, hash: u32) -> Option<BlockNr> {
        let word = self.slot(hash).load(Ordering::Relaxed);
        let nr = BlockNr(word & ((1 << BLOCK_BITS) - 1));
        (hash != 0 && nr.0 != 0 && Self::word(hash, nr) == word).then_some(nr)
    }
}

/// Takes a reference on a cached block with the content of `image`, if one is known. Uncached
/// blocks are ignored, because a hint may be outdated.
pub(super) fn join(fs: &Fs, handle: &Handle<'_>, image: &[u8]) -> Option<Arc<MetaBlock>> {
    if !fs.settings.has(Switch::ShareXattrBlocks) {
        return None;
    }
    let hash = XattrBlock::new(image).hash();
    let nr = fs.shared_xattrs.candidate(hash)?;
    let block = fs.blocks.cached(nr, fs.blocks.xattr_seal())?;
    if !may_join(&block.live().read(), image) {
        return None;
    }
    {
        let check = |state: &BlockState| may_join(state, image).then_some(()).ok_or(());
        let mut state = handle.write_checked(&block, check).ok()?;
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
