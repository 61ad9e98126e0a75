//! Names that changed in the running transaction, for its fast commits.
//!
//! Invariants: a change is noted while the lock of its leaf is held (or the structure of the
//! directory exclusively), after it was made. So changes of one name are noted in their order.
//! Changes of different names of one inode may not be: the reader of the list checks their order.
//!
//! Locking: one mutex, a leaf.

use std::collections::HashSet;
use uext4_format::fast_commit::Dentry;
use uext4_format::{InodeNr, Tid};
use uext4_journal::{FullReason, Handle};
use uext4_sync::{Mutex, Rank};

/// Most changes of a fast commit.
const CHANGES_MAX: usize = 2048;

#[derive(Clone)]
pub(crate) enum NameChange {
    /// A new inode got its first name.
    Create,
    /// An inode got another name.
    Link,
    /// A name was removed. With the last one come the inode's bytes, as if it were empty.
    Unlink { last: Option<Box<[u8]>> },
}

pub(crate) struct NotedName {
    pub(crate) change: NameChange,
    pub(crate) dentry: Dentry,
}

struct Names {
    tid: Tid,
    list: Vec<NotedName>,
    /// Inodes whose last name was removed in the transaction.
    gone: HashSet<InodeNr>,
}

pub(crate) struct NameLog {
    names: Mutex<Names>,
}

impl NameLog {
    pub(crate) fn new() -> Self {
        let names = Names {
            tid: Tid(0),
            list: Vec::new(),
            gone: HashSet::new(),
        };
        let names = Mutex::new(Rank::Queue, names);
        Self { names }
    }

    /// Notes a change that was made through the handle. The caller holds the lock of the leaf.
    pub(crate) fn record(
        &self,
        handle: &Handle<'_>,
        change: NameChange,
        (parent, name, inode): (InodeNr, &[u8], InodeNr),
    ) {
        if !handle.is_recorded() {
            return;
        }
        let mut names = self.names.lock();
        names.begin(handle.tid());
        if names.list.len() >= CHANGES_MAX {
            handle.require_full(FullReason::TooMany);
            return;
        }
        let dentry = Dentry {
            parent,
            inode,
            name: name.into(),
        };
        names.list.push(NotedName { change, dentry });
    }

    /// The newest removal of a name of the inode was that of its last one; `emptied` has the
    /// inode's bytes without data.
    pub(crate) fn record_last(&self, handle: &Handle<'_>, inode: InodeNr, emptied: Box<[u8]>) {
        let mut names = self.names.lock();
        names.begin(handle.tid());
        let newest = names
            .list
            .iter_mut()
            .rev()
            .find(|noted| noted.dentry.inode == inode);
        match newest.map(|noted| &mut noted.change) {
            Some(NameChange::Unlink { last }) => *last = Some(emptied),
            // Not noted: the list is full, or a full commit is needed anyway.
            _ => return handle.require_full(FullReason::Other),
        }
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
    /// Forgets the changes of transactions before `tid`.
    fn begin(&mut self, tid: Tid) {
        if self.tid != tid {
            self.tid = tid;
            self.list.clear();
            self.gone.clear();
        }
    }
}
