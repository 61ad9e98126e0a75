//! Extended attributes and POSIX ACLs of inodes.
//!
//! Layout: attributes are in the inode behind its fields, or in one block, which inodes with equal
//! attributes share. With the feature `ea_inode`, a value that fits neither has its own inode. An
//! attribute is in one of the two areas; the inode is tried first.
//!
//! Invariants: a shared block never changes, except for its reference count. A value inode counts
//! the entries that refer to it; the entries of a shared block count once.
//!
//! Locking: the owner's state guards its own area and its reference on the block. The block's lock
//! comes after it, one at a time. A value inode's state may be locked under its owner's; its holder
//! locks no other inode.
//!
//! Not here: permissions on attributes (`ops`).
//!
//! References: kernel documentation, "attributes".

mod acl;
mod areas;
mod block;
mod change;
mod expand;
mod names;
mod refs;
mod share;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use acl::{Inherited, Setgid, access_acl, chmod_acl, inherit_acl, store_inherited};
pub(crate) use change::{transfer, usage};
pub(crate) use expand::expand;

use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::space::Reserve;
use crate::types::error::{Error, Result};
use names::Target;
use refs::Refs;
use uext4_format::xattr::XattrSet;
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Longest value that a program may set, in bytes.
pub(crate) const VALUE_MAX_BYTES: usize = 65536;

/// Required existence of an attribute before it is set (the flags of setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Either: the value is created or replaced.
    Any,
    /// It must not exist (`XATTR_CREATE`).
    Create,
    /// It must exist (`XATTR_REPLACE`).
    Replace,
}

/// The value of an attribute by its full Linux name; `None` if the inode does not have it.
///
/// # Errors
/// [`Error::NotSupported`] for unknown namespaces.
pub(crate) fn get(fs: &Fs, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
    match names::target(name)? {
        Target::Plain(name) => areas::value(fs, inode, &name),
        Target::Acl(which) => acl::get(fs, inode, which),
    }
}

/// Full Linux names of the attributes that are visible to programs.
pub(crate) fn list(fs: &Fs, inode: &Inode) -> Result<Vec<Vec<u8>>> {
    let state = inode.read();
    let ibody = areas::ibody(&state)?;
    let block = areas::read_block(fs, &state)?;
    drop(state);
    let all = ibody
        .iter()
        .chain(block.iter().flat_map(|block| block.set.iter()));
    Ok(all
        .filter_map(|entry| names::listed(fs, &entry.name))
        .collect())
}

/// Rights of a caller that changes attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Whether quota limits apply.
    pub(crate) limits: Reserve,
    /// Whether a new block may be a reserved one.
    pub(crate) space: Reserve,
}

impl Rights {
    /// Unrestricted: for removals, updates that follow the mode, and new inodes. Removals and mode
    /// updates must not fail for lack of space for the copy of a shared block.
    pub(crate) const ALL: Self = Self {
        limits: Reserve::MayUse,
        space: Reserve::MayUse,
    };
}

/// Sets an attribute. Starts its own handle.
///
/// # Errors
/// [`Error::Exists`] and [`Error::NoAttribute`] by `mode`, [`Error::Range`] for a name that is too
/// long, [`Error::TooBig`] for a value over 64 KiB. [`Error::NoSpace`] if it fits nowhere or only
/// into reserved blocks, [`Error::Quota`] if it exceeds the limits, both by `rights`.
pub(crate) fn set(
    fs: &Fs,
    inode: &Arc<Inode>,
    name: &[u8],
    value: &[u8],
    mode: SetMode,
    setgid: Setgid,
    rights: Rights,
) -> Result<()> {
    if value.len() > VALUE_MAX_BYTES {
        return Err(Error::TooBig);
    }
    match names::target(name)? {
        Target::Plain(name) => change::set(fs, inode, &name, value, (mode, rights)),
        Target::Acl(which) => acl::set(fs, inode, which, value, setgid, rights),
    }
}

/// Removes an attribute. Starts its own handle.
///
/// # Errors
/// [`Error::NoAttribute`] if it does not exist.
pub(crate) fn remove(fs: &Fs, inode: &Arc<Inode>, name: &[u8]) -> Result<()> {
    match names::target(name)? {
        Target::Plain(name) => change::remove(fs, inode, &name),
        Target::Acl(which) => acl::remove(fs, inode, which),
    }
}

/// Drops the references of a freed inode on its block and on value inodes.
pub(crate) fn free_all(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    if !inode.read().has_xattrs() {
        return Ok(());
    }
    let mut refs = Refs::default();
    {
        let mut state = handle.write(inode);
        let none = XattrSet::new();
        change::store(fs, handle, &mut state, (&none, &none), &mut refs)?;
    }
    refs.apply(fs, handle)
}
