//! Names that change: the entry to insert, and what a fast commit records.

use crate::cache::dcache::HashedName;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::name_log::NameChange;
use uext4_format::dirent::NewEntry;
use uext4_format::{FileType, InodeNr};
use uext4_journal::Handle;

/// An inode that gets a name.
pub(crate) struct Child {
    pub(crate) nr: InodeNr,
    pub(crate) kind: FileType,
    /// What the name is for a fast commit: the first one, or another one.
    pub(crate) change: NameChange,
}

/// An entry to insert, with the hashes of its name.
pub(super) struct NewName<'a> {
    pub(super) name: &'a HashedName<'a>,
    pub(super) entry: NewEntry<'a>,
    change: &'a NameChange,
}

impl<'a> NewName<'a> {
    pub(super) fn new(fs: &Fs, name: &'a HashedName<'a>, child: &'a Child) -> Self {
        let entry = NewEntry {
            inode: child.nr,
            name: name.bytes,
            kind: fs.dirs.entry_type(child.kind),
        };
        let change = &child.change;
        Self {
            name,
            entry,
            change,
        }
    }

    /// Records the name for a fast commit; its leaf or the directory's structure is still locked.
    pub(super) fn record(&self, fs: &Fs, handle: &Handle<'_>, dir: &Inode) {
        let name = (dir.nr(), self.name.bytes, self.entry.inode);
        fs.name_log.note(handle, self.change.clone(), name);
    }
}

/// Records a removed name for a fast commit; its leaf or the directory's structure is still locked.
pub(super) fn record_removal(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Inode,
    (name, child): (&HashedName<'_>, InodeNr),
) {
    let removed = NameChange::Unlink { last: None };
    fs.name_log
        .note(handle, removed, (dir.nr(), name.bytes, child));
}

/// Records that a name has another inode, as [`record_removal`].
pub(super) fn record_retarget(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Inode,
    (name, old): (&HashedName<'_>, InodeNr),
    new: InodeNr,
) {
    record_removal(fs, handle, dir, (name, old));
    fs.name_log
        .note(handle, NameChange::Link, (dir.nr(), name.bytes, new));
}
