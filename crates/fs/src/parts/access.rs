//! Access control: mode bits, POSIX ACLs, sticky directories, inode flags.
//!
//! References: `path_resolution(7)`, `acl(5)`; the rules are Linux's.

use crate::parts::xattr;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, PublishedAttrs};
use crate::state::space::Reserve;
use crate::types::attr::{Caller, Checks};
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::acl::Subject;
use uext4_format::{FileType, InodeFlags};

/// Requested access: a set of permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want(pub(crate) u16);

impl Want {
    /// Existence only: `F_OK` of access(2).
    pub const EXIST: Want = Want(0);
    /// Read a file, or list a directory.
    pub const READ: Want = Want(4);
    /// Write a file, or change the names of a directory.
    pub const WRITE: Want = Want(2);
    /// Execute, or search a directory.
    pub const EXECUTE: Want = Want(1);

    /// The union of both sets.
    pub const fn and(self, other: Want) -> Want {
        Want(self.0 | other.0)
    }
}

impl Fs {
    /// Returns `Access` unless `caller` may do `want` with `inode`. For writes that are refused to
    /// every caller, returns `NotPermitted` or `ReadOnly`.
    pub(crate) fn may(&self, inode: &Inode, caller: &Caller, want: Want) -> Result<()> {
        let writes = want.0 & Want::WRITE.0 != 0;
        if writes {
            self.writable()?;
        }
        // Runs for every directory on every path: one read of the facts, without the inode's lock.
        let facts = inode.facts();
        if writes && facts.flags.contains(InodeFlags::IMMUTABLE) {
            return Err(Error::NotPermitted);
        }
        if caller.checks == Checks::Done {
            return Ok(());
        }
        if self.asks_acl(inode, &facts, caller) {
            return self.may_by_acl(inode, caller, want);
        }
        let granted = class_bits(&facts, caller) & want.0 == want.0;
        grant(granted, &facts, caller, want)
    }

    fn may_by_acl(&self, inode: &Inode, caller: &Caller, want: Want) -> Result<()> {
        let acl = xattr::access_acl(self, inode)?;
        let facts = inode.facts();
        let granted = match acl {
            Some(acl) => {
                let gids = group_list(caller);
                let subject = Subject {
                    uid: caller.uid,
                    gids: &gids,
                };
                acl.allows(subject, facts.uid, facts.gid, want.0)
            }
            None => class_bits(&facts, caller) & want.0 == want.0,
        };
        grant(granted, &facts, caller, want)
    }

    /// Whether the ACL is evaluated: not for the owner (bits in the mode decide), and not when the
    /// group bits of the mode, which hold the ACL mask, are all clear.
    fn asks_acl(&self, inode: &Inode, facts: &PublishedAttrs, caller: &Caller) -> bool {
        if !self.base.settings.has(Switch::Acl) || inode.lacks_acl() {
            return false;
        }
        facts.uid != caller.uid && facts.mode & 0o070 != 0
    }

    /// Whether `caller` may use the blocks reserved for the superuser: if it is the superuser, or
    /// `resuid` or `resgid` name it. Only the superuser has no quota limits.
    pub(crate) fn reserve_of(&self, caller: &Caller) -> Reserve {
        let gid = self.base.settings.reserved_gid().filter(|gid| *gid != 0);
        let listed = self.base.settings.reserved_uid() == Some(caller.uid)
            || gid.is_some_and(|gid| caller.in_group(gid));
        match (caller.is_superuser(), listed) {
            (true, _) => Reserve::MayUse,
            (false, true) => Reserve::Named,
            (false, false) => Reserve::Keep,
        }
    }

    /// Returns `NotPermitted` for an immutable inode, and `ReadOnly` on a read-only mount.
    pub(crate) fn may_change(&self, inode: &Inode) -> Result<()> {
        self.writable()?;
        if inode.read().disk.flags.contains(InodeFlags::IMMUTABLE) {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    /// Requires write and search permission on the directory. In a sticky directory, only the owner
    /// of the file or of the directory removes a name.
    pub(crate) fn may_delete(&self, parent: &Inode, target: &Inode, caller: &Caller) -> Result<()> {
        self.may(parent, caller, Want::WRITE.and(Want::EXECUTE))?;
        let append_only = InodeFlags::APPEND;
        let (sticky, parent_owner) = {
            let facts = parent.facts();
            if facts.flags.contains(append_only) {
                return Err(Error::NotPermitted);
            }
            (facts.mode & 0o1000 != 0, facts.uid)
        };
        let owner = {
            let state = target.read();
            let fixed = state.disk.flags.contains(append_only)
                || state.disk.flags.contains(InodeFlags::IMMUTABLE);
            if fixed {
                return Err(Error::NotPermitted);
            }
            state.disk.uid
        };
        let free = caller.checks == Checks::Done || caller.is_superuser();
        if !sticky || free || caller.uid == owner || caller.uid == parent_owner {
            return Ok(());
        }
        Err(Error::NotPermitted)
    }

    /// Only the owner and the superuser change attributes.
    pub(crate) fn may_administer(&self, inode: &Inode, caller: &Caller) -> Result<()> {
        let free = caller.checks == Checks::Done || caller.is_superuser();
        if free || inode.read().disk.uid == caller.uid {
            return Ok(());
        }
        Err(Error::NotPermitted)
    }
}

fn grant(by_rights: bool, facts: &PublishedAttrs, caller: &Caller, want: Want) -> Result<()> {
    if by_rights || superuser_may(facts, caller, want) {
        Ok(())
    } else {
        Err(Error::Access)
    }
}

/// The mode of a regular file after a change by an unprivileged `caller`: without setuid, and
/// without setgid if the group may execute the file or the caller is not a member of `gid`.
pub(crate) fn without_privileges(mode: u16, gid: u32, caller: &Caller) -> u16 {
    const SET_UID: u16 = 0o4000;
    const SET_GID: u16 = 0o2000;
    const GROUP_EXECUTES: u16 = 0o010;
    let goes = mode & GROUP_EXECUTES != 0 || !caller.in_group(gid);
    let set_gid = if goes { SET_GID } else { 0 };
    mode & !(SET_UID | set_gid)
}

fn group_list(caller: &Caller) -> Vec<u32> {
    let mut groups = caller.groups.clone();
    groups.push(caller.gid);
    groups
}

fn class_bits(facts: &PublishedAttrs, caller: &Caller) -> u16 {
    let mode = facts.mode;
    if caller.uid == facts.uid {
        (mode >> 6) & 7
    } else if caller.in_group(facts.gid) {
        (mode >> 3) & 7
    } else {
        mode & 7
    }
}

/// The superuser reads and writes every file, searches every directory, and executes a file that
/// has any execute bit.
fn superuser_may(facts: &PublishedAttrs, caller: &Caller, want: Want) -> bool {
    let directory = facts.file_type() == Some(FileType::Directory);
    let executes = want.0 & Want::EXECUTE.0 != 0;
    caller.is_superuser() && (directory || !executes || facts.mode & 0o111 != 0)
}
