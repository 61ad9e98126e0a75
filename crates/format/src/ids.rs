//! Typed numbers. Mixing two kinds does not compile.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Physical block of the file system, in file system blocks.
    BlockNr(u64)
}
id! {
    /// Block of a file, counted from its start, in file system blocks.
    LogicalBlock(u32)
}
id! {
    /// A block group, counted from 0.
    GroupNr(u32)
}
id! {
    /// Inode number; 0 is "none", 2 is the root.
    InodeNr(u32)
}
id! {
    /// Transaction number of the journal; wraps, so compare with [`Tid::is_after`].
    Tid(u32)
}

impl Tid {
    /// True when `self` comes after `other` (difference taken as signed, so that wrapping works).
    pub fn is_after(self, other: Tid) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }
    /// The transaction after this one.
    pub fn next(self) -> Tid {
        Tid(self.0.wrapping_add(1))
    }
}

/// Inodes with a fixed number.
impl InodeNr {
    /// Owner of bad blocks, without a name.
    pub const BAD_BLOCKS: InodeNr = InodeNr(1);
    /// The root directory of the file system.
    pub const ROOT: InodeNr = InodeNr(2);
    /// User quota, as mkfs places it; the superblock names it.
    pub const USER_QUOTA: InodeNr = InodeNr(3);
    /// Group quota, as mkfs places it; the superblock names it.
    pub const GROUP_QUOTA: InodeNr = InodeNr(4);
    /// Reserved for a boot loader; no directory names it.
    pub const BOOT_LOADER: InodeNr = InodeNr(5);
    /// Owner of the blocks reserved for descriptors (feature `resize_inode`).
    pub const RESIZE: InodeNr = InodeNr(7);
    /// The journal, where it is in the file system.
    pub const JOURNAL: InodeNr = InodeNr(8);
    /// The first one that is not reserved, where the superblock names no later one.
    pub const FIRST_ORDINARY: InodeNr = InodeNr(11);
}
