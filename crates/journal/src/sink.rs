//! Sharded collector of rendered bytes; the committing thread takes the assembled blocks.
//!
//! Layout: all bytes of one block go to the same arena (by hash of the block number) and straight
//! to their place in the block, in the order of emission even from several threads.
//! Locking: one arena lock ([`Rank::JournalRendered`]) per patch or image.

use crate::draft::Draft;
use uext4_format::BlockNr;
use uext4_num::{high_u32, usize_of};
use uext4_sync::{Arc, Mutex, Rank, StripeMap};

/// One file system block, immutable.
pub type Image = Arc<[u8]>;

/// A power of two: enough that parallel renderers rarely contend.
const ARENAS: usize = 64;

/// Drafts in the order of their first emission.
#[derive(Default)]
struct Arena {
    drafts: Vec<Draft>,
    places: StripeMap<BlockNr, usize, 6>,
}

impl Arena {
    /// Index of the draft of `block`. Checks the last one first: neighbours often share a block.
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

/// The rendered blocks of the committing transaction.
pub(crate) struct Rendered {
    arenas: Box<[Mutex<Arena>]>,
    block_size: u32,
}

impl Rendered {
    pub(crate) fn new(block_size: u32) -> Self {
        Self {
            arenas: (0..ARENAS)
                .map(|_| Mutex::new(Rank::JournalRendered, Arena::default()))
                .collect(),
            block_size,
        }
    }

    /// Takes all drafts, ascending by block.
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
        let hash = high_u32(block.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        &self.arenas[usize_of(hash) % ARENAS]
    }
}

/// Receives the bytes of one object's rendering.
pub struct Sink<'a> {
    out: &'a Rendered,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(out: &'a Rendered) -> Self {
        Self { out }
    }

    /// Places `bytes` at `offset_bytes` of `block`, over earlier bytes. Patches of one block apply
    /// in the order of the calls, from any thread.
    ///
    /// # Panics
    /// When the bytes reach past the end of the block.
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

    /// Stores a whole block.
    ///
    /// # Panics
    /// When the image does not have the size of a block.
    pub fn image(&mut self, block: BlockNr, image: Image) {
        assert_eq!(image.len(), self.block_size(), "image is not a block");
        let arena = &mut *self.out.arena(block).lock();
        let draft = Draft::whole(block, image);
        match arena.find(block) {
            Some(at) => arena.drafts[at] = draft,
            None => _ = arena.push(draft),
        }
    }

    /// Bytes of a block of the file system.
    pub fn block_size(&self) -> usize {
        usize_of(self.out.block_size)
    }
}
