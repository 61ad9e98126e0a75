//! The rows of a table of a leaf, in one piece of memory: a page less to reach.
//!
//! Layout: room for the first bytes of all prints, then four bytes for each record: where it stands
//! (2), what its entry uses (1), the second byte of its print.
//! Not here: what rows mean (`table`).

/// Records, and what they use, are multiples of this.
pub(super) const UNIT_BYTES: usize = 4;
const RECORD_BYTES: usize = 4;

/// Where a record stands and how much of it an entry takes, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) at: u16,
    pub(super) used: u8,
    pub(super) print: u8,
}

impl Record {
    /// Where it stands, in bytes.
    pub(super) fn offset(self) -> usize {
        usize::from(self.at) * UNIT_BYTES
    }

    /// What its entry takes, in bytes.
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

/// What is known of the leaf as a whole. It stands with the rows because they leave so much of a
/// word free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Units that records may fill.
    pub(super) area: u16,
    /// Units that entries take.
    pub(super) used: u16,
    /// The record whose slack is tried first.
    pub(super) roomy: u16,
}

impl Rows {
    /// None, with room for so many.
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

    /// First bytes of all prints.
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

    /// Row `at`, which is there, becomes another.
    pub(super) fn set(&mut self, at: usize, print: u8, record: Record) {
        let slot = self.slot(at);
        self.bytes[at] = print;
        self.bytes[slot..slot + RECORD_BYTES].copy_from_slice(&record.to_bytes());
    }

    /// Adds a row before row `at`, or behind the last one.
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

    /// Adds a row behind the last one; there is room.
    pub(super) fn push(&mut self, print: u8, record: Record) {
        self.len += 1;
        self.set(self.len() - 1, print, record);
    }

    /// Takes row `at` out.
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
