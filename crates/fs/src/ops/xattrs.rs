//! Extended attributes by their Linux names (`user.`, `trusted.`, `security.`, `system.`).

use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::xattr::{self, Rights, SetMode, Setgid};
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::state::quota;
use crate::types::attr::{Caller, Checks};
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::FileType;

impl Filesystem {
    /// Value of the attribute; [`Error::NoAttribute`] if it is not set.
    pub fn get_xattr(&self, inode: &InodeRef, name: &[u8], caller: &Caller) -> Result<Vec<u8>> {
        self.run(|fs| {
            check_read(fs, inode, name, caller)?;
            xattr::get(fs, inode, name)?.ok_or(Error::NoAttribute)
        })
    }

    /// Names of all attributes that `caller` may see.
    pub fn list_xattrs(&self, inode: &InodeRef, caller: &Caller) -> Result<Vec<Vec<u8>>> {
        self.run(|fs| {
            let mut names = xattr::list(fs, inode)?;
            if !caller.is_superuser() && caller.checks == Checks::Library {
                names.retain(|name| !name.starts_with(b"trusted."));
            }
            Ok(names)
        })
    }

    /// Sets the attribute, which `mode` may require to exist or not to exist.
    pub fn set_xattr(
        &self,
        inode: &InodeRef,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
        caller: &Caller,
    ) -> Result<()> {
        self.change(|fs| {
            check_write(fs, inode, name, caller)?;
            let gid = inode.read().disk.gid;
            let trusted = caller.checks == Checks::Done || caller.is_superuser();
            let keep = trusted || caller.in_group(gid);
            let setgid = if keep { Setgid::Keep } else { Setgid::Clear };
            let rights = Rights {
                limits: quota::rights_of(caller),
                space: fs.reserve_of(caller),
            };
            xattr::set(fs, inode.arc(), name, value, mode, setgid, rights)?;
            fs.sync_if_asked(inode)
        })
    }

    /// Removes the attribute, if `caller` may change it.
    pub fn remove_xattr(&self, inode: &InodeRef, name: &[u8], caller: &Caller) -> Result<()> {
        self.change(|fs| {
            check_write(fs, inode, name, caller)?;
            xattr::remove(fs, inode.arc(), name)?;
            fs.sync_if_asked(inode)
        })
    }
}

fn check_read(fs: &Fs, inode: &InodeRef, name: &[u8], caller: &Caller) -> Result<()> {
    if name.starts_with(b"user.") {
        check_user(fs, inode, caller, Want::READ)?;
    }
    if name.starts_with(b"trusted.") && !caller.is_superuser() {
        return Err(Error::NoAttribute);
    }
    Ok(())
}

fn check_write(fs: &Fs, inode: &InodeRef, name: &[u8], caller: &Caller) -> Result<()> {
    fs.may_change(inode)?;
    if inode
        .read()
        .disk
        .flags
        .contains(uext4_format::InodeFlags::APPEND)
    {
        return Err(Error::NotPermitted);
    }
    if caller.checks == Checks::Done {
        return Ok(());
    }
    if name.starts_with(b"user.") {
        return check_user(fs, inode, caller, Want::WRITE);
    }
    // Only directories have default ACLs, for any caller.
    if name == b"system.posix_acl_default" && !inode.is_dir() {
        return Ok(());
    }
    if name.starts_with(b"system.posix_acl_") {
        return fs.may_administer(inode, caller);
    }
    if caller.is_superuser() {
        Ok(())
    } else {
        Err(Error::NotPermitted)
    }
}

/// User attributes exist on regular files and directories only, and follow the file's permissions.
fn check_user(fs: &Fs, inode: &InodeRef, caller: &Caller, want: Want) -> Result<()> {
    if !fs.base.settings.has(Switch::UserXattr) {
        return Err(Error::NotSupported("user attributes on this mount"));
    }
    let allowed = matches!(inode.kind(), FileType::Regular | FileType::Directory);
    if !allowed {
        let reading = want == Want::READ;
        return Err(if reading {
            Error::NoAttribute
        } else {
            Error::NotPermitted
        });
    }
    if want == Want::WRITE && inode.is_dir() && inode.read().disk.mode & 0o1000 != 0 {
        fs.may_administer(inode, caller)?;
    }
    fs.may(inode, caller, want)
}
