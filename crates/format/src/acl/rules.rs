//! Semantics of a list: permission check, mode, inheritance.

use super::{Acl, AclEntry, Inherited, PERM_ALL, Subject, Tag};

const PERMISSION_BITS: u16 = 0o777;

impl Acl {
    fn perm(&self, tag: Tag) -> Option<u16> {
        self.entries()
            .iter()
            .find(|entry| entry.tag == tag)
            .map(|entry| entry.perm)
    }

    /// The tag whose entry the group bits of the mode mirror: the mask if there is one.
    fn group_class(&self) -> Tag {
        if self.perm(Tag::Mask).is_some() {
            Tag::Mask
        } else {
            Tag::GroupObj
        }
    }

    /// The permission bits of the mode for this list: owner, mask (or group), others.
    pub fn mode_bits(&self) -> u16 {
        let perm = |tag| self.perm(tag).unwrap_or(0);
        perm(Tag::UserObj) << 6 | perm(self.group_class()) << 3 | perm(Tag::Other)
    }

    /// True if the mode alone is equivalent: owner, group and others only.
    pub fn is_equivalent_to_mode(&self) -> bool {
        self.entries().len() == 3
    }

    /// Whether the ACL grants all of `want` on a file of `owner` and `group`. The caller checks
    /// capabilities, and the rule of Linux that the list counts only if the group bits of the mode
    /// are not all clear.
    pub fn allows(&self, subject: Subject<'_>, owner: u32, group: u32, want: u16) -> bool {
        let granted = |perm: u16| perm & want == want;
        let mask = self.perm(Tag::Mask).unwrap_or(PERM_ALL);
        if subject.uid == owner {
            return granted(self.perm(Tag::UserObj).unwrap_or(0));
        }
        if let Some(perm) = self.perm(Tag::User(subject.uid)) {
            return granted(perm & mask);
        }
        let mut in_a_group = false;
        for entry in self.entries() {
            let matches = match entry.tag {
                Tag::GroupObj => subject.gids.contains(&group),
                Tag::Group(gid) => subject.gids.contains(&gid),
                _ => false,
            };
            if matches && granted(entry.perm & mask) {
                return true;
            }
            in_a_group |= matches;
        }
        !in_a_group && granted(self.perm(Tag::Other).unwrap_or(0))
    }

    /// The list after `chmod`: owner, mask (or group) and others take the bits of `mode`.
    #[must_use]
    pub fn with_mode(mut self, mode: u16) -> Acl {
        let group_class = self.group_class();
        for entry in self.entries_mut() {
            *entry = AclEntry {
                perm: class_bits(entry, group_class, mode),
                ..*entry
            };
        }
        self
    }

    /// The list and mode of a new file in a directory with this default list. `mode` is the
    /// requested mode; the umask is not applied where there is a default list.
    pub fn inherit(&self, mode: u16, new: NewFile) -> Inherited {
        let group_class = self.group_class();
        let mut access = self.clone();
        for entry in access.entries_mut() {
            entry.perm &= class_bits(entry, group_class, mode);
        }
        let mode = (mode & !PERMISSION_BITS) | access.mode_bits();
        let access = (!access.is_equivalent_to_mode()).then_some(access);
        let default = (new == NewFile::Directory).then(|| self.clone());
        Inherited {
            mode,
            access,
            default,
        }
    }
}

/// The kind of file that inherits a default list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFile {
    /// A directory: passes the default list on.
    Directory,
    /// Anything else: gets the access list only.
    Other,
}

/// The bits of `mode` for the class of `entry`; entries without a class keep their own.
fn class_bits(entry: &AclEntry, group_class: Tag, mode: u16) -> u16 {
    match entry.tag {
        Tag::UserObj => mode >> 6 & PERM_ALL,
        Tag::Other => mode & PERM_ALL,
        tag if tag == group_class => mode >> 3 & PERM_ALL,
        _ => entry.perm,
    }
}
