//! Description of an inode to create.

use uext4_format::FileType;

/// Type, mode and arguments of an inode to create.
#[derive(Clone, Copy)]
pub(crate) struct NewInode<'a> {
    pub(crate) kind: FileType,
    /// Permission bits as asked for, before umask and ACL.
    pub(crate) mode: u16,
    /// Device number of a device node.
    pub(crate) device: (u32, u32),
    /// Target of a symbolic link.
    pub(crate) target: &'a [u8],
}

impl NewInode<'_> {
    pub(crate) fn new(kind: FileType, mode: u16) -> Self {
        Self {
            kind,
            mode: mode & 0o7777,
            device: (0, 0),
            target: &[],
        }
    }
}
