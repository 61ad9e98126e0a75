//! What a part of a pass would record, if it were checked by the one thread that collects.

use crate::counts::NewInode;
use crate::usages::{BYTES_PER_OWNER, Usages};
use std::ops::Range;
use uext4_format::InodeNr;
use uext4_num::clamp_usize;

/// Most memory of a result in bytes, about.
pub(crate) const BYTES_MAX: usize = 2 << 20;

/// Most records of a result, merged ones included: hostile maps lead to the same blocks again and
/// again, which only the thread that collects notices at once.
const RECORDS_MAX: u32 = 1 << 20;

/// Memory of a record in bytes, at most.
const BYTES_PER_RECORD: usize = 16;

/// What a part of a pass would record.
#[derive(Default)]
pub(crate) struct Trial {
    pub(crate) claims: Vec<Range<u64>>,
    pub(crate) inodes: Vec<NewInode>,
    /// Inodes that entries name.
    pub(crate) counted: Vec<InodeNr>,
    /// Directories, with those that name them.
    pub(crate) children: Vec<(InodeNr, InodeNr)>,
    /// Directories, with where their ".." leads.
    pub(crate) ups: Vec<(InodeNr, InodeNr)>,
    /// Hashes of names that may be in other parts of the directory as well.
    pub(crate) names: Vec<u64>,
    /// Directories that are checked after the others.
    pub(crate) large: Vec<InodeNr>,
    pub(crate) has_large_files: bool,
    pub(crate) usages: Usages,
    /// Of encrypted inodes.
    pub(crate) policies: Vec<(InodeNr, u64)>,
    bytes: usize,
    records: u32,
}

impl Trial {
    /// Records clusters in use; false if the result becomes too large.
    pub(crate) fn claim(&mut self, clusters: Range<u64>) -> bool {
        match self.claims.last_mut() {
            Some(last) if last.end == clusters.start => last.end = clusters.end,
            _ if clusters.is_empty() => {}
            _ => {
                self.claims.push(clusters);
                self.bytes += BYTES_PER_RECORD;
            }
        }
        self.has_room()
    }

    /// Records an inode in use; false if the result becomes too large.
    pub(crate) fn put_inode(&mut self, new: NewInode) -> bool {
        self.inodes.push(new);
        self.bytes += BYTES_PER_RECORD;
        self.has_room()
    }

    /// Records an entry of an inode, which may be a directory; false if the result becomes too
    /// large.
    pub(crate) fn count(&mut self, nr: InodeNr) -> bool {
        self.counted.push(nr);
        self.bytes += BYTES_PER_RECORD;
        self.has_room()
    }

    /// Records the policy of an inode; false if the result becomes too large.
    pub(crate) fn put_policy(&mut self, nr: InodeNr, policy: u64) -> bool {
        self.policies.push((nr, policy));
        self.bytes += BYTES_PER_RECORD;
        self.has_room()
    }

    /// Counts memory of owners that are new; false if the result becomes too large.
    pub(crate) fn put_owners(&mut self, n_new: usize) -> bool {
        self.bytes += n_new * clamp_usize(BYTES_PER_OWNER);
        self.bytes <= BYTES_MAX
    }

    fn has_room(&mut self) -> bool {
        self.records += 1;
        self.bytes <= BYTES_MAX && self.records <= RECORDS_MAX
    }

    /// Sorts and merges the claims; false if two overlap.
    pub(crate) fn merge_claims(&mut self) -> bool {
        let claims = &mut self.claims;
        claims.sort_unstable_by_key(|run| run.start);
        let mut is_apart = true;
        claims.dedup_by(|next, last| {
            is_apart &= next.start >= last.end;
            let meets = next.start == last.end;
            if meets {
                last.end = next.end;
            }
            meets
        });
        is_apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_overlap_are_no_result() {
        let claims = |runs: &[Range<u64>]| {
            let mut trial = Trial::default();
            assert!(runs.iter().all(|run| trial.claim(run.clone())));
            trial.merge_claims().then_some(trial.claims)
        };
        assert_eq!(
            claims(&[5..7, 7..9, 20..30, 1..5]),
            Some(vec![1..9, 20..30])
        );
        assert_eq!(claims(&[4..4, 5..7]), Some(vec![5..7; 1]));
        assert_eq!(claims(&[5..7, 20..30, 6..8]), None);
        assert_eq!(claims(&[5..7, 5..7]), None);
    }

    #[test]
    fn a_result_does_not_grow_without_bound() {
        let mut trial = Trial::default();
        let apart = (0..).take_while(|at| trial.claim(at * 2..at * 2 + 1));
        assert!(apart.count() <= BYTES_MAX / BYTES_PER_RECORD);
        let mut trial = Trial::default();
        let joined = (0..).take_while(|at| trial.claim(*at..at + 1));
        assert!((1000..1 << 21).contains(&joined.count()));
    }
}
