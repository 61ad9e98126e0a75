//! Extended attributes and POSIX access control lists of inodes.
//!
//! Layout: attributes stand in the inode behind its fields, then in one block, which inodes with
//! equal attributes share; with the feature `ea_inode` a value that fits neither has an inode of
//! its own. An attribute is in one of the two areas; the inode is tried first.
//!
//! Invariants: a block that more than one inode shares never changes, only its reference count
//! does. A value inode counts the entries that name it; the entries of a shared block count once.
//! Locking: the owner's state guards its own area and its reference on the block. The block's lock
//! is taken after it, one at a time. A value inode's state may be locked under its owner's: nobody
//! who holds a value inode's state takes another inode.
//! Not here: who may read or change attributes (`ops`).
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
pub(crate) use areas::has_any;
pub(crate) use change::transfer;
pub(crate) use expand::{ExtraIsize, expand};
pub(crate) use share::SharedBlocks;

use crate::inode::Inode;
use crate::space::Reserve;
use crate::{Error, Fs, Result};
use names::Target;
use refs::Refs;
use std::sync::Arc;
use uext4_format::xattr::XattrSet;
use uext4_journal::Handle;

/// The longest value that a program may set, in bytes.
pub(crate) const VALUE_MAX_BYTES: usize = 65536;

/// Whether the attribute has to exist before it is set (the flags of setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Set it in any case.
    Any,
    /// Only if it does not exist.
    Create,
    /// Only if it exists.
    Replace,
}

/// The value of an attribute by its full Linux name; `None` when the inode has none of the name.
///
/// # Errors
/// [`Error::NotSupported`] for namespaces that do not exist.
pub(crate) fn get(fs: &Fs, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
    match names::target(name)? {
        Target::Plain(name) => areas::value(fs, inode, &name),
        Target::Acl(which) => acl::get(fs, inode, which),
    }
}

/// Full Linux names of the attributes that programs see.
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

/// What holds for whoever changes attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Whether limits of quota do: for all but [`Reserve::Keep`] they do not.
    pub(crate) limits: Reserve,
    /// Whether a new block may be one of the reserved.
    pub(crate) space: Reserve,
}

impl Rights {
    /// Nothing holds: for what takes an attribute away or keeps one in step with the mode, which
    /// must not fail for want of the copy of a block that others share, and for new inodes.
    pub(crate) const ALL: Self = Self {
        limits: Reserve::MayUse,
        space: Reserve::MayUse,
    };
}

/// Sets an attribute. Starts a handle of its own.
///
/// # Errors
/// [`Error::Exists`] and [`Error::NoAttribute`] as `mode` asks, [`Error::Range`] for a name that is
/// too long, [`Error::TooBig`] for a value over 64 KiB, [`Error::NoSpace`] when it fits nowhere or
/// only into blocks that are reserved, [`Error::Quota`] when it takes more than limits leave, both
/// as `rights` says.
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

/// Takes an attribute away. Starts a handle of its own.
///
/// # Errors
/// [`Error::NoAttribute`] when there is none.
pub(crate) fn remove(fs: &Fs, inode: &Arc<Inode>, name: &[u8]) -> Result<()> {
    match names::target(name)? {
        Target::Plain(name) => change::remove(fs, inode, &name),
        Target::Acl(which) => acl::remove(fs, inode, which),
    }
}

/// The inode is being freed: gives its reference on the block back, and those on value inodes.
pub(crate) fn free_all(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    if !areas::has_any(&inode.read()) {
        return Ok(());
    }
    let mut refs = Refs::default();
    {
        let mut state = handle.write(inode);
        let none = XattrSet::new();
        change::store(fs, handle, &mut state, (&none, &none), &mut refs)?;
    }
    refs.settle(fs, handle)
}
