//! The problems of damaged structures, with the numbers that were found.

use std::fmt;
use uext4_num::clamp_u32;

/// A number that is shown in base 16: a checksum, a magic number or a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hex(pub u32);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

macro_rules! kinds {
    ($($kind:ident $({ $($field:ident: $type:ty),* })? = $phrase:literal;)*) => {
        /// The problem of a damaged structure. It is displayed as its phrase, and the numbers by
        /// their names in parentheses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum CorruptKind {
            $(
                #[doc = concat!("\"", $phrase, "\"")]
                $kind $({ $(#[doc = stringify!($field)] $field: $type),* })?,
            )*
        }

        impl CorruptKind {
            /// The problem without its numbers; stable, for programs that compare findings.
            pub const fn phrase(&self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => $phrase,)*
                }
            }

            /// The name of each problem in this table, with its phrase.
            pub const NAMES: &[(&str, &str)] = &[$((stringify!($kind), $phrase)),*];

            /// The name of the problem in this table; stable, as its phrase.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => stringify!($kind),)*
                }
            }

            /// A checksum that is another than the bytes have.
            pub const fn checksum(stored: u32, computed: u32) -> Self {
                Self::Checksum {
                    stored: Hex(stored),
                    computed: Hex(computed),
                }
            }

            /// Compares a stored checksum with the computed one, if there are checksums.
            pub fn compare(stored: u32, computed: Option<u32>) -> Result<(), Self> {
                match computed {
                    Some(computed) if computed != stored => Err(Self::checksum(stored, computed)),
                    _ => Ok(()),
                }
            }

            /// The magic number is `found`, not the one of the structure.
            pub const fn magic(found: u32) -> Self {
                Self::Magic { found: Hex(found) }
            }

            /// A structure of which only this many bytes are there.
            pub fn short(bytes: &[u8]) -> Self {
                Self::Short {
                    bytes: clamp_u32(bytes.len()),
                }
            }

            /// Calls `show` with the name and the value of each number.
            fn numbers(
                &self,
                show: &mut dyn FnMut(&str, &dyn fmt::Display) -> fmt::Result,
            ) -> fmt::Result {
                match self {
                    $(Self::$kind $({ $($field),* })? => {
                        $($(show(stringify!($field), $field)?;)*)?
                    })*
                }
                let _ = show;
                Ok(())
            }
        }
    };
}

