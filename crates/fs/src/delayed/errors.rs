//! Who was told that writing out data failed: each open file once, as with the kernel.
//!
//! A counter per inode, and in each open file the count that it was told of. An error that nobody
//! was told of is also news to who opens the file later.
//! References: kernel documentation, `core-api/errseq`.

use uext4_sync::atomic::{AtomicU32, Ordering};

/// Set in the counter when somebody was told of the last failure.
const TOLD: u32 = 1;
const STEP: u32 = 2;

/// Failures to write out data of one inode.
#[derive(Default)]
pub(crate) struct WriteErrors {
    word: AtomicU32,
    /// For callers who did not open the file.
    unopened: ErrorCursor,
}

/// What one open file was told of failures to write out its data; see
/// [`crate::Filesystem::error_cursor`].
#[derive(Debug, Default)]
pub struct ErrorCursor(AtomicU32);

impl ErrorCursor {
    /// True when there was nothing to tell before or since the file was opened.
    pub fn is_unused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing failed that it does not know.
    Nothing,
    /// Something failed, and it is the first to hear of it.
    First,
    /// Something failed, of which others heard.
    Again,
}

impl WriteErrors {
    /// One more failed. True when all failures before were told to a caller.
    pub(crate) fn note(&self) -> bool {
        let next = |word: u32| Some((word & !TOLD) + STEP);
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before.is_ok_and(|word| word == 0 || word & TOLD != 0)
    }

    /// For a file that is opened now.
    pub(crate) fn cursor(&self) -> ErrorCursor {
        let word = self.word.load(Ordering::Acquire);
        let news = if word == 0 || word & TOLD != 0 {
            0
        } else {
            STEP
        };
        ErrorCursor(AtomicU32::new((word & !TOLD) - news))
    }

    /// Tells of what failed since the open file was told last; it counts as told then.
    pub(crate) fn tell(&self, cursor: Option<&ErrorCursor>) -> Told {
        let word = self.word.load(Ordering::Acquire);
        let told = &cursor.unwrap_or(&self.unopened).0;
        if word == 0 || told.load(Ordering::Acquire) == word & !TOLD {
            return Told::Nothing;
        }
        // A failure that comes now is news again.
        let order = Ordering::AcqRel;
        let first = self
            .word
            .compare_exchange(word, word | TOLD, order, Ordering::Acquire);
        match told.swap(word & !TOLD, order) != word & !TOLD {
            true if word & TOLD == 0 && first.is_ok() => Told::First,
            true => Told::Again,
            false => Told::Nothing,
        }
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
        let told = |cursor| errors.tell(cursor) != Told::Nothing;
        assert!(!told(Some(&first)));
        assert!(errors.note() && !errors.note());
        let late = errors.cursor();
        for open in [&first, &second, &late] {
            assert!(told(Some(open)), "{open:?}");
            assert!(!told(Some(open)), "{open:?}");
        }
        assert!(told(None) && !told(None));
        let after = errors.cursor();
        assert!(!told(Some(&after)), "others were told before it came");
        errors.note();
        errors.note();
        for (open, first) in [(&first, Told::First), (&after, Told::Again)] {
            assert_eq!(errors.tell(Some(open)), first);
            assert_eq!(errors.tell(Some(open)), Told::Nothing);
        }
        errors.reset();
        assert!(errors.cursor().is_unused());
    }
}
