//! Ioctls that the kernel forwards: inode flags, project ids, generation, trim, label. The kernel
//! checks the owner of the inode only for flags and project ids, and only for their exact numbers
//! ([`commands`]).
//!
//! Not here: ioctls that the kernel forwards without their argument are refused.
//! `EXT4_IOC_SHUTDOWN` is declared with `_IOR` (`uext4 shutdown` uses the control socket). Of the
//! structure of `EXT4_IOC_GETFSUUID` and `SETFSUUID` only the head arrives.
//! The kernel answers `FS_IOC_GETFSUUID` itself and refuses to freeze FUSE (`uext4 freeze`).

use super::commands::{self, native};
use super::{Handled, Server};
use crate::errno::Errno;
use crate::reply::Reply;
use crate::request::Request;
use uext4::{Attr, Error, InodeRef, SetAttr, Tuning};
use uext4_num::usize_of;

/// Bytes of `struct fstrim_range`.
const FSTRIM_RANGE_BYTES: usize = 24;
/// Size of the label of `GETFSLABEL` and `SETFSLABEL`, in bytes.
const FSLABEL_BYTES: usize = 256;

/// `FS_XFLAG_*` and the matching `FS_*_FL`.
const XFLAGS: &[(u32, u32)] = &[
    (0x0000_0008, 0x0000_0010),
    (0x0000_0010, 0x0000_0020),
    (0x0000_0020, 0x0000_0008),
    (0x0000_0040, 0x0000_0080),
    (0x0000_0080, 0x0000_0040),
    (0x0000_0200, 0x2000_0000),
    (0x0000_8000, 0x0200_0000),
];
/// Bytes of `struct fsxattr`.
const FSXATTR_BYTES: usize = 28;

/// Number of the ioctl in its 64-bit form.
fn command(request: &Request<'_>) -> Option<u32> {
    let mut args = request.args();
    args.skip(8).ok()?;
    let (flags, command) = (args.u32().ok()?, args.u32().ok()?);
    Some(native(command, flags))
}

/// Whether an ioctl waits for the device.
pub(super) fn is_long(request: &Request<'_>) -> bool {
    command(request) == Some(commands::FITRIM)
}

/// Whether an ioctl changes its inode.
pub(super) fn changes_inode(request: &Request<'_>) -> bool {
    command(request).is_some_and(|command| commands::OF_INODES.contains(&command))
}

/// Inode flags that an ioctl sets.
pub(super) fn new_flags(request: &Request<'_>) -> Option<u32> {
    let mut input = request.args();
    input.skip(32).ok()?;
    match command(request)? {
        commands::SETFLAGS => input.u32().ok(),
        commands::FSSETXATTR => Some(flags_of(input.u32().ok()?, 0)),
        _ => None,
    }
}

