//! The few ioctls that the kernel passes on: inode flags, project ids, generation, trim, label.
//! Whose inode it is the kernel checks for flags and project ids only.
//!
//! Not here: what the kernel passes on without its argument, so that it is refused:
//! `EXT4_IOC_SHUTDOWN` (declared as one that only reads; `uext4 shutdown` asks the server itself),
//! `EXT4_IOC_GETFSUUID` and `SETFSUUID` (of their structure only the head is passed);
//! `FS_IOC_GETFSUUID`, which it answers itself; freezing, which it refuses for FUSE
//! (`uext4 freeze`).

use super::{Handled, Server};
use crate::answer::Answer;
use crate::errno::Errno;
use crate::request::Request;
use std::ops::RangeInclusive;
use uext4::{Attr, Error, InodeRef, SetAttr, Tuning};

/// Low 16 bits of the ioctls: type and number. Sizes differ between 32 and 64-bit callers.
const GETFLAGS: u32 = 0x6601;
const SETFLAGS: u32 = 0x6602;
const GETVERSION: u32 = 0x7601;
const SETVERSION: u32 = 0x7602;
/// The same by ext4's own numbers.
const EXT4_GETVERSION: u32 = 0x6603;
const EXT4_SETVERSION: u32 = 0x6604;
const FSGETXATTR: u32 = 0x581f;
const FSSETXATTR: u32 = 0x5820;
const FITRIM: u32 = 0x5879;
const GETFSLABEL: u32 = 0x9431;
const SETFSLABEL: u32 = 0x9432;
const SHUTDOWN: u32 = 0x587d;
const FSUUID: u32 = 0x662c;
/// Policies and keys of encrypted files, and seals of fs-verity: features that a file system
/// which is mounted to be written has not.
const FSCRYPT: RangeInclusive<u32> = 0x6613..=0x661b;
const VERITY: RangeInclusive<u32> = 0x6685..=0x6687;

/// Bytes of `struct fstrim_range`.
const FSTRIM_RANGE_BYTES: usize = 24;
/// Bytes that `GETFSLABEL` answers and `SETFSLABEL` takes.
const FSLABEL_BYTES: usize = 256;

/// `FS_XFLAG_*` and the `FS_*_FL` that they stand for.
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

/// Whether an ioctl takes as long as the device takes.
pub(super) fn is_long(request: &Request<'_>) -> bool {
    let mut args = request.args();
    let command = args.skip(12).and_then(|()| args.u32());
    command.is_ok_and(|command| command & 0xffff == FITRIM)
}

impl Server {
    pub(super) fn ioctl(&self, request: &Request<'_>, answer: &mut Answer) -> Handled {
        let mut args = request.args();
        let (_fh, _flags, command, _arg) = (args.u64()?, args.u32()?, args.u32()?, args.u64()?);
        let (in_size, out_size) = (args.u32()?, args.u32()?);
        let mut input = args;
        let inode = self.get(request.node)?;
        let attr = self.filesystem.attr(&inode);
        put_head(answer);
        match command & 0xffff {
            GETFLAGS => put_number(answer, attr.flags, out_size),
            GETVERSION | EXT4_GETVERSION => put_number(answer, attr.generation, out_size),
            SETVERSION | EXT4_SETVERSION => self.set_version(request, &inode, input.u32()?),
            SETFLAGS => {
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
            FSGETXATTR => put_fsxattr(answer, &attr, out_size),
            FSSETXATTR if in_size as usize >= FSXATTR_BYTES => {
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
            FITRIM if in_size as usize >= FSTRIM_RANGE_BYTES => {
                let (start, len, min_len) = (input.u64()?, input.u64()?, input.u64()?);
                let trimmed = self.trim(request, start, len, min_len)?;
                for word in [start, trimmed, min_len] {
                    answer.u64(word);
                }
                Ok(())
            }
            GETFSLABEL if out_size as usize >= FSLABEL_BYTES => {
                let label = self.filesystem.label();
                answer.put(&label);
                answer.zeroes(FSLABEL_BYTES - label.len());
                Ok(())
            }
            SETFSLABEL if in_size as usize >= FSLABEL_BYTES => {
                self.set_label(request, input.bytes(FSLABEL_BYTES)?)
            }
            SHUTDOWN if request.uid != 0 => Err(Errno::EPERM),
            SHUTDOWN | FSUUID => Err(Errno::EOPNOTSUPP),
            other if FSCRYPT.contains(&other) || VERITY.contains(&other) => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn set_version(&self, request: &Request<'_>, inode: &InodeRef, generation: u32) -> Handled {
        if request.uid != 0 && request.uid != self.shown(inode).uid {
            return Err(Errno::EPERM);
        }
        let set = SetAttr {
            generation: Some(generation),
            ..SetAttr::default()
        };
        match self.filesystem.set_attr(inode, &set, &self.asker(request)) {
            Err(Error::NotSupported(_)) => Err(Errno::ENOTTY),
            done => {
                done?;
                self.forget_attributes(request.node);
                Ok(())
            }
        }
    }

    /// The label ends at its first zero byte, of which there must be one.
    fn set_label(&self, request: &Request<'_>, bytes: &[u8]) -> Handled {
        if request.uid != 0 {
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
        if request.uid != 0 {
            return Err(Errno::EPERM);
        }
        let range = start..start.saturating_add(len);
        Ok(self.filesystem.trim(range, min_len)?)
    }

    /// The kernel does not expect that an ioctl moves the change time. Of regular files it goes by
    /// its own with the write-back cache, whatever we say.
    fn set(&self, request: &Request<'_>, inode: &InodeRef, set: SetAttr) -> Handled {
        self.filesystem
            .set_attr(inode, &set, &self.asker(request))?;
        self.forget_attributes(request.node);
        Ok(())
    }
}

/// Puts `struct fuse_ioctl_out`: result 0, nothing to retry.
fn put_head(answer: &mut Answer) {
    answer.zeroes(16);
}

/// A 32-bit number, whatever width the ioctl's code says: programs pass an `int` as ext4 wants it.
fn put_number(answer: &mut Answer, number: u32, out_size: u32) -> Handled {
    if out_size < 4 {
        return Err(Errno::EINVAL);
    }
    answer.u32(number);
    Ok(())
}

fn put_fsxattr(answer: &mut Answer, attr: &Attr, out_size: u32) -> Handled {
    if (out_size as usize) < FSXATTR_BYTES {
        return Err(Errno::EINVAL);
    }
    let set = XFLAGS.iter().filter(|(_, flag)| attr.flags & flag != 0);
    let xflags = set.fold(0, |bits, (xflag, _)| bits | xflag);
    for word in [xflags, 0, 0, attr.project, 0] {
        answer.u32(word);
    }
    answer.zeroes(8);
    Ok(())
}

/// The inode flags after `FSSETXATTR`: those that it cannot name stay.
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
