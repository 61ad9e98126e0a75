//! The structures that can be damaged.

/// Kind of the structure to damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The primary superblock, not its copies.
    Superblock,
    /// The descriptor of a group, in the primary table.
    Descriptor,
    /// The block bitmap of a group.
    BlockBitmap,
    /// The inode bitmap of a group.
    InodeBitmap,
    /// An inode that is in use.
    Inode,
    /// The extent header or an extent in a used inode.
    InodeExtents,
    /// A block of an extent tree.
    ExtentBlock,
    /// A block of a directory: entries or index.
    Directory,
    /// A block of extended attributes.
    XattrBlock,
    /// The superblock of the journal, not of the file system.
    JournalSuperblock,
    /// A block of the journal's log.
    JournalBlock,
    /// Any byte of the image.
    Anywhere,
    /// The slot of an inode that is not used.
    UnusedInode,
    /// The target of a symbolic link, in the inode or in its block.
    Symlink,
    /// Attributes in an inode, after its extra fields.
    InodeXattr,
    /// An inode that holds the value of an attribute.
    ValueInode,
    /// A data block of such an inode.
    ValueData,
    /// The block of multiple mount protection.
    Mmp,
    /// The padding after the bits of an inode bitmap.
    BitmapPadding,
    /// The numbers of the quota inodes in the superblock.
    QuotaNumbers,
    /// An inode with a reserved number.
    ReservedInode,
    /// A block of the orphan file.
    OrphanFile,
    /// The root of the index of a directory.
    IndexRoot,
    /// A block table, as in inodes without extents.
    BlockTable,
    /// Entries of an inline directory.
    InlineEntries,
}

impl Target {
    /// Targets that every image has.
    pub const ALL: [Self; 12] = [
        Self::Superblock,
        Self::Descriptor,
        Self::BlockBitmap,
        Self::InodeBitmap,
        Self::Inode,
        Self::InodeExtents,
        Self::ExtentBlock,
        Self::Directory,
        Self::XattrBlock,
        Self::JournalSuperblock,
        Self::JournalBlock,
        Self::Anywhere,
    ];

    /// Targets that only images with more features have, or that no engine reads.
    pub const RARE: [Self; 10] = [
        Self::UnusedInode,
        Self::Symlink,
        Self::InodeXattr,
        Self::ValueInode,
        Self::ValueData,
        Self::Mmp,
        Self::BitmapPadding,
        Self::QuotaNumbers,
        Self::ReservedInode,
        Self::OrphanFile,
    ];

    /// Targets that point from a file or directory to its parts.
    pub const INNER: [Self; 3] = [Self::IndexRoot, Self::BlockTable, Self::InlineEntries];
}
