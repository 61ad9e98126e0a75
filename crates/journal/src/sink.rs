//! Where rendered bytes go, until the committing side merges them into block images.
//!
//! Layout: pieces of one block all go to the same arena (by hash of the block number), so the
//! order in an arena is the order of emission even when threads differ.
//! Locking: one arena lock ([`Rank::JournalRendered`]) for one push.

use std::sync::Arc;
use uext4_format::BlockNr;
use uext4_sync::{Mutex, Rank};

/// One file system block, immutable.
pub type Image = Arc<[u8]>;

/// A power of two: enough that parallel renderers rarely meet.
const ARENAS: usize = 64;

/// A rendered piece of a block.
pub(crate) enum Piece {
    /// Bytes `start..start + len` of the arena, at `offset` of the block.
    Patch { offset: u32, start: usize, len: u32 },
    /// The whole block.
    Whole(Image),
}

/// Pieces in order of emission, and the bytes of the patches.
#[derive(Default)]
pub(crate) struct Arena {
    pub(crate) pieces: Vec<(BlockNr, Piece)>,
    pub(crate) bytes: Vec<u8>,
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

    /// Takes everything, one arena per element.
    pub(crate) fn take(&self) -> Vec<Arena> {
        let take = |arena: &Mutex<Arena>| std::mem::take(&mut *arena.lock());
        self.arenas
            .iter()
            .map(take)
            .filter(|arena| !arena.pieces.is_empty())
            .collect()
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
        let mut arena = self.out.arena(block).lock();
        let start = arena.bytes.len();
        arena.bytes.extend_from_slice(bytes);
        let piece = Piece::Patch {
            offset: offset_bytes as u32,
            start,
            len: bytes.len() as u32,
        };
        arena.pieces.push((block, piece));
    }

    /// A whole block.
    ///
    /// # Panics
    /// When the image has not the size of a block.
    pub fn image(&mut self, block: BlockNr, image: Image) {
        assert_eq!(image.len(), self.block_size(), "image is not a block");
        self.out
            .arena(block)
            .lock()
            .pieces
            .push((block, Piece::Whole(image)));
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.out.block_size as usize
    }
}
