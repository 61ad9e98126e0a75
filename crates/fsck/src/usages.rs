//! What the owners of all inodes use, for each kind of owner that is counted.
//!
//! As for Linux, an inode counts with its blocks and attributes; a value in an inode of its own
//! counts for each inode that has the attribute, and not by itself. The file system's own files do
//! not count.

use std::collections::BTreeMap;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{Inode, Superblock};

/// Memory for each owner, in bytes.
pub(crate) const BYTES_PER_OWNER: u64 = 56;

/// What an owner uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) inodes: u64,
    pub(crate) bytes: u64,
}

impl Usage {
    /// What an entry says.
    pub(crate) fn of(entry: &QuotaEntry) -> Self {
        Self {
            inodes: entry.inodes,
            bytes: entry.space_bytes,
        }
    }

    fn add(&mut self, other: Self) {
        self.inodes = self.inodes.saturating_add(other.inodes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The owners of a kind, by number.
pub(crate) type Owners = BTreeMap<u32, Usage>;

/// Nothing without the feature.
#[derive(Default)]
pub(crate) struct Usages(Vec<(QuotaKind, Owners)>);

impl Usages {
    /// Of the kinds that have a file.
    pub(crate) fn of(superblock: &Superblock) -> Self {
        let kinds = superblock.quota_files();
        Self(kinds.map(|(kind, _)| (kind, Owners::new())).collect())
    }

    /// Whether no kind of owner is counted.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the owners of a kind out.
    pub(crate) fn take(&mut self, kind: QuotaKind) -> Owners {
        let mut all = self.0.iter_mut();
        let found = all.find(|(known, _)| *known == kind);
        found.map_or_else(Owners::new, |(_, owners)| std::mem::take(owners))
    }

    /// Puts the owners of a kind back.
    pub(crate) fn put_back(&mut self, kind: QuotaKind, owners: Owners) {
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| *known == kind) {
            *known = owners;
        }
    }

    /// Adds what an inode uses; returns how many owners are new.
    pub(crate) fn add(&mut self, inode: &Inode, usage: Usage) -> usize {
        let all = self.0.iter_mut();
        all.map(|(kind, owners)| add_to(owners, inode.owner(*kind), usage))
            .sum()
    }

    /// Adds what owners use in a part of the file system; returns how many are new.
    pub(crate) fn add_all(&mut self, others: &Self) -> usize {
        let mut n_new = 0;
        for ((_, owners), (_, others)) in self.0.iter_mut().zip(&others.0) {
            let more = others.iter().map(|(id, usage)| add_to(owners, *id, *usage));
            n_new += more.sum::<usize>();
        }
        n_new
    }
}

/// Returns 1 for a new owner.
fn add_to(owners: &mut Owners, id: u32, usage: Usage) -> usize {
    let before = owners.len();
    owners.entry(id).or_default().add(usage);
    owners.len() - before
}
