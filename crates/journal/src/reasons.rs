//! Reasons for a full commit, where the log may hold fast commits.

/// Why a transaction cannot be made durable by a fast commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FullReason {
    /// An operation that has no fast-commit records.
    Other,
    /// The log has no full commit yet since it was clean.
    FirstCommit,
    /// The area for fast commits is full.
    AreaFull,
    /// More inodes, ranges or names changed than one fast commit records.
    TooMany,
    /// An extended attribute or an access control list.
    Attribute,
    /// An attribute, or the content, of a directory itself.
    Directory,
    /// The operation changes the orphan list.
    Orphan,
    /// Data that moved within a file (collapse and insert range).
    Shift,
    /// A file without extents, with its data in the inode, or with more extents than it holds.
    Layout,
}

impl FullReason {
    /// All reasons, in the order of their bits.
    pub const ALL: [FullReason; 9] = [
        FullReason::Other,
        FullReason::FirstCommit,
        FullReason::AreaFull,
        FullReason::TooMany,
        FullReason::Attribute,
        FullReason::Directory,
        FullReason::Orphan,
        FullReason::Shift,
        FullReason::Layout,
    ];

    /// Name for statistics, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            FullReason::Other => "other",
            FullReason::FirstCommit => "first_commit",
            FullReason::AreaFull => "area_full",
            FullReason::TooMany => "too_many",
            FullReason::Attribute => "attribute",
            FullReason::Directory => "directory",
            FullReason::Orphan => "orphan",
            FullReason::Shift => "shift",
            FullReason::Layout => "layout",
        }
    }

    fn bit(self) -> u32 {
        let at = Self::ALL.iter().position(|reason| *reason == self);
        1 << at.unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reasons(u32);

impl Reasons {
    /// What holds for a handle whose operation promises no records: [`FullReason::Other`].
    pub(crate) const UNKNOWN: Reasons = Reasons(1);

    pub(crate) fn one(reason: FullReason) -> Reasons {
        Reasons(reason.bit())
    }

    pub(crate) fn of_bits(bits: u32) -> Reasons {
        Reasons(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn with(self, reason: FullReason) -> Reasons {
        Reasons(self.0 | reason.bit())
    }

    pub(crate) fn without(self, reason: FullReason) -> Reasons {
        Reasons(self.0 & !reason.bit())
    }

    pub(crate) fn contains(self, other: Reasons) -> bool {
        self.0 & other.0 == other.0
    }

    /// The places of its reasons in [`FullReason::ALL`].
    pub(crate) fn places(self) -> impl Iterator<Item = usize> {
        (0..FullReason::ALL.len()).filter(move |at| self.0 & 1 << at != 0)
    }
}
