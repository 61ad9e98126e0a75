//! Callers of requests, and the mapping of callers and owners between mount and image
//! ([`crate::owners`]).
//!
//! Where the mount may be idmapped ([`crate::init::Agreement::hides_callers`]), the kernel names no
//! caller. A request that creates an inode names its owner instead, in ids of the image, which says
//! nothing about rights: the superuser of a container may be the owner 0. Rights, which are those
//! to reserved space, to exceed quota, and to a few ioctls, are taken from the process. It waits
//! for the answer, so its ids stay; one that cannot be seen has none. Whether a caller is in the
//! group of an inode cannot be known then, and only the superuser counts as a member.

use super::{Handled, Server, control};
use crate::errno::Errno;
use crate::owners::OVERFLOW;
use crate::protocol::opcode;
use crate::request::{NO_ID, Request};
use uext4::{Attr, Caller, InodeRef, NewOwner};

impl Server {
    /// Attributes of an inode with mapped owners.
    pub(super) fn shown(&self, inode: &InodeRef) -> Attr {
        self.show(inode, self.filesystem.attr(inode))
    }

    pub(super) fn show(&self, inode: &InodeRef, mut attr: Attr) -> Attr {
        if !self.owners.are_known(attr.uid, attr.gid) {
            let (ids, mode) = ((attr.uid, attr.gid), (attr.kind, attr.mode));
            attr.mode = self.owners.shown_mode(ids, mode, self.decides(inode));
        }
        (attr.uid, attr.gid) = self.owners.shown(attr.uid, attr.gid);
        attr
    }

    /// Caller of a request with its rights, mapped.
    pub(super) fn caller(&self, request: &Request<'_>) -> Caller {
        if self.agreement.hides_callers() {
            request.process()
        } else {
            self.inside(request.caller(0))
        }
    }

    /// As [`Self::caller`], with the current supplementary groups of the process.
    pub(super) fn caller_in_groups(&self, request: &Request<'_>) -> Caller {
        if self.agreement.hides_callers() {
            Caller {
                gid: NO_ID,
                groups: Vec::new(),
                ..request.process()
            }
        } else {
            self.inside(request.caller_in_groups())
        }
    }

    /// Whether the caller is the superuser.
    pub(super) fn is_superuser(&self, request: &Request<'_>) -> bool {
        self.caller(request).is_superuser()
    }

    /// Whether the caller may do what the owner of the inode may.
    pub(super) fn is_owner(&self, request: &Request<'_>, inode: &InodeRef) -> bool {
        let named = !self.agreement.hides_callers();
        self.is_superuser(request) || (named && request.uid == self.shown(inode).uid)
    }

    /// Capabilities stay those that the caller has outside.
    fn inside(&self, caller: Caller) -> Caller {
        if self.owners.are_same() {
            return caller;
        }
        let uid = match caller.uid {
            0 => 0,
            uid => self
                .owners
                .user_inside(uid)
                .filter(|&uid| uid != 0)
                .unwrap_or(OVERFLOW),
        };
        let gid = self.owners.group_inside(caller.gid).unwrap_or(OVERFLOW);
        let groups = self.groups_inside(&caller.groups);
        Caller {
            uid,
            gid,
            groups,
            ..caller
        }
    }

    fn groups_inside(&self, groups: &[u32]) -> Vec<u32> {
        let inside = groups.iter().map(|&gid| self.owners.group_inside(gid));
        inside.flatten().collect()
    }

    /// Caller of a request that creates an inode in `parent`, with the owner of the new inode.
    ///
    /// # Errors
    /// `EOVERFLOW`, as in the kernel, if no id inside maps to the caller.
    pub(super) fn maker(
        &self,
        request: &Request<'_>,
        umask: u32,
        parent: &InodeRef,
    ) -> Result<Caller, Errno> {
        let caller = request.caller(umask);
        let umask = caller.umask;
        if self.agreement.hides_callers() {
            let owner = NewOwner {
                uid: known_id(caller.uid)?,
                gid: known_id(caller.gid)?,
                groups: caller.groups,
            };
            return Ok(Caller {
                umask,
                owner: Some(owner),
                ..request.process()
            });
        }
        if self.owners.are_same() {
            return Ok(caller);
        }
        let attr = self.filesystem.attr(parent);
        let uid = if self.owners.take_user_of_directory() {
            Some(attr.uid)
        } else {
            self.owners.user_inside(caller.uid)
        };
        let gid = if self.owners.take_group_of_directory() {
            Some(attr.gid)
        } else {
            self.owners.group_inside(caller.gid)
        };
        let owner = NewOwner {
            uid: uid.ok_or(Errno::EOVERFLOW)?,
            gid: gid.ok_or(Errno::EOVERFLOW)?,
            groups: self.groups_inside(&caller.groups),
        };
        Ok(Caller {
            owner: Some(owner),
            ..self.inside(caller)
        })
    }

