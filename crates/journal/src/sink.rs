//! Where rendered bytes go, until the committing side takes the blocks that they make.
//!
//! Layout: whatever is rendered of one block goes to the same arena (by hash of the block number),
//! in the order of emission even when threads differ, and there straight to its place in the block.
//! Locking: one arena lock ([`Rank::JournalRendered`]) for one piece.

use crate::draft::Draft;
use std::sync::Arc;
use uext4_format::BlockNr;
use uext4_sync::{Mutex, Rank, StretchMap};

/// One file system block, immutable.
pub type Image = Arc<[u8]>;

/// A power of two: enough that parallel renderers rarely meet.
const ARENAS: usize = 64;

/// Blocks by first emission.
#[derive(Default)]
struct Arena {
    drafts: Vec<Draft>,
    places: StretchMap<BlockNr, usize, 6>,
}

impl Arena {
    /// The place of `block`. Objects that share a block often come one after the other.
    fn find(&self, block: BlockNr) -> Option<usize> {
        match self.drafts.last() {
            Some(last) if last.block == block => Some(self.drafts.len() - 1),
            _ => self.places.get(&block).copied(),
        }
    }

    fn push(&mut self, draft: Draft) -> usize {
        self.places.insert(draft.block, self.drafts.len());
        self.drafts.push(draft);
        self.drafts.len() - 1
    }
}

/// All that was rendered for the committing transaction.
pub(crate) struct Rendered {
    arenas: Box<[Mutex<Arena>]>,
    block_size: u32,
}

impl Rendered {
    pub(crate) fn new(block_size: u32) -> Self {
        let arena = |_| Mutex::new(Rank::JournalRendered, Arena::default());
        Self {
            arenas: (0..ARENAS).map(arena).collect(),
            block_size,
        }
    }

    /// Takes everything, ascending by block.
    pub(crate) fn take(&self) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for arena in &self.arenas {
            let arena = &mut *arena.lock();
            drafts.append(&mut arena.drafts);
            arena.places.clear();
        }
        drafts.sort_unstable_by_key(|draft| draft.block);
        drafts
    }

    fn arena(&self, block: BlockNr) -> &Mutex<Arena> {
        let hash = block.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.arenas[hash as usize % ARENAS]
    }
}

/// Takes the bytes of one object's rendering.
pub struct Sink<'a> {
    out: &'a Rendered,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(out: &'a Rendered) -> Self {
        Self { out }
    }

    /// Bytes to place at `offset_bytes` of `block`, over whatever the block holds. Patches of one
    /// block apply in the order of the calls, whichever threads make them.
    ///
    /// # Panics
    /// When they reach past the end of the block.
    pub fn patch(&mut self, block: BlockNr, offset_bytes: usize, bytes: &[u8]) {
        let end = offset_bytes.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.block_size()),
            "patch leaves its block"
        );
        let arena = &mut *self.out.arena(block).lock();
        let found = arena.find(block);
        let at = found.unwrap_or_else(|| arena.push(Draft::blank(block, self.block_size())));
        arena.drafts[at].patch(offset_bytes, bytes);
    }

    /// A whole block.
    ///
    /// # Panics
    /// When the image has not the size of a block.
    pub fn image(&mut self, block: BlockNr, image: Image) {
        assert_eq!(image.len(), self.block_size(), "image is not a block");
        let arena = &mut *self.out.arena(block).lock();
        let draft = Draft::whole(block, image);
        match arena.find(block) {
            Some(at) => arena.drafts[at] = draft,
            None => _ = arena.push(draft),
        }
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.out.block_size as usize
    }
}
