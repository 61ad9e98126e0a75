//! Names that changed in the running transaction, for its fast commits.
//!
//! Invariants: a change is noted before others can see it, and taken back if it fails. So changes
//! of one name are noted in their order. Changes of different names of one inode may not be: the
//! reader of the list checks their order.
//!
//! Locking: one mutex, a leaf.

use std::collections::HashSet;
use uext4_format::fast_commit::Dentry;
use uext4_format::{InodeNr, Tid};
use uext4_journal::{FullReason, Handle};
use uext4_sync::{Mutex, Rank};

/// Most changes of a fast commit.
const CHANGES_MAX: usize = 2048;

/// A change of a name.
pub(crate) enum NameChange {
    /// A new inode got its first name.
    Create,
    /// An inode got another name.
    Link,
    /// A name was removed. With the last one come the inode's bytes, as if it were empty.
    Unlink { last: Option<Box<[u8]>> },
}

/// A noted change.
pub(crate) struct NotedName {
    number: u64,
    pub(crate) change: NameChange,
    pub(crate) dentry: Dentry,
}

/// A change that was noted, or one that needs no note.
pub(crate) struct Noted(Option<u64>);

impl Noted {
    /// No note.
    pub(crate) const NONE: Noted = Noted(None);
}

struct Names {
    tid: Tid,
    next: u64,
    list: Vec<NotedName>,
    /// Inodes whose last name was removed in the transaction.
    gone: HashSet<InodeNr>,
}

/// See the module.
pub(crate) struct NameLog {
    names: Mutex<Names>,
}

impl NameLog {
    pub(crate) fn new() -> Self {
        let names = Names {
            tid: Tid(0),
            next: 0,
            list: Vec::new(),
            gone: HashSet::new(),
        };
        let names = Mutex::new(Rank::Queue, names);
        Self { names }
    }

    /// Notes a change that the handle is about to make.
    pub(crate) fn note(
        &self,
        handle: &Handle<'_>,
        change: NameChange,
        (parent, name, inode): (InodeNr, &[u8], InodeNr),
    ) -> Noted {
        if !handle.is_recorded() {
            return Noted(None);
        }
        let mut names = self.names.lock();
        names.begin(handle.tid());
        if names.list.len() >= CHANGES_MAX {
            handle.require_full(FullReason::TooMany);
            return Noted(None);
        }
        let number = names.next;
        names.next += 1;
        names.list.push(NotedName {
            number,
            change,
            dentry: Dentry {
                parent,
                inode,
                name: name.into(),
            },
        });
        Noted(Some(number))
    }

    /// Takes a change back that failed.
    pub(crate) fn retract(&self, noted: Noted) {
        if let Some(number) = noted.0 {
            let mut names = self.names.lock();
            names.list.retain(|change| change.number != number);
        }
    }

    /// The removal was that of the last name; `emptied` has the inode's bytes without data.
    pub(crate) fn note_last(&self, handle: &Handle<'_>, noted: &Noted, emptied: Box<[u8]>) {
        let Some(number) = noted.0 else { return };
        let mut names = self.names.lock();
        names.begin(handle.tid());
        let found = names.list.iter_mut().rev();
        let Some(found) = { found }.find(|change| change.number == number) else {
            return;
        };
        let inode = found.dentry.inode;
        found.change = NameChange::Unlink {
            last: Some(emptied),
        };
        names.gone.insert(inode);
    }

    /// Whether a removal noted in the handle's transaction frees the inode, so that its freeing
    /// needs no record of its own.
    pub(crate) fn is_gone(&self, handle: &Handle<'_>, inode: InodeNr) -> bool {
        // Without fast commits the lock of all threads is not touched.
        if !handle.is_recorded() {
            return false;
        }
        let names = self.names.lock();
        names.tid == handle.tid() && names.gone.contains(&inode)
    }

    /// Takes the changes of the transaction since its last fast commit.
    pub(crate) fn take(&self, tid: Tid) -> Vec<NotedName> {
        let mut names = self.names.lock();
        names.begin(tid);
        std::mem::take(&mut names.list)
    }
}

impl Names {
    /// Forgets an earlier transaction.
    fn begin(&mut self, tid: Tid) {
        if self.tid != tid {
            self.tid = tid;
            self.list.clear();
            self.gone.clear();
        }
    }
}
