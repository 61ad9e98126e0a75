//! POSIX ACLs of inodes: the attributes, the mode that mirrors them, and inheritance.
//!
//! Every permission check asks for the access ACL, so its absence is cached in [`Inode`]; a change
//! of attributes clears the cached fact under the state's lock.

use super::Rights;
use super::change::{self, Edit};
use super::{SetMode, areas, value};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState, NewInode};
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::acl::{Acl, NewFile};
use uext4_format::xattr::{NameIndex, XattrName, XattrValue};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, FileType};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Permission bits that an ACL mirrors.
const PERMISSION_BITS: u16 = 0o777;

const SETGID: u16 = 0o2000;

/// Treatment of the setgid bit when an access ACL is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setgid {
    Keep,
    /// It is cleared: the caller does not belong to the file's group.
    Clear,
}

/// One of the two ACLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The access list: permissions of the inode.
    Access,
    /// Template for new files in the directory.
    Default,
}

impl Which {
    fn name(self) -> XattrName {
        let index = match self {
            Which::Access => NameIndex::POSIX_ACL_ACCESS,
            Which::Default => NameIndex::POSIX_ACL_DEFAULT,
        };
        XattrName::new(index, b"")
    }
}

/// Mode and ACLs of a new file.
pub(crate) struct Inherited {
    /// The permission bits (`0o777`), after the umask or the default ACL.
    pub(crate) mode: u16,
    access: Option<Acl>,
    default: Option<Acl>,
}

fn check_enabled(fs: &Fs, inode: &Inode) -> Result<()> {
    if fs.base.settings.has(Switch::Acl) && inode.kind() != FileType::Symlink {
        return Ok(());
    }
    Err(Error::NotSupported("access control lists here"))
}

/// The ACL in the format of programs.
pub(super) fn get(fs: &Fs, inode: &Inode, which: Which) -> Result<Option<Vec<u8>>> {
    check_enabled(fs, inode)?;
    Ok(load(fs, inode, which)?.map(|acl| acl.to_xattr()))
}

fn parse(inode: &Inode, bytes: &[u8]) -> Result<Option<Acl>> {
    let problem = CorruptKind::NoAcl;
    let bad = Corrupt::new(
        DamageLocation::Inode(inode.nr()),
        "access control list",
        problem,
    );
    Acl::from_disk(bytes).map_err(|_| bad.into())
}

fn load(fs: &Fs, inode: &Inode, which: Which) -> Result<Option<Acl>> {
    match areas::value(fs, inode, &which.name())? {
        Some(bytes) => parse(inode, &bytes),
        None => Ok(None),
    }
}

/// The access ACL, if the inode has one. Without I/O and parsing if its absence is cached.
pub(crate) fn access_acl(fs: &Fs, inode: &Inode) -> Result<Option<Acl>> {
    if inode.lacks_acl() {
        return Ok(None);
    }
    let held = {
        let state = inode.read();
        match areas::find(fs, &state, &Which::Access.name())? {
            None => {
                inode.set_no_acl(&state);
                return Ok(None);
            }
            Some(XattrValue::Here(bytes)) => return parse(inode, &bytes),
            Some(XattrValue::Inode { inode, size, .. }) => value::open(fs, &state, inode, size)?,
        }
    };
    parse(inode, &held.read(fs)?)
}

/// Sets an ACL from the value that a program passes.
pub(super) fn set(
    fs: &Fs,
    inode: &Arc<Inode>,
    which: Which,
    value: &[u8],
    setgid: Setgid,
    rights: Rights,
) -> Result<()> {
    check_enabled(fs, inode)?;
    if value.is_empty() {
        return remove(fs, inode, which);
    }
    let acl = Acl::from_xattr(value).map_err(|_| Error::Invalid("access control list"))?;
    let Some(acl) = acl else {
        return remove(fs, inode, which);
    };
    let name = which.name();
    let disk = acl.to_disk();
    match which {
        Which::Default if !inode.is_dir() => Err(Error::Access),
        Which::Default => change::set(fs, inode, &name, &disk, (SetMode::Any, rights)),
        Which::Access => {
            let mode = acl.mode_bits();
            let set_mode = move |state: &mut InodeState| set_permissions(fs, state, mode, setgid);
            if acl.is_equivalent_to_mode() {
                let edit = Edit {
                    name: &name,
                    value: None,
                    mode: SetMode::Any,
                    was: None,
                    rights,
                };
                return change::run(fs, inode, edit, &set_mode);
            }
            change::set_with(fs, inode, &name, &disk, (SetMode::Any, rights), set_mode)
        }
    }
}

