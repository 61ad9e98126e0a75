//! Who was told that writing out data failed: each open file once, as with the kernel.
//!
//! A counter per inode, and in each open file the count that it was told of. An error that nobody
//! was told of is also news to who opens the file later.
//! References: kernel documentation, `core-api/errseq`.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// Set in the counter when somebody was told of the last failure.
const TOLD: u64 = 1;
const STEP: u64 = 2;

/// Failures to write out data of one inode.
#[derive(Default)]
pub(crate) struct WriteErrors {
    word: AtomicU64,
    /// For callers who did not open the file.
    unopened: ErrorCursor,
}

/// What one open file was told of failures to write out its data; see
/// [`crate::Filesystem::error_cursor`].
#[derive(Debug, Default)]
pub struct ErrorCursor(AtomicU64);

impl ErrorCursor {
    /// True when there was nothing to tell before or since the file was opened.
    pub fn is_unused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl WriteErrors {
    /// One more failed.
    pub(crate) fn note(&self) {
        let next = |word: u64| Some((word & !TOLD) + STEP);
        let _always = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// For a file that is opened now.
    pub(crate) fn cursor(&self) -> ErrorCursor {
        let word = self.word.load(Ordering::Acquire);
        let news = if word == 0 || word & TOLD != 0 {
            0
        } else {
            STEP
        };
        ErrorCursor(AtomicU64::new((word & !TOLD) - news))
    }

    /// True when something failed that the open file was not told of; it counts as told then.
    pub(crate) fn tell(&self, cursor: Option<&ErrorCursor>) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let told = &cursor.unwrap_or(&self.unopened).0;
        if word == 0 || told.load(Ordering::Acquire) == word & !TOLD {
            return false;
        }
        // A failure that comes now is news again.
        let order = Ordering::AcqRel;
        let _told = self
            .word
            .compare_exchange(word, word | TOLD, order, Ordering::Acquire);
        told.swap(word & !TOLD, order) != word & !TOLD
    }

    /// The inode is another one now.
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
        assert!(!errors.tell(Some(&first)));
        errors.note();
        let late = errors.cursor();
        for open in [&first, &second, &late] {
            assert!(errors.tell(Some(open)), "{open:?}");
            assert!(!errors.tell(Some(open)), "{open:?}");
        }
        assert!(errors.tell(None) && !errors.tell(None));
        let after = errors.cursor();
        assert!(
            !errors.tell(Some(&after)),
            "others were told before it came"
        );
        errors.note();
        errors.note();
        for open in [&first, &after] {
            assert!(errors.tell(Some(open)) && !errors.tell(Some(open)));
        }
        errors.reset();
        assert!(errors.cursor().is_unused());
    }
}