    /// Refuses changes to an inode with an unmapped owner, except to the superuser. The kernel
    /// takes the overflow id shown in its place for the owner.
    pub(super) fn check_known(&self, request: &Request<'_>) -> Handled {
        if request.uid == 0 || self.owners.are_same() {
            return Ok(());
        }
        let (first, second) = targets(request);
        for node in [first, second].into_iter().flatten() {
            let attr = self.filesystem.attr(&self.get(node)?);
            if !self.owners.are_known(attr.uid, attr.gid) {
                return Err(Errno::EACCES);
            }
        }
        self.check_victims(request)
    }

    /// As [`Self::check_known`], for a file that a request to create finds.
    pub(super) fn check_existing(&self, request: &Request<'_>, inode: &InodeRef) -> Handled {
        let attr = self.filesystem.attr(inode);
        if request.uid == 0 || self.owners.are_known(attr.uid, attr.gid) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    /// Checks the inodes whose names a request removes or replaces. The kernel locks both
    /// directories, so the names do not change until the request is served.
    fn check_victims(&self, request: &Request<'_>) -> Handled {
        let (first, second) = victims(request)?;
        for (node, name) in [first, second].into_iter().flatten() {
            let parent = self.get(node)?;
            let found = self.filesystem.lookup(&parent, name, &request.caller(0));
            let attr = match found {
                Ok(inode) => self.filesystem.attr(&inode),
                // The operation itself reports the error.
                Err(_) => continue,
            };
            if !self.owners.are_known(attr.uid, attr.gid) {
                return Err(Errno::EACCES);
            }
        }
        Ok(())
    }
}

fn known_id(id: u32) -> Result<u32, Errno> {
    Some(id).filter(|id| *id != NO_ID).ok_or(Errno::EOVERFLOW)
}

/// A name in the directory of a node.
type Name<'a> = (u64, &'a [u8]);

/// Names that a request removes or replaces.
fn victims<'a>(request: &Request<'a>) -> Result<(Option<Name<'a>>, Option<Name<'a>>), Errno> {
    let mut args = request.args();
    let to = match request.opcode {
        opcode::UNLINK | opcode::RMDIR => {
            return Ok((Some((request.node, args.name()?)), None));
        }
        opcode::RENAME => args.u64()?,
        opcode::RENAME2 => {
            let to = args.u64()?;
            args.skip(8)?;
            to
        }
        _ => return Ok((None, None)),
    };
    let from = Some((request.node, args.name()?));
    Ok((from, Some((to, args.name()?))))
}

/// Flags of `open(2)`.
const O_ACCMODE: u32 = 0o3;
const O_TRUNC: u32 = 0o1000;

/// Nodes that a request changes. Writes are exempt, since the open was checked.
fn targets(request: &Request<'_>) -> (Option<u64>, Option<u64>) {
    let node = Some(request.node);
    let mut args = request.args();
    match request.opcode {
        opcode::OPEN => {
            let writes = args
                .u32()
                .is_ok_and(|flags| flags & (O_ACCMODE | O_TRUNC) != 0);
            (node.filter(|_| writes), None)
        }
        opcode::IOCTL => (node.filter(|_| control::changes_inode(request)), None),
        opcode::RENAME | opcode::RENAME2 | opcode::LINK => (node, args.u64().ok()),
        opcode::SETATTR
        | opcode::SETXATTR
        | opcode::REMOVEXATTR
        | opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::CREATE
        | opcode::TMPFILE => (node, None),
        _ => (None, None),
    }
}
