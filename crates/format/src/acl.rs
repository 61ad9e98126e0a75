//! POSIX access control lists: typed, as ext4 stores them, and as Linux passes them to programs.
//!
//! Layout: both forms are a version (4 bytes) and entries. ext4 (version 1, attribute value on
//! disk) leaves out the id where an entry has none: 4 or 8 bytes. Linux (version 2, the value of
//! `system.posix_acl_access` and `_default`) always has 8 bytes, with an id of all ones for none.
//! Invariants ([`Acl::new`]): owner, group and others exactly once; a mask when users or groups are
//! named; order owner, users, group, groups, mask, others. Of equal ids the first counts.
//! References: POSIX 1003.1e draft 17; acl(5).

mod codec;
mod rules;
#[cfg(test)]
mod tests;

pub use codec::AclError;
pub use rules::NewFile;

/// All permission bits: read 4, write 2, execute 1.
pub const PERM_ALL: u16 = 7;

/// Whom an entry is about. The order is the one of entries in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// The owner of the file.
    UserObj,
    /// A user, by id.
    User(u32),
    /// The group of the file.
    GroupObj,
    /// A group, by id.
    Group(u32),
    /// The most that named users and all groups get.
    Mask,
    /// Everybody else.
    Other,
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom it is about.
    pub tag: Tag,
    /// What is allowed: read 4, write 2, execute 1.
    pub perm: u16,
}

/// A valid list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

/// A mode and the lists of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The mode to create it with, file type bits as given.
    pub mode: u16,
    /// Its access list; `None` when the mode says it all.
    pub access: Option<Acl>,
    /// Its default list: for directories only.
    pub default: Option<Acl>,
}

/// Who asks for access.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// File system user id.
    pub uid: u32,
    /// File system group id and supplementary groups.
    pub gids: &'a [u32],
}
