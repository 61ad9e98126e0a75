//! Lock-protected state of a metadata block: its bytes, and for a directory leaf the table of its
//! names.

use super::{COUNTS_BYTES, Seal};
use std::ops::Range;
use uext4_device::prefetch;
use uext4_format::dirent::{KnownLeaf, KnownLeafMut, LeafTable};
use uext4_format::{BlockNr, Corrupt};
use uext4_journal::{Image, Render, Sink};
use uext4_sync::{Arc, OnceLock, Rank};

/// State of a metadata block.
pub(crate) struct BlockState {
    nr: BlockNr,
    seal: Seal,
    changes: u32,
    /// Whether blocks have checksums.
    is_sealed: bool,
    bytes: Image,
    /// Name table of a directory leaf, built on first use.
    table: OnceLock<LeafTable>,
}

impl BlockState {
    /// The state of a block that was read or created.
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

    pub(super) fn seal(&self) -> Seal {
        self.seal
    }

    pub(crate) fn nr(&self) -> BlockNr {
        self.nr
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Prefetches bytes that will be changed.
    pub(crate) fn prefetch_for_change(&self, bytes: Range<usize>) {
        if let Some(bytes) = self.bytes.get(bytes) {
            prefetch(bytes.as_ptr(), bytes.len());
        }
    }

    /// The bytes, shared with the caller; a later change copies them.
    pub(crate) fn image(&self) -> Image {
        self.bytes.clone()
    }

    /// Number of mutable borrows of the bytes, modulo 2^32. A search result stays valid while it is
    /// unchanged.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// The bytes, to change; copied first if an image shares them (copy-on-write).
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.changes = self.changes.wrapping_add(1);
        self.table = OnceLock::new();
        Arc::make_mut(&mut self.bytes)
    }

    /// Replaces the contents. `table` has the names of a leaf, if they are known.
    pub(crate) fn replace(&mut self, bytes: Image, table: Option<LeafTable>) {
        self.changes = self.changes.wrapping_add(1);
        self.bytes = bytes;
        self.table = table.map_or_else(OnceLock::new, OnceLock::from);
    }

    /// Sets the name table of a leaf that was created with it.
    pub(crate) fn keep_table(&self, table: LeafTable) {
        self.table.get_or_init(|| table);
    }

    /// Takes the name table out of a leaf that becomes another block.
    pub(crate) fn take_table(&mut self) -> Option<LeafTable> {
        self.table.take()
    }

    /// The name table, if it was built.
    pub(crate) fn table(&self) -> Option<&LeafTable> {
        self.table.get()
    }

    /// Addresses of the table's rows (0 without a table) and of the bytes' `Arc` counts, which a
    /// change reads to detect sharing.
    pub(crate) fn addresses(&self) -> (usize, usize) {
        let table = self.table();
        let rows = table.map_or(0, |table| table.rows().as_ptr().addr());
        (rows, self.bytes.as_ptr().addr() - COUNTS_BYTES)
    }

    /// The names of a directory leaf. `make` builds their table once.
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

    /// As [`Self::leaf`], to change; the table is kept up to date.
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

/// A name table, or the damage of a record.
type Made = std::result::Result<LeafTable, Corrupt>;

impl Render for BlockState {
    const RANK: Rank = Rank::MetaBlock;

    fn render(&mut self, out: &mut Sink<'_>) {
        let table = self.table.get();
        debug_assert!(table.is_none_or(|table| table.is_of(&self.bytes)));
        // Entries keep their positions, so search results stay valid.
        self.write_checksum();
        out.image(self.nr, self.bytes.clone());
    }
}
