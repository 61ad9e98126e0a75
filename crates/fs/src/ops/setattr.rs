//! Changes of attributes.

use super::attr::attr_of;
use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::{file, quota_files, xattr};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef, flags};
use crate::state::quota::{self, Claim, Owners};
use crate::types::attr::{Attr, Caller, Checks, SetAttr, SetTime};
use crate::types::credits;
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::{Feature, FileType, InodeFlags, Timestamp};
use uext4_journal::{FullReason, Handle};

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;

impl Filesystem {
    /// Changes the attributes in `set`; returns the new ones.
    pub fn set_attr(&self, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<Attr> {
        self.change(|fs| {
            fs.writable()?;
            check(fs, inode, set, caller)?;
            if let Some(size) = set.size_bytes {
                resize(fs, inode, size)?;
            }
            apply(fs, inode, set, caller)?;
            fs.sync_if_asked(inode)?;
            Ok(attr_of(fs, inode))
        })
    }
}

fn check(fs: &Fs, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<()> {
    check_project(fs, inode, set)?;
    check_generation(fs, set)?;
    let flags = inode.read().disk.flags;
    let owner_only = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    let changes = owner_only || set.size_bytes.is_some() || set.project.is_some();
    let touches = set.atime.is_some() || set.mtime.is_some();
    // A cache above writes back the times of data that it accepted earlier. It also sends a change
    // time with changes that it did not check, such as a new mode.
    let from_cache = caller.checks == Checks::Done && set.ctime.is_some();
    let written_back = from_cache && !changes && set.atime.is_none();
    if flags.contains(InodeFlags::IMMUTABLE) && (changes || touches) && !written_back {
        return Err(Error::NotPermitted);
    }
    let fixed = owner_only || set.size_bytes.is_some() || chooses_times(set);
    if flags.contains(InodeFlags::APPEND) && fixed && !written_back {
        return Err(Error::NotPermitted);
    }
    match caller.checks {
        Checks::Library => check_caller(fs, inode, set, caller),
        Checks::Done => Ok(()),
    }
}

/// Whether explicit times are set: not if they stay, or if both become the current time (`touch`).
/// For a cache above that keeps the times, the change time is the current time.
fn chooses_times(set: &SetAttr) -> bool {
    let is_now = set.mtime == Some(SetTime::Now) || set.mtime == set.ctime.map(SetTime::At);
    let touch = set.atime == Some(SetTime::Now) && set.mtime.is_some() && is_now;
    (set.atime.is_some() || set.mtime.is_some()) && !touch
}

fn check_caller(fs: &Fs, inode: &InodeRef, set: &SetAttr, caller: &Caller) -> Result<()> {
    if set.size_bytes.is_some() {
        fs.may(inode, caller, Want::WRITE)?;
    }
    check_chown(inode, set, caller)?;
    let others = set.flags.is_some() || set.project.is_some() || set.generation.is_some();
    if set.mode.is_some() || others || chooses_times(set) {
        return fs.may_administer(inode, caller);
    }
    if set.atime.is_some() {
        let owner = fs.may_administer(inode, caller);
        return owner.or_else(|_| fs.may(inode, caller, Want::WRITE));
    }
    Ok(())
}

/// The owner may change the group to one of their own; only the superuser changes the owner.
fn check_chown(inode: &Inode, set: &SetAttr, caller: &Caller) -> Result<()> {
    let state = inode.read();
    let owner = caller.uid == state.disk.uid;
    let gives_away = set.uid.is_some_and(|new| !owner || new != state.disk.uid);
    let foreign_group = set
        .gid
        .is_some_and(|new| !owner || new != state.disk.gid && !caller.in_group(new));
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
    let owners = new_owners(&inode.read().disk, set);
    // The current owners hold the quota reservation of delayed data.
    let _nothing_waits = file::write_out_before_chown(fs, inode.arc(), owners);
    let _claim = reserve_owners_quota(fs, inode, owners, caller)?;
    let handle = fs.start(credits::ATTRIBUTES + credits::XATTR)?;
    let is_plain = set.flags.is_none() && set.project.is_none() && set.generation.is_none();
    if inode.is_dir() {
        handle.require_full(FullReason::Directory);
    } else if is_plain {
        handle.promise_records();
    }
    let mode = new_mode(inode, set, caller);
    let flags = new_flags(inode, set, caller)?;
    if let Some(mode) = mode.filter(|_| set.mode.is_some() && fs.base.settings.has(Switch::Acl)) {
        xattr::chmod_acl(fs, &handle, inode.arc(), mode)?;
    }
    xattr::expand(fs, &handle, inode.arc())?;
    change(fs, &handle, inode, set, New { mode, flags, now })
}

/// The mode after the change: as requested, without setuid and setgid after a change of owner or
/// size, and without setgid after a chmod by a caller outside the group.
fn new_mode(inode: &Inode, set: &SetAttr, caller: &Caller) -> Option<u16> {
    let state = inode.read();
    let old = state.disk.mode & 0o7777;
    let checked = caller.checks == Checks::Library;
    let outsider = |gid| checked && !caller.is_superuser() && !caller.in_group(gid);
    if let Some(mode) = set.mode {
        let gid = set.gid.unwrap_or(state.disk.gid);
        return Some(mode & 0o7777 & if outsider(gid) { !SET_GID } else { 0o7777 });
    }
    let chown = set.uid.is_some() || set.gid.is_some();
    let resized = set.size_bytes.is_some() && checked && !caller.is_superuser();
    let directory = state.disk.file_type() == Some(FileType::Directory);
    if directory || !(chown || resized) {
        return None;
    }
    let mut mode = old & !SET_UID;
    if old & GROUP_EXECUTES != 0 || outsider(state.disk.gid) {
        mode &= !SET_GID;
    }
    (mode != old).then_some(mode)
}

fn new_flags(inode: &Inode, set: &SetAttr, caller: &Caller) -> Result<Option<InodeFlags>> {
    let kind = inode.kind();
    let old = inode.read().disk.flags;
    set.flags
        .map(|wanted| flags::changed(old, wanted, kind, caller))
        .transpose()
}

/// Values computed from a request.
struct New {
    mode: Option<u16>,
    flags: Option<InodeFlags>,
    now: Timestamp,
}

fn change(fs: &Fs, handle: &Handle<'_>, inode: &InodeRef, set: &SetAttr, new: New) -> Result<()> {
    let New { mode, flags, now } = new;
    let mut state = handle.write(inode.arc());
    if flags.is_none() && set.generation.is_none() {
        state.only_attributes();
    }
    let owners = new_owners(&state.disk, set);
    xattr::transfer(fs, handle, &state, owners)?;
    let disk = &mut state.disk;
    if let Some(mode) = mode {
        disk.mode = (disk.mode & !0o7777) | mode;
    }
    (disk.uid, disk.gid) = (owners.user, owners.group);
    let time = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(at) => at,
    };
    if let Some(atime) = set.atime {
        disk.set_atime(time(atime));
    }
    if let Some(mtime) = set.mtime {
        disk.set_mtime(time(mtime));
    }
    disk.set_ctime(set.ctime.unwrap_or(now));
    disk.flags = flags.unwrap_or(disk.flags);
    disk.projid = owners.project;
    disk.generation = set.generation.unwrap_or(disk.generation);
    Ok(())
}

/// The owners of the inode after the change.
fn new_owners(disk: &uext4_format::Inode, set: &SetAttr) -> Owners {
    Owners {
        user: set.uid.unwrap_or(disk.uid),
        group: set.gid.unwrap_or(disk.gid),
        project: set.project.unwrap_or(disk.projid),
    }
}

/// Ensures quota entries for the new owners, and reserves quota for the inode's usage.
fn reserve_owners_quota(fs: &Fs, inode: &Inode, to: Owners, caller: &Caller) -> Result<Claim> {
    if !fs.quota.is_on() {
        return Ok(Claim::default());
    }
    let kept = quota_files::ensure(fs, to)?;
    let (from, sectors) = {
        let disk = &inode.read().disk;
        (Owners::of(disk), disk.sectors(&fs.base.geometry))
    };
    let rights = quota::rights_of(caller);
    let claim = fs
        .quota
        .claim_transfer(&fs.base, (from, to), sectors << 9, rights)?;
    Ok(claim.with(kept))
}

fn check_project(fs: &Fs, inode: &Inode, set: &SetAttr) -> Result<()> {
    let can = fs.base.features.has(Feature::PROJECT) && inode.read().disk.has_projid();
    if set.project.is_some() && !can {
        let problem = "project ids without the feature project";
        return Err(Error::NotSupported(problem));
    }
    Ok(())
}

/// The checksums of all structures of the inode include its generation.
fn check_generation(fs: &Fs, set: &SetAttr) -> Result<()> {
    if set.generation.is_some() && fs.base.features.has(Feature::METADATA_CSUM) {
        let problem = "a new generation with the feature metadata_csum";
        return Err(Error::NotSupported(problem));
    }
    Ok(())
}
