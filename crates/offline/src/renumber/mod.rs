//! Gives inodes other numbers, in transactions that keep the size of the file system.
//!
//! A transaction moves some inodes, with all that depends on their numbers: entries of directories,
//! ".." of subdirectories, checksums that begin with the number (inode, tree nodes, directory
//! blocks, orphan file), attributes whose values are inodes, bitmaps, descriptors, superblock. So
//! each state is consistent. All transactions are known before the first one: none is larger than
//! the log.
//!
//! Layout: `references` finds entries and attributes with the numbers, `batch` the blocks of a
//! transaction, `rewrite` changes them.
//! Not here: encryption by inode number, which needs `stable_inodes`; such inodes do not move.

mod batch;
mod references;
mod rewrite;

use super::descriptors::Descriptors;
use batch::Batches;
use references::References;
use uext4_format::{InodeNr, Superblock};
use uext4_volume::Result;
use uext4_volume::Volume;

/// Gives inodes their new numbers.
///
/// # Errors
/// Those of the device; damage; [`uext4_volume::ResizeError::Journal`], with nothing changed, if
/// the log cannot hold what one inode needs.
pub(super) fn run(volume: &mut Volume, numbers: &Renumbered) -> Result<()> {
    let descriptors = Descriptors::read(volume)?;
    let references = References::read(volume, &descriptors, numbers)?;
    let batches = Batches::of(volume, &descriptors, numbers, &references)?;
    for batch in batches.into_vec() {
        batch.run(volume)?;
    }
    Ok(())
}

/// Inodes with their new numbers, ascending by the old one.
#[derive(Clone, Debug, Default)]
pub(super) struct Renumbered(Vec<(InodeNr, InodeNr)>);

impl Renumbered {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the next inode; `old` is above all before.
    pub(super) fn push(&mut self, old: InodeNr, new: InodeNr) {
        debug_assert!(self.0.last().is_none_or(|last| last.0 < old));
        self.0.push((old, new));
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (InodeNr, InodeNr)> + '_ {
        self.0.iter().copied()
    }

    /// The new number of an inode, if it gets one.
    pub(super) fn new_number(&self, nr: InodeNr) -> Option<InodeNr> {
        let at = self.0.binary_search_by_key(&nr, |pair| pair.0).ok()?;
        Some(self.0[at].1)
    }

    /// The number of an inode afterwards.
    pub(super) fn now(&self, nr: InodeNr) -> InodeNr {
        self.new_number(nr).unwrap_or(nr)
    }

    /// Changes the numbers that a superblock has of inodes which are files.
    pub(super) fn apply(&self, disk: &mut Superblock) {
        let fields = [
            &mut disk.journal_inum,
            &mut disk.usr_quota_inum,
            &mut disk.grp_quota_inum,
            &mut disk.prj_quota_inum,
            &mut disk.orphan_file_inum,
            &mut disk.lpf_ino,
        ];
        for field in fields {
            *field = self.now(InodeNr(*field)).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_the_old_one() {
        let mut numbers = Renumbered::new();
        for at in 0..5 {
            numbers.push(InodeNr(100 + 2 * at), InodeNr(11 + at));
        }
        assert_eq!(numbers.new_number(InodeNr(104)), Some(InodeNr(13)));
        assert_eq!(numbers.new_number(InodeNr(103)), None);
        assert_eq!(numbers.now(InodeNr(103)), InodeNr(103));
        assert_eq!(numbers.iter().len(), 5);
    }
}
