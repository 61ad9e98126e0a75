//! Changing attributes.

use crate::access::Want;
use crate::attr::{Checks, SetTime};
use crate::inode::{Inode, attr_of};
use crate::{Attr, Caller, Error, Filesystem, Fs, InodeRef, Result, SetAttr, credits, file, xattr};
use uext4_format::{FileType, InodeFlags, Timestamp};
use uext4_journal::Handle;

/// Flags that `chattr` may set and clear; the others say how the inode is stored.
const USER_FLAGS: u32 = 0x000B_80FF & !0x0000_0004 | 0x2000_0000 | 0x0000_0100;
/// Setuid and setgid.
const SET_ID: u16 = 0o6000;

impl Filesystem {
    /// Changes attributes as `set` says; answers the new ones.
    pub fn set_attr(&self, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<Attr> {
        self.run(|fs| {
            fs.writable()?;
            check(fs, inode, set, caller)?;
            if let Some(size) = set.size_bytes {
                resize(fs, inode, size)?;
            }
            apply(fs, inode, set, caller)?;
            Ok(attr_of(fs, inode))
        })
    }
}

fn check(fs: &Fs, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<()> {
    let flags = inode.read().disk.flags;
    let only_flags = set.mode.is_none()
        && set.uid.is_none()
        && set.gid.is_none()
        && set.size_bytes.is_none()
        && set.atime.is_none()
        && set.mtime.is_none();
    if flags.contains(InodeFlags::IMMUTABLE) && !only_flags {
        return Err(Error::NotPermitted);
    }
    let shrinks_or_stamps = set.size_bytes.is_some()
        || matches!(set.mtime, Some(SetTime::At(_)))
        || set.mode.is_some()
        || set.uid.is_some()
        || set.gid.is_some();
    if flags.contains(InodeFlags::APPEND) && shrinks_or_stamps {
        return Err(Error::NotPermitted);
    }
    if caller.checks == Checks::Library {
        check_caller(fs, inode, set, caller)?;
    }
    Ok(())
}

fn check_caller(fs: &Fs, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<()> {
    let stamps = matches!(set.atime, Some(SetTime::At(_))) || matches!(set.mtime, Some(SetTime::At(_)));
    if set.mode.is_some() || set.flags.is_some() || set.project.is_some() || stamps {
        fs.may_administer(inode, caller)?;
    } else if set.atime.is_some() || set.mtime.is_some() {
        let owner = fs.may_administer(inode, caller);
        owner.or_else(|_| fs.may(inode, caller, Want::WRITE))?;
    }
    if set.size_bytes.is_some() {
        fs.may(inode, caller, Want::WRITE)?;
    }
    let (uid, gid) = {
        let state = inode.read();
        (state.disk.uid, state.disk.gid)
    };
    let gives_away = set.uid.is_some_and(|new| new != uid || caller.uid != uid);
    let foreign_group = set.gid.is_some_and(|new| {
        caller.uid != uid || (new != gid && !caller.in_group(new))
    });
    if !caller.is_superuser() && (gives_away || foreign_group) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

fn resize(fs: &Fs, inode: &InodeRef, size: u64) -> Result<()> {
    match inode.kind() {
        FileType::Regular => file::truncate(fs, inode.arc(), size),
        FileType::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("only a regular file has a size to set")),
    }
}

fn apply(fs: &Fs, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<()> {
    let now = fs.now();
    let handle = fs.start(credits::ATTRIBUTES + credits::XATTR)?;
    let mode = new_mode(inode, set, caller);
    if let Some(mode) = mode.filter(|_| set.mode.is_some() && fs.options.acl) {
        xattr::chmod_acl(fs, &handle, inode.arc(), mode)?;
    }
    change(fs, &handle, inode, set, mode, now)
}

/// The mode after the change: what is asked, with setuid and setgid taken away by a change of
/// owner, and setgid by a chmod of somebody outside the group.
fn new_mode(inode: &Inode, set: &SetAttr, caller: &Caller) -> Option<u16> {
    let state = inode.read();
    let kind = state.disk.file_type();
    let mut mode = set.mode.unwrap_or(state.disk.mode) & 0o7777;
    let chown = set.uid.is_some() || set.gid.is_some();
    if chown && set.mode.is_none() && kind != Some(FileType::Directory) {
        let group_executes = mode & 0o010 != 0;
        mode &= if group_executes { !SET_ID } else { !0o4000 };
    }
    let gid = set.gid.unwrap_or(state.disk.gid);
    let outsider = !caller.is_superuser() && !caller.in_group(gid);
    if set.mode.is_some() && caller.checks == Checks::Library && outsider {
        mode &= !0o2000;
    }
    let changed = mode != state.disk.mode & 0o7777;
    (changed || set.mode.is_some()).then_some(mode)
}

fn change(
    fs: &Fs,
    handle: &Handle<'_>,
    inode: &InodeRef,
    set: &SetAttr,
    mode: Option<u16>,
    now: Timestamp,
) -> Result<()> {
    let mut state = handle.write(inode.arc());
    let disk = &mut state.disk;
    if let Some(mode) = mode {
        disk.mode = (disk.mode & !0o7777) | mode;
    }
    disk.uid = set.uid.unwrap_or(disk.uid);
    disk.gid = set.gid.unwrap_or(disk.gid);
    let time = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(at) => at,
    };
    disk.atime = set.atime.map_or(disk.atime, time);
    disk.mtime = set.mtime.map_or(disk.mtime, time);
    disk.ctime = set.ctime.unwrap_or(now);
    if let Some(flags) = set.flags {
        check_flags(disk.flags.0, flags)?;
        disk.flags = InodeFlags((disk.flags.0 & !USER_FLAGS) | (flags & USER_FLAGS));
    }
    if let Some(project) = set.project {
        if !fs.features.has(uext4_format::Feature::PROJECT) || !disk.has_projid() {
            return Err(Error::NotSupported("project ids without the feature project"));
        }
        disk.projid = project;
    }
    Ok(())
}

/// Flags that a user may not change must stay as they are.
fn check_flags(old: u32, new: u32) -> Result<()> {
    let ignored = !USER_FLAGS;
    if (old ^ new) & ignored & 0x0008_0000 != 0 {
        return Err(Error::NotSupported("changing how a file maps its blocks"));
    }
    Ok(())
}
