//! Reference count of an inode, combined with its life state in one atomic word.
//!
//! Layout: the life state in the two highest bits, the count of holds in the others.
//! Invariant: an inode without a name is freed exactly once. Either a claim sees no holds, or the
//! last release sees no claim and queues the inode. Both are one atomic step on the same word, so
//! one of them sees the other.

use uext4_sync::atomic::{AtomicU32, Ordering::SeqCst};

const LIFE_SHIFT: u32 = 30;
const USERS_MASK: u32 = (1 << LIFE_SHIFT) - 1;

/// Whether an inode has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Named,
    /// It lost its last name; the last user frees it.
    Unlinked,
    /// It never had a name (`O_TMPFILE`).
    Unnamed,
    /// It is free, or being freed.
    Freed,
}

impl Life {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    fn bits(self) -> u32 {
        (self as u32) << LIFE_SHIFT
    }

    fn of(word: u32) -> Self {
        match word >> LIFE_SHIFT {
            0 => Self::Named,
            1 => Self::Unlinked,
            2 => Self::Unnamed,
            _ => Self::Freed,
        }
    }

    /// Whether the inode is freed after its last hold.
    pub(super) fn ends_unheld(self) -> bool {
        matches!(self, Self::Unlinked | Self::Unnamed)
    }

    /// The state of an inode with this many links.
    pub(super) fn with_links(links: u16) -> Self {
        match links {
            0 => Self::Unlinked,
            _ => Self::Named,
        }
    }
}

pub(super) struct Holds(AtomicU32);

impl Holds {
    pub(super) fn new(life: Life) -> Self {
        Self(AtomicU32::new(life.bits()))
    }

    pub(super) fn life(&self) -> Life {
        Life::of(self.0.load(SeqCst))
    }

    pub(super) fn set_life(&self, life: Life) {
        let _always = self
            .0
            .fetch_update(SeqCst, SeqCst, |word| Some(word & USERS_MASK | life.bits()));
    }

    /// True when there are no holds.
    pub(super) fn is_unheld(&self) -> bool {
        self.0.load(SeqCst) & USERS_MASK == 0
    }

    pub(super) fn acquire(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// Drops a hold; if it was the last one, returns the life state at that moment.
    pub(super) fn release(&self) -> Option<Life> {
        let before = self.0.fetch_sub(1, SeqCst);
        debug_assert!(before & USERS_MASK != 0, "more releases than holds");
        (before & USERS_MASK == 1).then(|| Life::of(before))
    }

    /// Claims the right to free an inode without a name that has at most `users` holds; it becomes
    /// [`Life::Freed`].
    pub(super) fn claim(&self, users: u32) -> bool {
        self.0
            .fetch_update(SeqCst, SeqCst, |word| {
                let is_due = Life::of(word).ends_unheld() && word & USERS_MASK <= users;
                is_due.then_some(word & USERS_MASK | Life::Freed.bits())
            })
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn only_what_has_no_name_and_no_user_is_claimed() {
        for (life, is_due) in [
            (Life::Named, false),
            (Life::Unlinked, true),
            (Life::Unnamed, true),
            (Life::Freed, false),
        ] {
            let holds = Holds::new(life);
            holds.acquire();
            assert!(!holds.claim(0), "{life:?}");
            assert_eq!(holds.life(), life);
            assert_eq!(holds.claim(1), is_due, "{life:?}");
            assert!(!holds.claim(1), "claimed once");
            assert!(holds.release().is_some() && holds.is_unheld());
        }
    }

    /// If a hold refuses a claim, the release of that hold sees the inode unclaimed.
    #[test]
    fn a_refused_claim_and_the_last_hold_do_not_miss_each_other() {
        for round in 0..2000 {
            let holds = Arc::new(Holds::new(Life::Unlinked));
            holds.acquire();
            let claimer = {
                let holds = Arc::clone(&holds);
                thread::spawn(move || holds.claim(0))
            };
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            let queues = holds.release().is_some_and(Life::ends_unheld);
            let claimed = claimer.join().expect("no panic");
            assert!(claimed || queues, "round {round}: no thread frees it");
        }
    }
}
