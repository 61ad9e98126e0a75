//! The table of problems: for each structure and problem, what the repair works on and does, and
//! whether preen makes it. Messages, `--explain` and the manual are made from it.
//!
//! A code is the structure and the name of the problem, for example `inode.blocks-wrong`: stable,
//! because programs compare it.

use uext4_format::{Corrupt, CorruptKind, DamageLocation, Geometry};

/// What a repair works on. Repairs are made in this order: each relies on those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Area {
    Superblock,
    Descriptor,
    Log,
    Mmp,
    OrphanFile,
    Inode,
    Map,
    ResizeInode,
    Attributes,
    ReservedInode,
    OwnInode,
    SizeAndBlocks,
    InodeBitmap,
    Directory,
    Connection,
    Links,
    BlockBitmap,
    Quota,
}

impl Area {
    /// Whether its repairs count what others use, so that they would free what cannot be read.
    pub(crate) fn counts(self) -> bool {
        self >= Area::InodeBitmap
    }
}

/// Whether preen makes a repair without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preen {
    /// It loses nothing.
    Repairs,
    /// A person has to decide.
    Stops,
}

/// What is known about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    structure: &'static str,
    /// [`CorruptKind::name`]; `*` for each one that has no row of its own.
    name: &'static str,
    pub(crate) area: Area,
    /// Whether preen repairs it.
    pub preen: Preen,
    /// What the repair does.
    pub repair: &'static str,
}

impl Problem {
    /// The row of a finding; `None` if it cannot be repaired.
    pub fn of(corrupt: &Corrupt) -> Option<&'static Problem> {
        Self::find(corrupt.structure, corrupt.problem.name())
    }

    fn find(structure: &str, name: &str) -> Option<&'static Problem> {
        let rows = || PROBLEMS.iter().filter(|row| row.structure == structure);
        let own = rows().find(|row| row.name == name);
        own.or_else(|| rows().find(|row| row.name == ANY))
    }

    /// The problem that a code names, with its phrase.
    pub fn of_code(code: &str) -> Option<(&'static Problem, &'static str)> {
        let (structure, name) = code.split_once('.')?;
        let structure = structure.replace('-', " ");
        let (name, phrase) = CorruptKind::NAMES
            .iter()
            .find(|(known, _)| kebab(known) == name)?;
        Some((Self::find(&structure, name)?, phrase))
    }

    /// The codes with a row of their own, in the order of repairs.
    pub fn codes() -> impl Iterator<Item = String> {
        let own = PROBLEMS.iter().filter(|row| row.name != ANY);
        own.map(|row| code_of(row.structure, row.name))
    }
}

/// The code of a problem of a structure.
pub fn code(corrupt: &Corrupt) -> String {
    code_of(corrupt.structure, corrupt.problem.name())
}

fn code_of(structure: &str, name: &str) -> String {
    format!("{}.{}", structure.replace(' ', "-"), kebab(name))
}

/// `BlocksWrong` as `blocks-wrong`.
fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// What one repair works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    pub(crate) area: Area,
    /// Its group, inode or block; 0 for what there is once.
    pub(crate) nr: u64,
}

impl Task {
    pub(crate) fn of(area: Area, place: DamageLocation, geometry: &Geometry) -> Self {
        let nr = match place {
            DamageLocation::Superblock | DamageLocation::JournalBlock(_) => 0,
            DamageLocation::Group(group) => group.0.into(),
            DamageLocation::Inode(nr) if area == Area::InodeBitmap => {
                let place = geometry.split_inode(nr);
                place.map_or(0, |(group, _)| group.0.into())
            }
            DamageLocation::Inode(nr) => nr.0.into(),
            DamageLocation::InodeBlock(_, block) if area == Area::Attributes => block.0,
            DamageLocation::InodeBlock(nr, _) => nr.0.into(),
            DamageLocation::Block(block) => block.0,
        };
        Self { area, nr }
    }
}

