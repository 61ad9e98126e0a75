//! What a metadata block holds, under its lock: its bytes, and of a leaf of a directory the table
//! of its names.

use super::{COUNTS_BYTES, Seal};
use std::ops::Range;
use std::sync::Arc;
use uext4_device::prefetch;
use uext4_format::dirent::{KnownLeaf, KnownLeafMut, LeafTable};
use uext4_format::{BlockNr, Corrupt};
use uext4_journal::{Image, Render, Sink};
use uext4_sync::{OnceLock, Rank};

/// Bytes of a metadata block.
pub(crate) struct BlockState {
    nr: BlockNr,
    seal: Seal,
    changes: u32,
    /// Blocks have checksums.
    is_sealed: bool,
    bytes: Image,
    /// Of a leaf of a directory, from its first use on.
    table: OnceLock<LeafTable>,
}

impl BlockState {
    /// A block that was read or made.
    pub(super) fn new(nr: BlockNr, seal: Seal, is_sealed: bool, bytes: Image) -> Self {
        Self {
            nr,
            seal,
            changes: 0,
            is_sealed,
            bytes,
            table: OnceLock::new(),
        }
    }

    /// How its checksum is made.
    pub(super) fn seal(&self) -> Seal {
        self.seal
    }

    /// The block's number.
    pub(crate) fn nr(&self) -> BlockNr {
        self.nr
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Asks for bytes that will be changed.
    pub(crate) fn expect_change(&self, bytes: Range<usize>) {
        if let Some(bytes) = self.bytes.get(bytes) {
            prefetch(bytes.as_ptr(), bytes.len());
        }
    }

    /// The bytes, shared.
    pub(crate) fn image(&self) -> Image {
        self.bytes.clone()
    }

    /// How often the bytes were handed out to change, modulo 2^32: what was found in them a moment
    /// ago stands while this stays.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// The bytes, to change; copied first when an image still shares them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.changes = self.changes.wrapping_add(1);
        self.table = OnceLock::new();
        Arc::make_mut(&mut self.bytes)
    }

    /// The block becomes another leaf of a directory, of which `table` is the table if it is known.
    pub(crate) fn become_leaf(&mut self, bytes: Image, table: Option<LeafTable>) {
        self.changes = self.changes.wrapping_add(1);
        self.bytes = bytes;
        self.table = table.map_or_else(OnceLock::new, OnceLock::from);
    }

    /// The table of a leaf that was made with it.
    pub(crate) fn keep_table(&self, table: LeafTable) {
        self.table.get_or_init(|| table);
    }

    /// Takes the table of a leaf that becomes another block.
    pub(crate) fn take_table(&mut self) -> Option<LeafTable> {
        self.table.take()
    }

    /// What is known of the names in the block, if they were asked for.
    pub(crate) fn table(&self) -> Option<&LeafTable> {
        self.table.get()
    }

    /// The addresses of the rows of the table, zero without one, and of the counts of the bytes,
    /// which a change asks whether an image shares them.
    pub(crate) fn addresses(&self) -> (usize, usize) {
        let table = self.table();
        let rows = table.map_or(0, |table| table.rows().as_ptr().addr());
        (rows, self.bytes.as_ptr().addr() - COUNTS_BYTES)
    }

    /// The names in the block, a leaf of a directory. `make` is asked for their table once.
    pub(crate) fn leaf(
        &self,
        make: impl FnOnce(&[u8]) -> Made,
    ) -> std::result::Result<KnownLeaf<'_>, Corrupt> {
        if let Some(table) = self.table.get() {
            return Ok(KnownLeaf::new(&self.bytes, table));
        }
        let made = make(&self.bytes)?;
        Ok(KnownLeaf::new(&self.bytes, self.table.get_or_init(|| made)))
    }

    /// As [`Self::leaf`], to change: the table follows.
    pub(crate) fn leaf_mut(
        &mut self,
        make: impl FnOnce(&[u8]) -> Made,
    ) -> std::result::Result<KnownLeafMut<'_>, Corrupt> {
        self.leaf(make)?;
        self.changes = self.changes.wrapping_add(1);
        let table = self.table.get_mut().expect("it has just been made");
        Ok(KnownLeafMut::new(Arc::make_mut(&mut self.bytes), table))
    }

    fn write_checksum(&mut self) {
        if self.is_sealed {
            self.seal.write(self.nr, Arc::make_mut(&mut self.bytes));
        }
    }
}

/// A table, unless a record is damaged.
type Made = std::result::Result<LeafTable, Corrupt>;

impl Render for BlockState {
    const RANK: Rank = Rank::MetaBlock;

    fn render(&mut self, out: &mut Sink<'_>) {
        let table = self.table.get();
        debug_assert!(table.is_none_or(|table| table.is_of(&self.bytes)));
        // Entries stay where they are: what was found in the block stands.
        self.write_checksum();
        out.image(self.nr, self.bytes.clone());
    }
}
