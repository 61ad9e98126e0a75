//! Attributes of an inode as callers see and set them, and the caller's identity.

use uext4_format::InodeNr;
use uext4_format::quota::QuotaEntry;
pub use uext4_format::{FileType, Timestamp};

/// Attributes of an inode, as `statx` shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number, from 1.
    pub ino: InodeNr,
    /// Generation, for file handles.
    pub generation: u32,
    /// Type of the file, from the upper bits of the mode.
    pub kind: FileType,
    /// Permission bits with setuid, setgid and sticky (`0o7777`).
    pub mode: u16,
    /// Number of hard links.
    pub links: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Project id (0 without the feature).
    pub project: u32,
    /// Device number of a device node, as Linux encodes it for user space (major, minor).
    pub rdev: (u32, u32),
    /// Size in bytes, holes included.
    pub size_bytes: u64,
    /// Space used, in units of 512 bytes.
    pub sectors: u64,
    /// Block size of the file system in bytes.
    pub block_size: u32,
    /// Last read of the data, as far as the mount updates it.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth; zero when the inode has no field for it.
    pub crtime: Timestamp,
    /// Inode flags (`FS_*_FL` bits, as `lsattr` shows them).
    pub flags: u32,
}

/// A time to set, as with `utimensat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the call (`UTIME_NOW`).
    Now,
    /// This time, whatever the clock says.
    At(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Debug, Default)]
pub struct SetAttr {
    /// Permission bits with setuid, setgid and sticky (`0o7777`).
    pub mode: Option<u16>,
    /// User id of the new owner.
    pub uid: Option<u32>,
    /// Id of the new group.
    pub gid: Option<u32>,
    /// Size in bytes (truncate or extend).
    pub size_bytes: Option<u64>,
    /// Access time to set.
    pub atime: Option<SetTime>,
    /// Modification time to set.
    pub mtime: Option<SetTime>,
    /// Inode change time (FUSE's writeback cache sends it); normally set by every change.
    pub ctime: Option<Timestamp>,
    /// Inode flags (`FS_*_FL`), those that users may change.
    pub flags: Option<u32>,
    /// Project id for quota; needs the feature `project`.
    pub project: Option<u32>,
    /// Generation: handles that name the old one become stale. Not with `metadata_csum`.
    pub generation: Option<u32>,
}

/// The identity that permission checks use. The superuser passes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Effective user id; mode bits do not restrict 0, the superuser.
    pub uid: u32,
    /// Effective group id, one of those that rights are checked against.
    pub gid: u32,
    /// Supplementary group ids; [`Self::gid`] may be missing.
    pub groups: Vec<u32>,
    /// Bits that a create clears in the mode when the parent has no default ACL.
    pub umask: u16,
    /// Which side checks permissions.
    pub checks: Checks,
    /// Owner of what the caller creates; `None` for the caller itself.
    pub owner: Option<NewOwner>,
}

/// Owner of new inodes whose creator has other ids in the file system than for its rights: a layer
/// above maps ids. An owner 0 does not make the creator the superuser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOwner {
    /// User id that the inode gets.
    pub uid: u32,
    /// Group id that the inode gets, unless the directory gives its own.
    pub gid: u32,
    /// Supplementary groups, as ids of inodes.
    pub groups: Vec<u32>,
}

/// Which side checks permissions for a [`Caller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The library, on every operation.
    Library,
    /// The layer above has checked already (the kernel's `default_permissions`).
    Done,
}

impl Caller {
    /// The superuser with an empty umask.
    pub const fn root() -> Self {
        Self {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            umask: 0,
            checks: Checks::Library,
            owner: None,
        }
    }

    /// True for user id 0, which mode bits do not restrict.
    pub fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// True when `gid` is one of the caller's groups.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// User and group of a new inode.
    pub(crate) fn new_ids(&self) -> (u32, u32) {
        let owner = self.owner.as_ref().map(|owner| (owner.uid, owner.gid));
        owner.unwrap_or((self.uid, self.gid))
    }

    /// True when the owner of a new inode is in the group `gid` of an inode.
    pub(crate) fn creates_in_group(&self, gid: u32) -> bool {
        match &self.owner {
            Some(owner) => owner.gid == gid || owner.groups.contains(&gid),
            None => self.in_group(gid),
        }
    }
}

/// Capacity for data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// For callers that may not use the blocks reserved for the superuser.
    pub users_bytes: u64,
    /// For callers that may use them.
    pub all_bytes: u64,
}

/// Totals of the whole file system, as `statfs` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Block size in bytes.
    pub block_size: u32,
    /// Blocks for data (the overhead is not counted unless `minixdf`).
    pub blocks: u64,
    /// Free blocks, with those that only the superuser may use.
    pub blocks_free: u64,
    /// Free blocks for users other than the superuser.
    pub blocks_available: u64,
    /// Inodes in all groups, used or free.
    pub inodes: u64,
    /// Inodes that are not in use.
    pub inodes_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
    /// File system id, made from the UUID.
    pub id: u64,
}

impl StatFs {
    /// Clamps the totals to the limits of a project, as the kernel does: the lower limit of each
    /// pair.
    pub(crate) fn narrow(&mut self, project: &QuotaEntry) {
        let lower =
            |soft: u64, hard: u64| [soft, hard].into_iter().filter(|&limit| limit != 0).min();
        let block_size = u64::from(self.block_size);
        if let Some(kib) = lower(project.space_soft_kib, project.space_hard_kib) {
            let blocks = kib.saturating_mul(1024) / block_size;
            let left = blocks.saturating_sub(project.space_bytes / block_size);
            self.blocks = self.blocks.min(blocks);
            self.blocks_free = self.blocks_free.min(left);
            self.blocks_available = self.blocks_available.min(left);
        }
        if let Some(inodes) = lower(project.inodes_soft, project.inodes_hard) {
            self.inodes = self.inodes.min(inodes);
            let left = inodes.saturating_sub(project.inodes);
            self.inodes_free = self.inodes_free.min(left);
        }
    }
}
