//! InodeNumbers of inodes: one after the other, or those that follow from paths.
//!
//! In the second case they are a hash table: a path gets the first free number from the one that
//! its key chooses. A file that comes or goes changes few other numbers unless most are in use.

use uext4_format::InodeNr;
use uext4_num::{clamp_u32, low_u32, usize_of};

use crate::error::{Error, Result};
use crate::tree::keys::Key;

/// The numbers that are free.
pub(crate) enum InodeNumbers {
    /// In order: the next number to give out.
    Ascending(u32),
    Scattered(Table),
}

/// The numbers of a file system that files may have.
pub(crate) struct Table {
    first: u32,
    count: u32,
    /// A bit for each number; set: in use.
    words: Vec<u64>,
}

impl InodeNumbers {
    /// InodeNumbers from this one to the last one of the file system, by key.
    pub(crate) fn scattered(first: InodeNr, last: u32) -> InodeNumbers {
        let count = last.saturating_sub(first.0 - 1);
        let mut words = vec![0; usize_of(count.div_ceil(64))];
        if let (Some(last), false) = (words.last_mut(), count.is_multiple_of(64)) {
            *last = u64::MAX << (count % 64);
        }
        InodeNumbers::Scattered(Table {
            first: first.0,
            count,
            words,
        })
    }

    /// The number for a file with this key.
    pub(crate) fn take(&mut self, key: Key) -> Result<InodeNr> {
        match self {
            InodeNumbers::Ascending(next) => {
                let taken = *next;
                *next = next.checked_add(1).ok_or_else(too_many)?;
                Ok(InodeNr(taken))
            }
            InodeNumbers::Scattered(table) => {
                let taken = table.take(key).ok_or_else(|| table.full())?;
                Ok(InodeNr(table.first + taken))
            }
        }
    }
}

impl Table {
    fn take(&mut self, key: Key) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let home = low_u32(key.below(self.count.into()));
        let mut at = usize_of(home / 64);
        let mut used = self.words[at] | !(u64::MAX << (home % 64));
        for _ in 0..=self.words.len() {
            if used != u64::MAX {
                let bit = used.trailing_ones();
                self.words[at] |= 1 << bit;
                return Some(clamp_u32(at) * 64 + bit);
            }
            at = (at + 1) % self.words.len();
            used = self.words[at];
        }
        None
    }

    fn full(&self) -> Error {
        Error::Refused {
            source_name: "the options".to_owned(),
            problem: format!("the tree has more than {} files", self.count),
            advice: "give the number of inodes: twice the number of files or more",
        }
    }
}

fn too_many() -> Error {
    Error::refused(
        b"",
        "the tree has more than 4 Gi files",
        "build several images",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_given_once() {
        for count in [1, 63, 64, 65, 1000] {
            let mut numbers = InodeNumbers::scattered(InodeNr(13), 12 + count);
            let key = |at: u32| Key::ROOT.child(&at.to_le_bytes());
            let mut taken: Vec<u32> = (0..count)
                .map(|at| numbers.take(key(at)).expect("a number").0)
                .collect();
            taken.sort_unstable();
            assert_eq!(taken, (13..13 + count).collect::<Vec<u32>>());
            assert!(numbers.take(Key::ROOT).is_err());
        }
    }

    #[test]
    fn one_file_less_changes_few_numbers() {
        let of = |without: u32| {
            let mut numbers = InodeNumbers::scattered(InodeNr(13), 4000);
            let files = (0..2000).filter(move |at| *at != without);
            let taken = files.map(|at: u32| {
                let key = Key::ROOT.child(&at.to_le_bytes());
                (at, numbers.take(key).expect("a number"))
            });
            taken.collect::<Vec<_>>()
        };
        let all = of(u32::MAX);
        for without in (0..2000).step_by(50) {
            let moved = of(without);
            let moved = moved.iter().filter(|one| !all.contains(one)).count();
            assert!(moved <= 20, "{moved} without {without}");
        }
    }
}