kinds! {
    // Generic.
    Checksum { stored: Hex, computed: Hex } = "checksum does not match";
    ChecksumType { found: u8 } = "checksum type is unknown";
    ChecksumSpace = "no space for the checksum";
    BlockChecksum = "checksum of the journal block does not match";
    ChecksumTail = "no checksum tail";
    Magic { found: Hex } = "magic number is wrong";
    Version { found: u32 } = "the version of the format is not known";
    Short { bytes: u32 } = "is cut short";
    Damaged = "damaged";
    TooLarge = "is too large";
    // Superblock.
    BlockSize { found: u32 } = "block size is out of range";
    ClusterSize { found: u32 } = "cluster size is out of range";
    ClusterBelowBlock = "cluster size is below the block size";
    FragmentSize = "fragment size is not block size";
    DescriptorSize { found: u16 } = "descriptor size is wrong";
    InodeSize { found: u16 } = "inode size is wrong";
    FirstInode { found: u32 } = "first inode is too small";
    GroupSize { found: u32, max: u32 } = "group size does not fit its bitmap";
    GroupSizeUneven { found: u32 } = "group size is no multiple of 8";
    ClustersAndBlocks = "clusters and blocks of a group differ";
    ClustersPerGroup { found: u32, expected: u32 } = "clusters of a group are wrong";
    InodesBelowBlock { found: u32, min: u32 } = "inodes of a group do not fill a block";
    InodesAboveBitmap { found: u32, max: u32 } = "inodes of a group do not fit their bitmap";
    InodesUneven { found: u32 } = "inodes of a group are no multiple of 8";
    FirstDataBlock { found: u32 } = "first data block is wrong";
    ByteSize { blocks: u64 } = "size in bytes is out of range";
    BlockCount { found: u64 } = "block count is out of range";
    BlockCountWide { found: u64 } = "block count needs the 64bit feature";
    BlockCountSmall { found: u64 } = "block count is too small";
    InodeCount { found: u32, groups: u32 } = "inode count is wrong";
    InodeCountSmall { found: u32 } = "inode count is below the reserved inodes";
    ReservedBlocks { found: u64 } = "reserved blocks exceed all blocks";
    GroupCount { found: u64 } = "group count is out of range";
    FlexSize { found: u8 } = "flexible group size is out of range";
    ReservedDescriptors { found: u32 } = "reserved descriptor blocks exceed a block";
    FirstMetaGroup { found: u32 } = "first meta group is out of range";
    DescriptorsSpace = "descriptors do not fit into the first group";
    Revision = "a revision that is not known";
    UnknownFeatures = "features that a check does not know";
    SealWithoutFeature = "a checksum without the feature";
    SeedWithoutChecksums = "a seed of checksums without the feature metadata_csum";
    TwoSeals = "two features say how descriptors are sealed";
    DescriptorSizes = "the size of descriptors is wrong";
    ReservedWithoutFeature = "reserved blocks of descriptors without the feature";
    LargeWithoutFeature = "a large file without the feature";
    ExtraSizes = "the size of extra fields of inodes is wrong";
    MmpOutside = "the MMP block is outside the data area";
    QuotaNumber = "the number of a quota inode is wrong";
    JournalWithoutFeature = "a journal without the feature";
    TwoJournals = "the UUID of an external journal beside an internal one";
    ReplayWithoutJournal = "it asks for replay, and there is no journal";
    MmpSequence = "its sequence number is none of a mount: clear it with tune2fs";
    Requested = "asked for by trigger_fs_error";
    // Groups.
    BlockBitmapRange { block: u64 } = "block bitmap is out of range";
    InodeBitmapRange { block: u64 } = "inode bitmap is out of range";
    InodeTableRange { block: u64 } = "inode table is out of range";
    FreeClusters { found: u32, max: u32 } = "free cluster count exceeds the group";
    InodeCounts = "inode counts exceed the group";
    FreeCount { descriptor: u32, bitmap: u32 } = "free count does not match the descriptor";
    MetadataFree = "metadata of the group is marked free";
    FreedMetadata = "freed blocks are metadata or out of range";
    FreedTwice = "freed blocks are free already";
    FreedInodeTwice = "freed inode is free already";
    BitsClear = "bits behind the last cluster are clear";
    InodeBitsClear = "bits behind the last inode are clear";
    MarkedFree = "clusters in use are marked free";
    Leaked = "unused clusters are marked in use";
    FreeClustersWrong = "the count of free clusters is wrong";
    FreeInodesWrong = "the count of free inodes is wrong";
    DirectoriesWrong = "the count of directories is wrong";
    LastGroupBitmap = "the last group has none";
    DataWithoutBitmap = "data lie in a group that has none";
    UnwrittenGroup = "bitmaps or inodes that were never written, without the feature";
    GroupOverlap = "a bitmap or table overlaps other metadata";
    // Inodes.
    ExtraSize { found: u16 } = "extra size is wrong";
    SizeRange { found: u64 } = "size is out of range";
    BadSize = "bad size";
    SizeWrong = "the size is wrong";
    FragmentAddress = "the address of a fragment";
    SizeHighWrong = "the size is wrong: its high part means nothing";
    SizeOfNone = "the size is wrong: such a file has none";
    BlocksWrong = "the block count is wrong";
    LinksWrong = "the link count is wrong";
    NumberRange = "out of range";
    FileType = "mode names no file type";
    NoFileType = "its mode names no type";
    InodeFree = "its inode is free";
    NoDirectory = "its inode is no directory";
    NoRegularFile = "its inode is no regular file";
    SlotOutside = "slot is outside its block";
    SpecialNamed = "a name leads to it, but it belongs to the file system itself";
    ValueNamed = "a name leads to it, but it holds the value of an attribute";
    NeverDeleted = "it was deleted at no time";
    OrphanGone = "it was on a list of orphans that is gone";
    InUseUnwritten = "it is in use in a part of the table that was never written";
    InodeMarkedFree = "an inode in use is marked free";
    InUseDeleted = "it is in use and was deleted";
    DeletedMarked = "a deleted inode is marked in use";
    Flag = "a flag that it cannot have";
    ExtentsWithoutFeature = "extents without the feature";
    TableInClusters = "a table of blocks where space comes in clusters";
    Unnamed = "no directory names it";
    SeemsDirectory = "its blocks are those of a directory";
    ContextMissing = "it is encrypted, and has no context";
    ContextDamaged = "it is encrypted, and its context is damaged";
    UnnamedEmpty = "no directory names it, and it is empty";
    UnusedHolds = "it is not in use, and holds data";
    BlockListDeep = "it has more than a list of blocks";
    ReservedType = "it is no file of this type";
    MapsWithoutFeature = "it maps blocks without the feature";
    MapsMoreThanTable = "it maps more than its table";
    NotInUse = "it is no file that is in use";
    TableNotOwn = "its table is not its own";
    BlockOutsideSystem = "a block outside of the file system";
    DescriptorPlace = "a block kept for descriptors is not where it has to be";
    InlineSize = "the size is more than the inode holds";
    TargetLength = "its target does not have the length that its size says";
    NoBlock = "no block";
    // Maps.
    Depth { found: u16 } = "unexpected depth";
    Limit { found: u32, max: u32 } = "limit does not fit the node";
    CountAboveLimit { count: u32, limit: u32 } = "more entries than the limit";
    InnerEmpty = "inner node without entries";
    ZeroLength = "length is zero";
    Order { logical: u32 } = "overlaps or out of order";
    BehindNode { logical: u32 } = "behind the range of its node";
    BlocksOutside { start: u64 } = "blocks outside the file system";
    ChildOutside { block: u64 } = "child outside the file system";
    PointerOutside { block: u64 } = "pointer outside the file system";
    FilledHole = "maps blocks that were a hole";
    LostBlocks = "a hole where blocks were mapped";
    Misaligned = "not aligned to its cluster";
    NoEntries = "no entries";
    NotAsParent = "not what its parent says";
    NoSplit = "limit leaves no space to split";
    OutsideData = "blocks outside the data area";
    BlockNumber = "block number is outside the data area";
    SharedBlock = "block belongs to another structure, too";
    SmallLimit = "it says that fewer entries fit than do";
    NeverWritten = "blocks that must have been written never were";
    BeginsElsewhere = "it does not begin where its parent says";
    MapOutside = "a block of the map is outside the data area";
    MapShared = "a block of the map has another owner as well";
    DataOutside = "data are mapped outside the data area";
    DataShared = "data have another owner as well";
    TooManyBytes = "an operation reads more than operation_bytes";
    TooLong = "an operation takes longer than operation_seconds";
    // Directories.
    RecordAtEnd { left: u32 } = "too close to the end of the block";
    RecordShort { bytes: u32 } = "record length too small";
    RecordUneven { bytes: u32 } = "record length not a multiple of 4";
    RecordLong { bytes: u32, left: u32 } = "record goes past the end of the block";
    NameLong { name: u32, record: u32 } = "name does not fit the record";
    NameEmpty = "empty name";
    NameEncryptedShort = "encrypted name is shorter than 16 bytes";
    RootDots = "no \".\" and \"..\"";
    RootReserved = "reserved field in use";
    RootInfo { found: u8 } = "wrong length of the information";
    Levels { found: u8 } = "too many levels";
    HashFunction { found: u8 } = "unknown hash function";
    NodeRecord = "no free record over the block";
    NodeCount { count: u32, limit: u32 } = "count is zero or above the limit";
    HashOrder { hash: Hex, before: Hex } = "hashes out of order";
    EntryOutside { block: u32 } = "entry leads outside the directory";
    BlockMissing = "block is missing";
    IndexBlockMissing = "block of the index is missing";
    IndexAsLeaf = "index block in place of a leaf";
    NodeTakesNot = "a node does not take what fits";
    RootTakesNot = "a root does not take what fits";
    ValueElsewhere = "value is in another inode";
    NameStandsTwice = "name stands twice";
    BlockTooSmall = "entries do not fit a block";
    NoDots = "does not begin with \".\" and \"..\"";
    NoDotDot = "no \"..\"";
    IndexFull = "index does not get room";
    NodeEmpty = "empty node";
    NodeFull = "no space in a node that had some";
    LeafUnsplit = "leaf cannot be split";
    BelowItself = "is below itself";
    InsideItself = "it is inside itself";
    DotDotElsewhere = "\"..\" leads elsewhere";
    BlockTwice = "a block is there twice";
    LeadsOut = "it leads out of the directory";
    HashesBeyond = "hashes beyond those of the node above";
    IndexIncomplete = "it does not lead to all blocks";
    AttributeMissing = "its attribute is missing";
    Holes = "it has holes, or the wrong size";
    LookedElsewhere = "the index looks for this name elsewhere";
    DotsElsewhere = "\".\" or \"..\" is not where it belongs";
    DotsUnended = "no zero byte ends \".\" or \"..\"";
    NameTwice = "the name is there twice";
    DirectoryTwice = "the directory has another name";
    NotWhereItBelongs = "it is not where it belongs";
    NameBytes = "the name has a slash or a zero byte";
    InodeNumber = "no file can have this inode number";
    InodeUnnameable = "the inode is one that no name may lead to";
    InodeFreeOrDamaged = "the inode is free or damaged";
    EntryType = "the type is not that of the inode";
    NotEncrypted = "the inode is not encrypted, unlike the directory";
    PolicyOther = "the inode has another encryption policy than the directory";
    // Attributes.
    XattrBlocks { found: u32 } = "more or less than one block";
    XattrReferences { found: u32 } = "number of references out of range";
    EntriesEnd = "no end of the entries";
    EntryLong = "entry goes past the end";
    ValueLong { bytes: u32 } = "value too long";
    ValueInEntries = "value overlaps the entries";
    ValuePastEnd = "value goes past the end";
    ValuesOverlap = "values overlap";
    NameZero = "zero byte in the name";
    HasAttributes = "holds a value and has attributes";
    HoldsNoValue = "the inode holds no value";
    ValueSize = "size is not the one that the entry says";
    ValueHash = "the hash of the value is another one";
    ValueHole = "the value has a hole";
    MoreEntries = "more entries than references";
    NoAcl = "the value is no list";
    DataAttribute = "the attribute of its data is missing";
    AttributesWithoutFeature = "attributes without the feature";
    OwnAttributes = "it has attributes of its own";
    XattrOutside = "it is outside the data area";
    XattrShared = "it has another owner as well";
    EntryHash = "the hash is not that of name and value";
    EmptyValueBehind = "an empty value is behind the end";
    NoPrefix = "its name has no prefix";
    ValueImpossible = "no inode can hold its value";
    References = "the reference count is wrong";
    NotRegular = "it is no regular file";
    ValueLinks = "its link count is not 1";
    NamedHoldsNone = "the inode that it names holds no value";
    OtherSize = "the value has another size";
    // Quota, orphans.
    TwoParents { block: u32 } = "a node has two parents";
    BlockOutsideFile { block: u32 } = "a node names a block outside the file";
    NodeAndEntries = "a node is a block of entries, too";
    EntryElsewhere = "an entry is not in the block that the tree names";
    FreeListOutside = "the list of blocks with room leaves the file";
    BlockBehindEnd = "a block is behind the end";
    MoreBlocks = "says that it has more blocks than it has";
    UsageWrong = "it says otherwise what its owners use";
    NoSuchEntry = "has no such entry";
    Hole = "has a hole";
    Full = "has no space";
    OrphanFileWithoutJournal = "an orphan file without a journal";
    OrphansClaimed = "it names no orphans, and the superblock says that there are some";
    OrphansDenied = "it names orphans, and the superblock says that there are none";
    // Journal.
    RevokeCount { bytes: u32 } = "count is too large";
    NotSuperblock = "not a superblock";
    TwoChecksums = "checksums v2 and v3 together";
    FirstOutside { first: u32, len: u32 } = "first block is outside the log";
    StartOutside { start: u32 } = "start is outside the log";
    Unmapped = "block is not mapped";
    OtherBlockSize { found: u32, expected: u32 } = "block size differs from the file system's";
    LongerThanFile { blocks: u32, file: u32 } = "log is longer than its file";
    HomeOutside { block: u64 } = "block is outside the file system";
    NoJournal = "no usable journal";
    JournalNeverWritten = "has blocks that were never written";
    JournalHoles = "has holes or lies outside the file system";
    JournalMetadata = "has holes, or blocks that hold other metadata";
    JournalShort = "is longer than what it maps";
    JournalTwice = "has a block twice, or one of its map or of MMP";
    Stopped = "an error stopped it";
    FieldsOfVersion2 = "fields of version 2 in version 1";
    SeveralUsers = "an internal journal with several users";
    UnreplayedRecords = "it holds records, and the superblock does not ask for replay";
    // Fast commits.
    FcOutside = "maps blocks outside the data area";
    FcMisaligned = "maps blocks that are not aligned to their cluster";
    FcInUse = "maps blocks that are in use";
    FcFreeInode = "maps blocks of a free inode";
    FcInline = "maps blocks of a file whose data are in its inode";
    FcTwoPlaces = "maps a cluster to two places";
    FcOtherType = "gives an inode another type";
    FcIntoInode = "moves data of a file with a map into its inode";
    FcReserved = "names an inode of the file system itself";
    FcName = "has a bad name";
    FcNoDirectory = "has a name in what is no directory";
    FcFree = "names an inode that is free";
    FcSecondName = "is a directory with a second name";
}

impl fmt::Display for CorruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phrase())?;
        let mut separator = " (";
        self.numbers(&mut |name, number| {
            let before = std::mem::replace(&mut separator, ", ");
            write!(f, "{before}{name} {number}")
        })?;
        if separator == ", " {
            f.write_str(")")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_phrase_by_name() {
        assert_eq!(CorruptKind::Hole.to_string(), "has a hole");
        let (stored, computed) = (Hex(0x12), Hex(0xABC));
        assert_eq!(
            CorruptKind::Checksum { stored, computed }.to_string(),
            "checksum does not match (stored 0x12, computed 0xabc)"
        );
        assert_eq!(CorruptKind::Depth { found: 9 }.phrase(), "unexpected depth");
    }

    #[test]
    fn a_kind_is_no_larger_than_a_phrase() {
        assert!(size_of::<CorruptKind>() <= size_of::<&str>());
    }
}
