//! Extended attributes of files of the host.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::sources::entry::Xattr;

/// Bytes of a list of names or of a value: the kernel's maximum.
const XATTR_BYTES: usize = 64 << 10;
/// Bytes of the first buffer: the kernel allocates as much for each call.
pub(super) const FIRST_BYTES: usize = 512;

/// A file of the host whose attributes are read.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    /// An open file.
    Handle(&'a OwnedFd),
    /// A path whose last link is not followed.
    Path(&'a Path),
}

impl Of<'_> {
    fn list(self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        match self {
            Of::Handle(fd) => rustix::fs::flistxattr(fd, spare_capacity(buffer)),
            Of::Path(path) => rustix::fs::llistxattr(path, spare_capacity(buffer)),
        }
    }

    fn value(self, name: &OsStr, value: &mut Vec<u8>) -> Result<usize, Errno> {
        match self {
            Of::Handle(fd) => rustix::fs::fgetxattr(fd, name, spare_capacity(value)),
            Of::Path(path) => rustix::fs::lgetxattr(path, name, spare_capacity(value)),
        }
    }
}

/// Extended attributes that ext4 can store.
pub(super) fn xattrs(of: Of<'_>, buffer: &mut Vec<u8>) -> Result<Vec<Xattr>, Errno> {
    buffer.clear();
    let listed = match of.list(buffer) {
        Err(Errno::RANGE) => {
            buffer.reserve(XATTR_BYTES);
            of.list(buffer)
        }
        listed => listed,
    };
    match listed {
        Err(Errno::NOTSUP) | Ok(0) => return Ok(Vec::new()),
        other => other?,
    };
    let mut xattrs = Vec::new();
    for name in buffer.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let key = OsStr::from_bytes(name);
        let mut value = Vec::with_capacity(FIRST_BYTES);
        let read = match of.value(key, &mut value) {
            Err(Errno::RANGE) => {
                value.reserve(XATTR_BYTES);
                of.value(key, &mut value)
            }
            read => read,
        };
        match read {
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        xattrs.push(Xattr {
            name: name.to_vec(),
            value: value.into_boxed_slice().into_vec(),
        });
    }
    Ok(xattrs)
}

fn is_kept(name: &[u8]) -> bool {
    let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];
    spaces.iter().any(|space| name.starts_with(space))
}