/// The name of a row for all problems of its structure that have none of their own.
const ANY: &str = "*";

macro_rules! table {
    ($($structure:literal, $name:tt, $area:ident, $preen:ident, $repair:literal;)*) => {
        const PROBLEMS: &[Problem] = &[$(Problem {
            structure: $structure,
            name: table!(@name $name),
            area: Area::$area,
            preen: Preen::$preen,
            repair: $repair,
        }),*];
    };
    (@name *) => { ANY };
    (@name $name:ident) => {{
        // The name of a kind that exists.
        const _: fn(&CorruptKind) -> bool = |kind| matches!(kind, CorruptKind::$name { .. });
        stringify!($name)
    }};
}

table! {
    "primary superblock", FirstMetaGroup, Superblock, Stops, "clears the feature meta_bg";
    "primary superblock", *, Superblock, Stops, "is taken from a backup";
    "superblock", TwoSeals, Superblock, Repairs, "clears the feature uninit_bg";
    "superblock", SeedWithoutChecksums, Superblock, Repairs,
        "clears the feature metadata_csum_seed";
    "superblock", OrphanFileWithoutJournal, Superblock, Repairs, "clears the feature orphan_file";
    "superblock", DescriptorSizes, Superblock, Stops, "stores the size that the features imply";
    "superblock", ExtraSizes, Superblock, Stops, "stores the usual size";
    "superblock", QuotaNumber, Superblock, Stops, "stores the number that the quota file must have";
    "superblock", JournalWithoutFeature, Superblock, Repairs, "forgets the journal";
    "superblock", ReplayWithoutJournal, Superblock, Repairs, "clears the feature needs_recovery";
    "superblock", TwoJournals, Superblock, Stops, "forgets the external journal";
    "superblock", MmpOutside, Superblock, Repairs, "clears the feature mmp";
    "mmp block", Magic, Mmp, Repairs, "clears the feature mmp";
    "mmp block", *, Mmp, Repairs, "writes it anew, for a file system without a mount";
    "group descriptor", Checksum, Descriptor, Repairs,
        "computes it anew, and treats all inodes of the group as used before";
    "group descriptor", FreeClusters, Descriptor, Repairs, "counts again";
    "group descriptor", InodeCounts, Descriptor, Repairs, "counts again";
    "group descriptor", UnwrittenGroup, Descriptor, Repairs, "clears the flags";
    "group descriptor", BlockBitmapRange, Descriptor, Stops,
        "takes the place from a backup, or a new one";
    "group descriptor", InodeBitmapRange, Descriptor, Stops,
        "takes the place from a backup, or a new one";
    "group descriptor", InodeTableRange, Descriptor, Stops,
        "takes the place from a backup, or searches for the table; else makes an empty one";
    "group descriptor", GroupOverlap, Descriptor, Stops,
        "moves what is not where it belongs";
    "group descriptor", FreeInodesWrong, InodeBitmap, Repairs, "counts again";
    "group descriptor", DirectoriesWrong, InodeBitmap, Repairs, "counts again";
    "group descriptor", FreeClustersWrong, BlockBitmap, Repairs, "counts again";
    "journal", Stopped, Log, Repairs, "clears the error, because this check follows it";
    "journal", FieldsOfVersion2, Log, Repairs, "clears these fields";
    "journal", SeveralUsers, Log, Repairs, "says that one file system uses it";
    "journal", UnreplayedRecords, Log, Stops,
        "empties the journal; changes that only it held are lost";
    "journal superblock", *, Log, Stops,
        "makes a new one; changes that only the journal held are lost";
    "orphan file", OrphansClaimed, OrphanFile, Repairs, "says that there are none";
    "orphan file", *, OrphanFile, Repairs, "empties it; the file is given up if it cannot be read";
    "orphan file block", *, OrphanFile, Repairs, "empties it";
    "superblock", ReservedWithoutFeature, Superblock, Repairs, "reserves none";
    "superblock", LargeWithoutFeature, Superblock, Repairs, "sets the feature large_file";
    "inode", ExtentsWithoutFeature, Superblock, Stops, "sets the feature extent";
    "xattr block", AttributesWithoutFeature, Superblock, Stops, "sets the feature ext_attr";
    "inode", Checksum, Inode, Stops, "computes it anew; an inode without sense is cleared";
    "inode", ExtraSize, Inode, Repairs,
        "stores the size behind which attributes begin, or the usual one";
    "inode", SizeRange, Inode, Repairs, "stores a size that covers its blocks";
    "inode", NoFileType, Inode, Stops,
        "stores the type that its content has; an inode without sense is cleared";
    "inode", SeemsDirectory, Inode, Stops, "stores the type of a directory";
    "inode", ContextMissing, Inode, Stops, "clears the flag";
    "inode", ContextDamaged, Inode, Stops, "clears the flag: the file holds what is stored";
    "inode", InUseDeleted, Inode, Repairs, "clears the time of deletion";
    "inode", SizeHighWrong, Inode, Repairs, "clears the high part";
    "inode", FragmentAddress, Inode, Repairs, "clears the address";
    "inode", SizeOfNone, Inode, Repairs, "clears the size";
    "inode", Flag, Inode, Stops,
        "clears the flag, or sets the feature that it needs if the file was made with that";
    "inode", NeverDeleted, Inode, Repairs, "stores the present time";
    "inode", OrphanGone, Inode, Stops, "stores the present time, or none for an inode in use";
    "inode", TableInClusters, Map, Stops, "maps the same blocks by extents";
    "extent header", *, Map, Stops, "makes a new map of the extents that can be read";
    "extent", *, Map, Stops, "makes a new map of the extents that can be read";
    "extent index", *, Map, Stops, "makes a new map of the extents that can be read";
    "extent block", *, Map, Stops, "makes a new map of the extents that can be read";
    "indirect block", *, Map, Stops, "clears the pointers that lead nowhere";
    "inode map", NeverWritten, Map, Repairs, "marks the blocks as written";
    "inode map", DataShared, Map, Stops, "gives the inode copies of the blocks";
    "inode map", Misaligned, Map, Stops, "moves the blocks to clusters where they fit";
    "inode map", *, Map, Stops, "makes a new map of the blocks that can be read";
    "resize inode", *, ResizeInode, Stops, "makes it anew, or clears it without the feature";
    "extended attribute", *, Attributes, Stops, "keeps the attributes without damage";
    "xattr block", XattrOutside, Attributes, Stops, "lets the inode have no attribute block";
    "xattr block", XattrShared, Attributes, Stops,
        "gives the inode a copy if the block holds attributes, else none";
    "xattr block", References, Attributes, Stops, "stores the number of inodes that refer to it";
    "xattr block", *, Attributes, Stops, "keeps the attributes without damage";
    "xattr entry", EntryHash, Attributes, Repairs, "computes it anew";
    "xattr entry", EmptyValueBehind, Attributes, Repairs, "clears the offset";
    "xattr entry", *, Attributes, Stops,
        "removes the attribute, or lets it fit the inode of its value";
    "value inode", References, Attributes, Repairs,
        "stores the number of attributes that refer to it; without any it is an ordinary file";
    "value inode", ValueLinks, Attributes, Stops, "stores 1";
    "value inode", *, Attributes, Stops, "lets it have no attributes, or be an ordinary file";
    "inline data", DataAttribute, Attributes, Stops,
        "adds the attribute, or clears the flag if the inode holds no data";
    "reserved inode", BlockListDeep, ReservedInode, Stops, "clears all but the list";
    "reserved inode", *, ReservedInode, Repairs,
        "clears the inode; the boot loader's becomes a regular file";
    "root directory", *, OwnInode, Stops,
        "makes a new one, and lets the superblock name no other file of its number";
    "journal inode", *, OwnInode, Stops,
        "takes it from the superblock's copy, or gives up the journal";
    "quota file", InodeFree, OwnInode, Stops, "makes an empty one, for the quota pass";
    "quota file", *, OwnInode, Stops, "gives it up: the superblock forgets it, and the file stays";
    "inode", BlocksWrong, SizeAndBlocks, Repairs, "counts again";
    "inode", SizeWrong, SizeAndBlocks, Repairs,
        "stores the size that covers its blocks, or closes holes if there are as many as it says";
    "symbolic link", TargetLength, SizeAndBlocks, Stops,
        "stores the length of its target; a link without one is cleared";
    "inode bitmap", *, InodeBitmap, Repairs, "marks the inodes in use, and no others";
    "directory leaf", *, Directory, Repairs,
        "computes it anew; entries that the block hides come back";
    "directory entry", RecordAtEnd, Directory, Stops,
        "keeps the entries of the block that can be told";
    "directory entry", RecordShort, Directory, Stops,
        "keeps the entries of the block that can be told";
    "directory entry", RecordUneven, Directory, Stops,
        "keeps the entries of the block that can be told";
    "directory entry", RecordLong, Directory, Stops,
        "keeps the entries of the block that can be told";
    "directory entry", NameLong, Directory, Stops, "keeps the part of the name that fits";
    "directory entry", NameEmpty, Directory, Stops, "names the file by its number";
    "directory entry", NameEncryptedShort, Directory, Stops, "removes the entry";
    "directory entry", NotWhereItBelongs, Directory, Stops, "removes the entry";
    "directory entry", NameBytes, Directory, Stops, "puts dots in their place";
    "directory entry", InodeNumber, Directory, Stops, "removes the entry";
    "directory entry", BelowItself, Directory, Stops, "removes the entry";
    "directory entry", InodeUnnameable, Directory, Stops, "removes the entry";
    "directory entry", InodeFreeOrDamaged, Directory, Repairs, "removes the entry";
    "directory entry", NotEncrypted, Directory, Stops, "removes the entry";
    "directory entry", PolicyOther, Directory, Stops, "removes the entry";
    "directory entry", EntryType, Directory, Stops, "stores the type of the inode";
    "directory entry", LookedElsewhere, Directory, Stops, "builds the index anew";
    "directory entry", NameTwice, Directory, Stops,
        "adds a number to the name, or removes the entry if it is the same file";
    "directory entry", DirectoryTwice, Directory, Stops,
        "removes the name that \"..\" does not confirm";
    "directory", Holes, Directory, Stops, "builds it anew from its entries";
    "directory", DotsElsewhere, Directory, Stops, "makes both again";
    "directory", DotsUnended, Directory, Stops, "puts a zero byte there";
    "directory", DotDotElsewhere, Directory, Stops,
        "lets it lead to the directory that has the name";
    "directory", InsideItself, Connection, Stops, "moves it to lost+found";
    "inline directory", AttributeMissing, Directory, Stops, "adds an empty one";
    "htree", *, Directory, Stops, "builds the index anew";
    "htree root", *, Directory, Repairs, "builds the index anew";
    "htree node", Checksum, Directory, Repairs, "computes it anew";
    "htree node", ChecksumSpace, Directory, Repairs, "builds the index anew";
    "htree node", Limit, Directory, Repairs, "builds the index anew";
    "htree node", NodeCount, Directory, Repairs, "builds the index anew";
    "htree node", HashOrder, Directory, Repairs, "builds the index anew";
    "htree node", *, Directory, Stops, "builds the index anew";
    "inode", Unnamed, Connection, Stops, "gives it a name in lost+found";
    "inode", UnnamedEmpty, Links, Repairs, "frees it";
    "inode", LinksWrong, Links, Repairs, "stores the number of its names";
    "block bitmap", *, BlockBitmap, Repairs, "marks the clusters in use, and no others";
    "quota usage", *, Quota, Repairs, "stores what the owners use, and keeps their limits";
    "quota tree", *, Quota, Stops,
        "makes a new one of what the owners use, with the limits that can be read";
}
