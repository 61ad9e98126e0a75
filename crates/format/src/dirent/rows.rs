//! The rows of a leaf table in one allocation, which saves a page access.
//!
//! Layout: the first bytes of all fingerprints (`print`), then four bytes for each record: its
//! offset in units (2), the units that its entry uses (1), the second byte of its fingerprint.
//! Not here: the meaning of rows (`table`).

/// Offsets of records and sizes of entries are multiples of this.
pub(super) const UNIT_BYTES: usize = 4;
const RECORD_BYTES: usize = 4;

/// Offset of a record and size of its entry, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) at: u16,
    pub(super) used: u8,
    pub(super) print: u8,
}

impl Record {
    /// Its offset, in bytes.
    pub(super) fn offset(self) -> usize {
        usize::from(self.at) * UNIT_BYTES
    }

    /// The size of its entry, in bytes.
    pub(super) fn used_bytes(self) -> usize {
        usize::from(self.used) * UNIT_BYTES
    }

    fn from_bytes([low, high, used, print]: [u8; RECORD_BYTES]) -> Self {
        let at = u16::from_le_bytes([low, high]);
        Self { at, used, print }
    }

    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let [low, high] = self.at.to_le_bytes();
        [low, high, self.used, self.print]
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    bytes: Box<[u8]>,
    len: u16,
    pub(super) whole: Whole,
}

/// Totals of the leaf. Stored with the rows because they fill the rest of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Units available for records.
    pub(super) area: u16,
    /// Units used by entries.
    pub(super) used: u16,
    /// The record whose slack is tried first.
    pub(super) roomy: u16,
}

impl Rows {
    /// No rows, with capacity for this many.
    pub(super) fn with_room(rows: usize, whole: Whole) -> Self {
        Self {
            bytes: vec![0; rows * (1 + RECORD_BYTES)].into(),
            len: 0,
            whole,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn all(&self) -> &[u8] {
        &self.bytes
    }

    fn room(&self) -> usize {
        self.bytes.len() / (1 + RECORD_BYTES)
    }

    /// First bytes of all fingerprints.
    pub(super) fn prints(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    fn slot(&self, at: usize) -> usize {
        self.room() + at * RECORD_BYTES
    }

    /// Record `at`.
    pub(super) fn get(&self, at: usize) -> Option<Record> {
        let raw = self.bytes[self.slot(at).min(self.bytes.len())..].first_chunk()?;
        (at < self.len()).then(|| Record::from_bytes(*raw))
    }

    /// Replaces row `at`, which exists.
    pub(super) fn set(&mut self, at: usize, print: u8, record: Record) {
        let slot = self.slot(at);
        self.bytes[at] = print;
        self.bytes[slot..slot + RECORD_BYTES].copy_from_slice(&record.to_bytes());
    }

    /// Inserts a row before row `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, print: u8, record: Record) {
        if self.len() == self.room() {
            self.grow();
        }
        let (from, to) = (self.slot(at), self.slot(self.len()));
        self.bytes.copy_within(at..self.len(), at + 1);
        self.bytes.copy_within(from..to, from + RECORD_BYTES);
        self.len += 1;
        self.set(at, print, record);
    }

    /// Appends a row; the capacity suffices.
    pub(super) fn push(&mut self, print: u8, record: Record) {
        self.len += 1;
        self.set(self.len() - 1, print, record);
    }

    /// Removes row `at`.
    pub(super) fn remove(&mut self, at: usize) {
        let (from, to) = (self.slot(at + 1), self.slot(self.len()));
        self.bytes.copy_within(at + 1..self.len(), at);
        self.bytes.copy_within(from..to, from - RECORD_BYTES);
        self.len -= 1;
    }

    fn grow(&mut self) {
        let mut more = Self::with_room(self.len() + self.len() / 2 + 8, self.whole);
        let (from, to) = (self.slot(0), more.slot(0));
        more.bytes[..self.len()].copy_from_slice(self.prints());
        let records = &self.bytes[from..from + self.len() * RECORD_BYTES];
        more.bytes[to..to + records.len()].copy_from_slice(records);
        *self = Self {
            len: self.len,
            ..more
        };
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        let rows = |rows: &Self| (0..rows.len()).map(|at| rows.get(at)).collect::<Vec<_>>();
        self.prints() == other.prints() && rows(self) == rows(other)
    }
}
