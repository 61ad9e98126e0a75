//! Inode flags as users see, set and inherit them (`lsattr`, `chattr`).
//!
//! References: `chattr(1)`, `ioctl_iflags(2)`; the rules are those of Linux's ext4.

use crate::types::attr::Caller;
use crate::types::error::{Error, Result};
use uext4_format::{FileType, InodeFlags};

const fn all(flags: &[InodeFlags]) -> InodeFlags {
    let mut set = InodeFlags::NONE;
    let mut i = 0;
    while i < flags.len() {
        set = set.union(flags[i]);
        i += 1;
    }
    set
}

/// Flags that no implementation supports, and that are stored nevertheless.
const NOMINAL: InodeFlags = all(&[InodeFlags::SECRM, InodeFlags::UNRM, InodeFlags::COMPR]);

/// Flags that `chattr` may change. Other bits of a request are ignored, because programs send back
/// all flags that they read.
const MODIFIABLE: InodeFlags = all(&[
    NOMINAL,
    InodeFlags::SYNC,
    InodeFlags::IMMUTABLE,
    InodeFlags::APPEND,
    InodeFlags::NODUMP,
    InodeFlags::NOATIME,
    InodeFlags::JOURNAL_DATA,
    InodeFlags::NOTAIL,
    InodeFlags::DIRSYNC,
    InodeFlags::TOPDIR,
    InodeFlags::EXTENTS,
    InodeFlags::EOFBLOCKS,
    InodeFlags::DAX,
    InodeFlags::PROJINHERIT,
    InodeFlags::CASEFOLD,
]);

/// Flags that `lsattr` shows: the modifiable ones and some of the storage format. The unnamed bits
/// belonged to compression.
const VISIBLE: InodeFlags = all(&[
    MODIFIABLE,
    InodeFlags(0x700),
    InodeFlags::ENCRYPT,
    InodeFlags::INDEX,
    InodeFlags::VERITY,
    InodeFlags::INLINE_DATA,
]);

/// Flags that a new inode inherits from its directory.
const INHERITED: InodeFlags = all(&[
    NOMINAL,
    InodeFlags::SYNC,
    InodeFlags::NODUMP,
    InodeFlags::NOATIME,
    InodeFlags(0x400),
    InodeFlags::JOURNAL_DATA,
    InodeFlags::NOTAIL,
    InodeFlags::DIRSYNC,
    InodeFlags::PROJINHERIT,
    InodeFlags::CASEFOLD,
    InodeFlags::DAX,
]);

/// Flags that are valid on directories only.
const DIRECTORY_ONLY: InodeFlags = all(&[
    InodeFlags::DIRSYNC,
    InodeFlags::TOPDIR,
    InodeFlags::CASEFOLD,
    InodeFlags::PROJINHERIT,
]);

/// Flags that are valid on links, device nodes, fifos and sockets.
const ANY_TYPE: InodeFlags = all(&[InodeFlags::NODUMP, InodeFlags::NOATIME]);

/// The flags among `flags` that an inode of this type can have.
fn fitting(kind: FileType, flags: u32) -> u32 {
    match kind {
        FileType::Directory => flags,
        FileType::Regular => flags & !DIRECTORY_ONLY.0,
        _ => flags & ANY_TYPE.0,
    }
}

/// Flags that a new inode takes from its directory.
pub(crate) fn inherited(parent: InodeFlags, kind: FileType) -> InodeFlags {
    InodeFlags(fitting(kind, parent.0 & INHERITED.0))
}

/// Flags that callers are shown.
pub(crate) fn visible(flags: InodeFlags, kind: FileType) -> u32 {
    let shown = flags.0 & VISIBLE.0;
    if kind == FileType::Regular {
        shown & !InodeFlags::PROJINHERIT.0
    } else {
        shown
    }
}

/// The flags after a request for `wanted` by the owner `caller`.
///
/// # Errors
/// [`Error::NotPermitted`] without the right, or when another flag of an immutable inode changes;
/// [`Error::NotSupported`] for flags that this inode cannot have or lose.
pub(crate) fn changed(
    old: InodeFlags,
    wanted: u32,
    kind: FileType,
    caller: &Caller,
) -> Result<InodeFlags> {
    let guarded = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);
    if (old.0 ^ wanted) & guarded.0 != 0 && !caller.is_superuser() {
        return Err(Error::NotPermitted);
    }
    if wanted & !VISIBLE.0 != 0 {
        return Err(Error::NotSupported("flags that no file has"));
    }
    let wanted = wanted & MODIFIABLE.0;
    if fitting(kind, wanted) != wanted {
        return Err(Error::NotSupported(
            "flags that this type of file cannot have",
        ));
    }
    let changes = (old.0 & MODIFIABLE.0) ^ wanted;
    let stays_immutable =
        old.contains(InodeFlags::IMMUTABLE) && wanted & InodeFlags::IMMUTABLE.0 != 0;
    if stays_immutable && changes != 0 {
        return Err(Error::NotPermitted);
    }
    let fixed = [
        (InodeFlags::EXTENTS, "changing how a file maps its blocks"),
        (InodeFlags::JOURNAL_DATA, "data in the journal"),
        (InodeFlags::CASEFOLD, "names without case"),
    ];
    match fixed.iter().find(|(flag, _)| changes & flag.0 != 0) {
        Some((InodeFlags::JOURNAL_DATA, _)) if !caller.is_superuser() => Err(Error::NotPermitted),
        Some((_, what)) => Err(Error::NotSupported(what)),
        None => Ok(InodeFlags(old.0 & !MODIFIABLE.0 | wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_are_those_of_linux() {
        assert_eq!(MODIFIABLE.0, 0x624B_C0FF);
        assert_eq!(
            VISIBLE.0 | InodeFlags::TOPDIR.0,
            0x725B_DFFF | InodeFlags::TOPDIR.0
        );
        assert_eq!(INHERITED.0, 0x6201_C4CF);
    }

    #[test]
    fn an_immutable_inode_keeps_its_other_flags() {
        let old = InodeFlags::IMMUTABLE.union(InodeFlags::EXTENTS);
        let root = Caller::root();
        let change = |wanted: u32| changed(old, wanted, FileType::Regular, &root);
        assert!(matches!(
            change(old.0 | InodeFlags::NODUMP.0),
            Err(Error::NotPermitted)
        ));
        assert_eq!(change(old.0).unwrap(), old);
        let both = InodeFlags::EXTENTS.0 | InodeFlags::NODUMP.0;
        assert_eq!(change(both).unwrap().0, both);
        let user = Caller {
            uid: 5,
            ..root.clone()
        };
        assert!(changed(old, InodeFlags::EXTENTS.0, FileType::Regular, &user).is_err());
    }
}