fn set_permissions(fs: &Fs, state: &mut InodeState, mode: u16, setgid: Setgid) {
    let mut new = (state.disk.mode & !PERMISSION_BITS) | mode;
    if setgid == Setgid::Clear {
        new &= !SETGID;
    }
    if new != state.disk.mode {
        state.disk.mode = new;
        state.disk.set_ctime(fs.now());
    }
}

/// Removes an ACL; a missing one is no error.
pub(super) fn remove(fs: &Fs, inode: &Arc<Inode>, which: Which) -> Result<()> {
    check_enabled(fs, inode)?;
    if which == Which::Default && !inode.is_dir() {
        return Ok(());
    }
    let name = which.name();
    change::run(
        fs,
        inode,
        Edit {
            name: &name,
            value: None,
            mode: SetMode::Any,
            was: None,
            rights: Rights::ALL,
        },
        &|_| {},
    )
}

/// Updates the access ACL after a chmod to `mode`, in the caller's handle. The caller sets the
/// mode.
pub(crate) fn chmod_acl(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>, mode: u16) -> Result<()> {
    let name = Which::Access.name();
    while let Some(acl) = access_acl(fs, inode)? {
        let was = XattrValue::Here(acl.to_disk());
        let value = Some(XattrValue::Here(acl.with_mode(mode).to_disk()));
        let edit = Edit {
            name: &name,
            value,
            mode: SetMode::Replace,
            was: Some(&was),
            rights: Rights::ALL,
        };
        match change::run_in(fs, handle, inode, edit, &|_| {}) {
            // Another thread set an ACL since this one was read.
            Err(Error::Busy | Error::NoAttribute) => {}
            done => return done,
        }
    }
    Ok(())
}

fn put(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>, which: Which, acl: &Acl) -> Result<()> {
    let value = Some(XattrValue::Here(acl.to_disk()));
    let edit = Edit {
        name: &which.name(),
        value,
        mode: SetMode::Any,
        was: None,
        rights: Rights::ALL,
    };
    change::run_in(fs, handle, inode, edit, &|_| {})
}

/// Mode and ACLs of a new file in `parent`: from the default ACL, or else the umask.
pub(crate) fn inherit_acl(
    fs: &Fs,
    parent: &Inode,
    new: &NewInode<'_>,
    umask: u16,
) -> Result<Inherited> {
    let plain = |mode| Inherited {
        mode: mode & PERMISSION_BITS,
        access: None,
        default: None,
    };
    if new.kind == FileType::Symlink {
        return Ok(plain(new.mode));
    }
    let default = if fs.base.settings.has(Switch::Acl) {
        default_acl(fs, parent)?
    } else {
        None
    };
    let Some(default) = default else {
        return Ok(plain(new.mode & !umask));
    };
    let directory = new.kind == FileType::Directory;
    let kind = if directory {
        NewFile::Directory
    } else {
        NewFile::Other
    };
    let lists = default.inherit(new.mode, kind);
    let mode = lists.mode & PERMISSION_BITS;
    Ok(Inherited {
        mode,
        access: lists.access,
        default: lists.default,
    })
}

fn default_acl(fs: &Fs, parent: &Inode) -> Result<Option<Acl>> {
    if !parent.facts().has_xattrs {
        return Ok(None);
    }
    load(fs, parent, Which::Default)
}

/// Stores the ACLs of a new inode, in the handle that creates it.
pub(crate) fn store_inherited(
    fs: &Fs,
    handle: &Handle<'_>,
    inode: &Arc<Inode>,
    acl: &Inherited,
) -> Result<()> {
    if let Some(default) = &acl.default {
        put(fs, handle, inode, Which::Default, default)?;
    }
    if let Some(access) = &acl.access {
        put(fs, handle, inode, Which::Access, access)?;
    }
    Ok(())
}
