//! Replay of names and link counts, record by record.
//!
//! An addition of an existing name, or a removal of a missing one, changes nothing. A file's link
//! count is that of its last record, plus and minus the names after it. A directory's link count is
//! derived here, from subdirectories added and removed.

use super::{contradiction, load};
use crate::ops::{check_new_name, settled, touch_dir};
use crate::parts::dir::{self, LockMode};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::name_log::NameChange;
use crate::types::credits;
use crate::types::error::Result;
use std::collections::BTreeSet;
use uext4_format::fast_commit::{Dentry, Record};
use uext4_format::{CorruptKind, FileType, InodeNr, RawInode};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Whether a new name adds a link: the record of a new inode has counted its first one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    Counted,
    Adds,
}

/// Applies all names in the order of their records.
pub(super) fn apply(fs: &Fs, records: &[Record]) -> Result<()> {
    for record in records {
        match record {
            Record::Create(dentry) => add(fs, dentry, Count::Counted)?,
            Record::Link(dentry) => add(fs, dentry, Count::Adds)?,
            Record::Unlink(dentry) => remove(fs, dentry)?,
            Record::Inode { inode, raw } => set_links(fs, *inode, RawInode(raw).links())?,
            Record::AddRange { .. } | Record::DelRange { .. } => {}
        }
    }
    Ok(())
}

/// Tracks inodes without a name as orphans. An orphan that got a name stays tracked: the mount
/// finds nothing to free.
pub(super) fn track_nameless(fs: &Fs, records: &[Record]) -> Result<()> {
    let touched: BTreeSet<InodeNr> = records
        .iter()
        .map(|record| match record {
            Record::Create(dentry) | Record::Link(dentry) | Record::Unlink(dentry) => dentry.inode,
            Record::Inode { inode, .. }
            | Record::AddRange { inode, .. }
            | Record::DelRange { inode, .. } => *inode,
        })
        .collect();
    for nr in touched {
        if !fs.space.is_inode_allocated(&fs.base, nr)? {
            continue;
        }
        let inode = load(fs, nr)?;
        let links = inode.read().disk.links;
        if links == 0 {
            fs.orphans
                .add(&fs.base, &fs.start(credits::REMOVE)?, &inode)?;
        }
    }
    Ok(())
}

fn set_links(fs: &Fs, nr: InodeNr, links: u16) -> Result<()> {
    if !fs.space.is_inode_allocated(&fs.base, nr)? {
        return Ok(());
    }
    let inode = load(fs, nr)?;
    let handle = fs.start(credits::ATTRIBUTES)?;
    let mut state = handle.write(&inode);
    if state.disk.file_type() != Some(FileType::Directory) {
        state.disk.links = links;
    }
    Ok(())
}

/// The parent directory of a name, validated.
fn parent(fs: &Fs, dentry: &Dentry) -> Result<Arc<Inode>> {
    check_new_name(&dentry.name).map_err(|_| contradiction(dentry.parent, CorruptKind::FcName))?;
    let known = fs.space.is_inode_allocated(&fs.base, dentry.parent)?;
    let parent = load(fs, dentry.parent)?;
    let kind = parent.read().disk.file_type();
    if known && kind == Some(FileType::Directory) {
        return Ok(parent);
    }
    Err(contradiction(dentry.parent, CorruptKind::FcNoDirectory))
}

fn kind_of(fs: &Fs, nr: InodeNr) -> Result<FileType> {
    let kind = if fs.space.is_inode_allocated(&fs.base, nr)? {
        load(fs, nr)?.read().disk.file_type()
    } else {
        None
    };
    kind.ok_or(contradiction(nr, CorruptKind::FcFree))
}

fn add(fs: &Fs, dentry: &Dentry, count: Count) -> Result<()> {
    let dir = parent(fs, dentry)?;
    let kind = kind_of(fs, dentry.inode)?;
    if kind == FileType::Directory && count == Count::Adds {
        return Err(contradiction(dentry.inode, CorruptKind::FcSecondName));
    }
    let name = &fs.hashed(&dentry.name);
    let _alone = dir.index.write();
    match dir::find(fs, &dir, name)? {
        Some((found, _)) if found == dentry.inode => return Ok(()),
        Some((found, kind)) => {
            let replaced = Dentry {
                inode: found,
                ..dentry.clone()
            };
            take_away(fs, &dir, &replaced, kind)?;
        }
        None => {}
    }
    let handle = fs.start(credits::CREATE + credits::DIR_GROW)?;
    let way = &dir::InsertPlan::Search { blocks: 0 };
    let child = dir::Child {
        nr: dentry.inode,
        kind,
        change: NameChange::Link,
    };
    let inserted = dir::insert(fs, &handle, &dir, name, &child, way);
    settled(inserted)?;
    touch_dir(&handle, &dir, fs.now());
    match (kind, count) {
        (FileType::Directory, _) => {
            change_links(fs, &handle, dentry.inode, |links| links.max(2))?;
            fs.add_dir_link(&handle, &dir)
        }
        (_, Count::Adds) => {
            change_links(fs, &handle, dentry.inode, |links| links.saturating_add(1))
        }
        (_, Count::Counted) => Ok(()),
    }
}

fn remove(fs: &Fs, dentry: &Dentry) -> Result<()> {
    let dir = parent(fs, dentry)?;
    let name = &fs.hashed(&dentry.name);
    let _alone = dir.index.write();
    match dir::find(fs, &dir, name)? {
        Some((found, kind)) if found == dentry.inode => take_away(fs, &dir, dentry, kind),
        _ => Ok(()),
    }
}

/// Removes an existing name; the directory is locked. The file type comes from the entry if it has
/// one, because the number may belong to another file in the end.
fn take_away(fs: &Fs, dir: &Arc<Inode>, dentry: &Dentry, kind: Option<FileType>) -> Result<()> {
    let kind = kind.map_or_else(|| kind_of(fs, dentry.inode), Ok)?;
    let handle = fs.start(credits::REMOVE)?;
    let (name, index) = (&fs.hashed(&dentry.name), LockMode::Exclusive);
    settled(dir::remove(fs, &handle, dir, name, dentry.inode, index))?;
    touch_dir(&handle, dir, fs.now());
    if kind == FileType::Directory {
        fs.drop_dir_link(&handle, dir);
        return change_links(fs, &handle, dentry.inode, |_| 0);
    }
    change_links(fs, &handle, dentry.inode, |links| links.saturating_sub(1))
}

fn change_links(
    fs: &Fs,
    handle: &Handle<'_>,
    nr: InodeNr,
    change: impl FnOnce(u16) -> u16,
) -> Result<()> {
    let inode = load(fs, nr)?;
    let mut state = handle.write(&inode);
    state.disk.links = change(state.disk.links);
    Ok(())
}
