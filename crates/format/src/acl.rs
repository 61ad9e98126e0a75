//! POSIX access control lists: types, and the encodings of ext4 and of Linux system calls.
//!
//! Layout: both encodings are a version (4 bytes) and entries. ext4 (version 1, attribute value on
//! disk) omits the id of entries without one: 4 or 8 bytes. Linux (version 2, the value of
//! `system.posix_acl_access` and `_default`) always has 8 bytes, with an id of all ones for none.
//! Invariants ([`Acl::new`]): owner, group and others exactly once; a mask when users or groups are
//! named; order owner, users, group, groups, mask, others. Of entries with one user id the first
//! counts; entries with one group id all count.
//! References: POSIX 1003.1e draft 17; acl(5).

mod codec;
mod rules;
#[cfg(test)]
mod tests;

pub use codec::{AclError, IdKind, replace_ids, restrict};
pub use rules::NewFile;

/// All permission bits: read 4, write 2, execute 1.
pub const PERM_ALL: u16 = 7;

/// The subject class of an entry. The order is the one of entries in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// The owner of the file (`ACL_USER_OBJ`); its rights are the mode's bits 6 to 8.
    UserObj,
    /// A named user: the one with this id.
    User(u32),
    /// The file's own group (`ACL_GROUP_OBJ`).
    GroupObj,
    /// A named group: the one with this id.
    Group(u32),
    /// Upper limit of the rights of named users and of all groups.
    Mask,
    /// All users that no other entry matches.
    Other,
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// The users that the entry is about.
    pub tag: Tag,
    /// The rights: read 4, write 2, execute 1.
    pub perm: u16,
}

/// A valid access list: sorted, with all required entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

/// A mode and the lists of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The mode to create it with, file type bits as given.
    pub mode: u16,
    /// Its access list; `None` if the mode is equivalent.
    pub access: Option<Acl>,
    /// Its default list: for directories only.
    pub default: Option<Acl>,
}

/// The credentials that ask for access.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// File system user id.
    pub uid: u32,
    /// File system group id and supplementary groups.
    pub gids: &'a [u32],
}
