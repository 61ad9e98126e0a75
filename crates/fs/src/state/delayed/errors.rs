//! Writeback errors with errseq semantics: each open file gets an error once, as in the kernel.
//!
//! A counter per inode, and the reported count in each open file. Unreported errors are reported to
//! later openers as well.
//! References: kernel documentation, `core-api/errseq`.

use uext4_sync::atomic::{AtomicU32, Ordering};

/// Set in the counter when a caller has seen the last error.
const SEEN: u32 = 1;
const STEP: u32 = 2;

/// Writeback errors of one inode.
#[derive(Default)]
pub(crate) struct WriteErrors {
    word: AtomicU32,
    /// For callers without an open file.
    unopened: ErrorCursor,
}

/// The errors that one open file has reported; see [`crate::Filesystem::error_cursor`].
#[derive(Debug, Default)]
pub struct ErrorCursor(AtomicU32);

impl ErrorCursor {
    /// True if no error occurred before or since the open.
    pub fn is_unused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    Nothing,
    /// A new error, reported for the first time.
    First,
    /// A new error for this file, which others have reported.
    Again,
}

impl WriteErrors {
    /// Records an error. True if all earlier errors were reported.
    pub(crate) fn record(&self) -> bool {
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                Some((word & !SEEN) + STEP)
            });
        before.is_ok_and(|word| word == 0 || word & SEEN != 0)
    }

    /// A cursor for a file that is opened now.
    pub(crate) fn cursor(&self) -> ErrorCursor {
        let word = self.word.load(Ordering::Acquire);
        let news = if word == 0 || word & SEEN != 0 {
            0
        } else {
            STEP
        };
        ErrorCursor(AtomicU32::new((word & !SEEN) - news))
    }

    /// Reports the errors since the file's last report, and marks them reported.
    pub(crate) fn check_and_advance(&self, cursor: Option<&ErrorCursor>) -> Advance {
        let word = self.word.load(Ordering::Acquire);
        let seen = &cursor.unwrap_or(&self.unopened).0;
        if word == 0 || seen.load(Ordering::Acquire) == word & !SEEN {
            return Advance::Nothing;
        }
        // An error recorded from now on is unreported again.
        let order = Ordering::AcqRel;
        let first = self
            .word
            .compare_exchange(word, word | SEEN, order, Ordering::Acquire);
        if seen.swap(word & !SEEN, order) == word & !SEEN {
            Advance::Nothing
        } else if word & SEEN == 0 && first.is_ok() {
            Advance::First
        } else {
            Advance::Again
        }
    }

    /// Resets the state for a new inode.
    pub(crate) fn reset(&self) {
        self.word.store(0, Ordering::Release);
        self.unopened.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_is_told_once() {
        let errors = WriteErrors::default();
        let (first, second) = (errors.cursor(), errors.cursor());
        let told = |cursor| errors.check_and_advance(cursor) != Advance::Nothing;
        assert!(!told(Some(&first)));
        assert!(errors.record() && !errors.record());
        let late = errors.cursor();
        for open in [&first, &second, &late] {
            assert!(told(Some(open)), "{open:?}");
            assert!(!told(Some(open)), "{open:?}");
        }
        assert!(told(None) && !told(None));
        let after = errors.cursor();
        assert!(!told(Some(&after)), "others were told before it came");
        errors.record();
        errors.record();
        for (open, first) in [(&first, Advance::First), (&after, Advance::Again)] {
            assert_eq!(errors.check_and_advance(Some(open)), first);
            assert_eq!(errors.check_and_advance(Some(open)), Advance::Nothing);
        }
        errors.reset();
        assert!(errors.cursor().is_unused());
    }
}
