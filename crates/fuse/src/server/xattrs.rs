//! Extended attributes.

use super::{Handled, Server};
use crate::errno::Errno;
use crate::owners::Decides;
use crate::protocol::SETXATTR_ACL_KILL_SGID;
use crate::reply::Reply;
use crate::request::Request;
use std::borrow::Cow;
use uext4::{Caller, Checks, Error, InodeRef, SetAttr, SetMode};
use uext4_num::usize_of;

/// `setxattr(2)` flags.
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;
/// Always fails; the error depends on whether the attribute exists.
const XATTR_BOTH: u32 = XATTR_CREATE | XATTR_REPLACE;

/// The list that decides about access.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

impl Server {
    pub(super) fn setxattr(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let (size, flags) = (args.u32()?, args.u32()?);
        let mut more = 0;
        if self.agreement.long_setxattr() {
            more = args.u32()?;
            args.skip(4)?;
        }
        let name = args.name()?;
        let mut value = Cow::Borrowed(args.bytes(usize_of(size))?);
        if is_list(name) && !self.owners.are_same() {
            self.check_lists()?;
            self.owners.take_list(value.to_mut())?;
        }
        let inode = self.get(request.node)?;
        let caller = self.caller(request);
        let mode = match flags {
            0 => SetMode::Any,
            XATTR_CREATE => SetMode::Create,
            XATTR_REPLACE => SetMode::Replace,
            XATTR_BOTH => match self.filesystem.get_xattr(&inode, name, &caller) {
                Ok(_) => SetMode::Create,
                Err(_) => SetMode::Replace,
            },
            _ => return Err(Errno::EINVAL),
        };
        self.filesystem
            .set_xattr(&inode, name, &value, mode, &caller)?;
        let old_mode = self.filesystem.attr(&inode).mode;
        if more & SETXATTR_ACL_KILL_SGID != 0 && old_mode & 0o2000 != 0 {
            let set = SetAttr {
                mode: Some(old_mode & !0o2000),
                ..SetAttr::default()
            };
            self.filesystem.set_attr(&inode, &set, &caller)?;
        }
        Ok(())
    }

    fn check_lists(&self) -> Handled {
        if self.owners.hide_lists() {
            Err(Errno::EOPNOTSUPP)
        } else {
            Ok(())
        }
    }

    pub(super) fn getxattr(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (size, _) = (args.u32()?, args.u32()?);
        let inode = self.get(request.node)?;
        let name = args.name()?;
        let list = is_list(name);
        if list && self.owners.hide_lists() {
            return Err(Errno::ENODATA);
        }
        let mut value = match self.filesystem.get_xattr(&inode, name, &Self::reader()) {
            // With `noacl`. The kernel reads ACLs itself and would return the error to its caller;
            // after ENODATA it checks the mode bits.
            Err(Error::NotSupported(_)) if list => return Err(Errno::ENODATA),
            found => found?,
        };
        if list && !self.owners.are_same() {
            if name == ACCESS_LIST {
                let gid = self.filesystem.attr(&inode).gid;
                self.owners.restrict_list(&mut value, gid);
            }
            self.owners.show_list(&mut value)?;
        }
        put_value(reply, size, &value)
    }

    /// What the kernel asks for the rights of the inode's group.
    pub(super) fn decides(&self, inode: &InodeRef) -> Decides {
        if self.owners.hide_lists() {
            return Decides::Mode;
        }
        match (self.filesystem).get_xattr(inode, ACCESS_LIST, &Self::reader()) {
            Ok(_) => Decides::List,
            Err(_) => Decides::Mode,
        }
    }

    /// A caller that reads any attribute. The kernel lets only the superuser ask for `trusted.*`.
    fn reader() -> Caller {
        Caller {
            checks: Checks::Done,
            ..Caller::root()
        }
    }

    /// Shows `trusted.*` names only to the superuser, as the kernel's ext4 does.
    pub(super) fn listxattr(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let size = request.args().u32()?;
        let inode = self.get(request.node)?;
        let mut list = Vec::new();
        let names = self.filesystem.list_xattrs(&inode, &request.caller(0))?;
        let keeps_secrets = names.iter().any(|name| is_secret(name)) && !self.is_superuser(request);
        for name in names {
            let hides_list = is_list(&name) && self.owners.hide_lists();
            let is_hidden = hides_list || (keeps_secrets && is_secret(&name));
            if !is_hidden {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        put_value(reply, size, &list)
    }

    pub(super) fn removexattr(&self, request: &Request<'_>) -> Handled {
        let inode = self.get(request.node)?;
        let name = request.args().name()?;
        if is_list(name) {
            self.check_lists()?;
        }
        Ok(self
            .filesystem
            .remove_xattr(&inode, name, &self.caller(request))?)
    }
}

fn is_secret(name: &[u8]) -> bool {
    name.starts_with(b"trusted.")
}

/// Whether an attribute is an access control list.
fn is_list(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// A size of 0 asks for the length only.
fn put_value(reply: &mut Reply, size: u32, value: &[u8]) -> Handled {
    if size == 0 {
        reply.u32(u32::try_from(value.len()).map_err(|_| Errno::ERANGE)?);
        reply.u32(0);
    } else if value.len() > usize_of(size) {
        return Err(Errno::ERANGE);
    } else {
        reply.put(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_rules_of_getxattr() {
        let mut reply = Reply::new(0);
        assert_eq!(put_value(&mut reply, 0, b"four"), Ok(()));
        assert_eq!(reply.body(), [4, 0, 0, 0, 0, 0, 0, 0]);
        reply.clear();
        assert_eq!(put_value(&mut reply, 4, b"four"), Ok(()));
        assert_eq!(reply.body(), b"four");
        reply.clear();
        assert_eq!(put_value(&mut reply, 3, b"four"), Err(Errno::ERANGE));
    }
}