impl Server {
    pub(super) fn ioctl(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (_fh, flags, command, _arg) = (args.u64()?, args.u32()?, args.u32()?, args.u64()?);
        let (in_size, out_size) = (args.u32()?, args.u32()?);
        let mut input = args;
        let inode = self.get(request.node)?;
        let attr = self.filesystem.attr(&inode);
        put_head(reply);
        match native(command, flags) {
            commands::GETFLAGS => put_number(reply, attr.flags, out_size),
            commands::GETVERSION | commands::EXT4_GETVERSION => {
                put_number(reply, attr.generation, out_size)
            }
            commands::SETVERSION | commands::EXT4_SETVERSION => {
                self.set_version(request, &inode, input.u32()?)
            }
            commands::SETFLAGS => {
                let flags = Some(input.u32()?);
                self.set(
                    request,
                    &inode,
                    SetAttr {
                        flags,
                        ..SetAttr::default()
                    },
                )
            }
            commands::FSGETXATTR => put_fsxattr(reply, &attr, out_size),
            commands::FSSETXATTR if usize_of(in_size) >= FSXATTR_BYTES => {
                let (xflags, _, _, project) =
                    (input.u32()?, input.u32()?, input.u32()?, input.u32()?);
                let flags = Some(flags_of(xflags, attr.flags));
                let project = (project != attr.project).then_some(project);
                self.set(
                    request,
                    &inode,
                    SetAttr {
                        flags,
                        project,
                        ..SetAttr::default()
                    },
                )
            }
            commands::FITRIM if usize_of(in_size) >= FSTRIM_RANGE_BYTES => {
                let (start, len, min_len) = (input.u64()?, input.u64()?, input.u64()?);
                let trimmed = self.trim(request, start, len, min_len)?;
                for word in [start, trimmed, min_len] {
                    reply.u64(word);
                }
                Ok(())
            }
            commands::GETFSLABEL if usize_of(out_size) >= FSLABEL_BYTES => {
                let label = self.filesystem.label();
                reply.put(&label);
                reply.zeroes(FSLABEL_BYTES - label.len());
                Ok(())
            }
            commands::SETFSLABEL if usize_of(in_size) >= FSLABEL_BYTES => {
                self.set_label(request, input.bytes(FSLABEL_BYTES)?)
            }
            commands::SHUTDOWN if !request.administers() => Err(Errno::EPERM),
            commands::SHUTDOWN => Err(Errno::EOPNOTSUPP),
            other if commands::REFUSED.contains(&other) => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn set_version(&self, request: &Request<'_>, inode: &InodeRef, generation: u32) -> Handled {
        self.check_owner(request, inode)?;
        let set = SetAttr {
            generation: Some(generation),
            ..SetAttr::default()
        };
        match self.filesystem.set_attr(inode, &set, &self.caller(request)) {
            Err(Error::NotSupported(_)) => Err(Errno::ENOTTY),
            done => {
                done?;
                self.forget_attributes(request.node);
                Ok(())
            }
        }
    }

    fn check_owner(&self, request: &Request<'_>, inode: &InodeRef) -> Handled {
        if self.is_owner(request, inode) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// The label ends at its first zero byte, which is required.
    fn set_label(&self, request: &Request<'_>, bytes: &[u8]) -> Handled {
        if !request.administers() {
            return Err(Errno::EPERM);
        }
        let end = bytes.iter().position(|byte| *byte == 0);
        let label = bytes[..end.ok_or(Errno::EINVAL)?].to_vec();
        self.filesystem.tune(&Tuning {
            label: Some(label),
            ..Tuning::default()
        })?;
        Ok(())
    }

    fn trim(
        &self,
        request: &Request<'_>,
        start: u64,
        len: u64,
        min_len: u64,
    ) -> Result<u64, Errno> {
        if !request.administers() {
            return Err(Errno::EPERM);
        }
        let range = start..start.saturating_add(len);
        Ok(self.filesystem.trim(range, min_len)?)
    }

    /// Sets attributes and invalidates the kernel's copy, since the kernel does not expect an ioctl
    /// to change ctime. With the write-back cache it keeps its own ctime for regular files.
    fn set(&self, request: &Request<'_>, inode: &InodeRef, set: SetAttr) -> Handled {
        if !self.agreement.checks_flag_ioctls() {
            self.check_owner(request, inode)?;
        }
        self.filesystem
            .set_attr(inode, &set, &self.caller(request))?;
        self.forget_attributes(request.node);
        Ok(())
    }
}

/// Puts `struct fuse_ioctl_out`: result 0, nothing to retry.
fn put_head(reply: &mut Reply) {
    reply.zeroes(16);
}

/// A 32-bit number whatever width the ioctl's code declares: programs pass an `int`, as for ext4.
fn put_number(reply: &mut Reply, number: u32, out_size: u32) -> Handled {
    if out_size < 4 {
        return Err(Errno::EINVAL);
    }
    reply.u32(number);
    Ok(())
}

fn put_fsxattr(reply: &mut Reply, attr: &Attr, out_size: u32) -> Handled {
    if usize_of(out_size) < FSXATTR_BYTES {
        return Err(Errno::EINVAL);
    }
    let set = XFLAGS.iter().filter(|(_, flag)| attr.flags & flag != 0);
    let xflags = set.fold(0, |bits, (xflag, _)| bits | xflag);
    for word in [xflags, 0, 0, attr.project, 0] {
        reply.u32(word);
    }
    reply.zeroes(8);
    Ok(())
}

/// Inode flags after `FSSETXATTR`; flags without an `FS_XFLAG_*` stay.
fn flags_of(xflags: u32, old: u32) -> u32 {
    XFLAGS
        .iter()
        .fold(old, |flags, (xflag, flag)| match xflags & xflag {
            0 => flags & !flag,
            _ => flags | flag,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_fsxattr_cannot_name_stay() {
        let extents = 0x0008_0000;
        assert_eq!(flags_of(0x8, extents | 0x20), extents | 0x10);
    }
}
