//! Options of a new file system.

use uext4_format::{BlockNr, Feature, Features};

use crate::error::Error;

/// Current content of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceContents {
    /// All zero, as in a fresh sparse file. Zero blocks are not written.
    Zeroed,
    /// Anything. Zero blocks are written.
    Unknown,
}

/// Treatment of inode tables on a device of unknown content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeTables {
    /// Where descriptors have checksums, unused parts are left for the mounting system to zero.
    Lazy,
    /// All tables are zeroed.
    Zero,
}

/// Places of bitmaps, inode tables and the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In every flexible group its own, and the journal in the middle, as mke2fs does.
    Spread,
    /// All in the first free blocks, behind the files that are there already. Needs `flex_bg`. The
    /// last group may be of any length that holds its superblock copy and descriptors.
    Packed,
}

/// The file system types of mke2fs, by their features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// No journal, no extents.
    Ext2,
    /// As ext2, with a journal.
    Ext3,
    /// The default of mke2fs 1.47.
    Ext4,
}

impl Preset {
    /// The features that mke2fs gives this type by default.
    pub const fn features(self) -> Features {
        const EXT2: Features = Features::of(&[
            Feature::SPARSE_SUPER,
            Feature::LARGE_FILE,
            Feature::FILETYPE,
            Feature::RESIZE_INODE,
            Feature::DIR_INDEX,
            Feature::EXT_ATTR,
        ]);
        const EXT3: Features = EXT2.union(Features::of(&[Feature::HAS_JOURNAL]));
        const EXT4: Features = EXT3.union(Features::of(&[
            Feature::EXTENTS,
            Feature::HUGE_FILE,
            Feature::FLEX_BG,
            Feature::METADATA_CSUM,
            Feature::CSUM_SEED,
            Feature::SIXTY_FOUR_BIT,
            Feature::DIR_NLINK,
            Feature::EXTRA_ISIZE,
            Feature::ORPHAN_FILE,
        ]));
        match self {
            Preset::Ext2 => EXT2,
            Preset::Ext3 => EXT3,
            Preset::Ext4 => EXT4,
        }
    }
}

/// Usage type: determines default block size and inode ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Below 3 MiB: blocks of 1 KiB, an inode for every 8 KiB.
    Floppy,
    /// Below 512 MiB: blocks of 1 KiB, an inode for every 4 KiB.
    Small,
    /// Blocks of 4 KiB, an inode for every 16 KiB.
    Default,
    /// From 4 TiB: an inode for every 32 KiB.
    Big,
    /// From 16 TiB: an inode for every 64 KiB.
    Huge,
}

impl Usage {
    /// The default usage type of this size.
    pub fn of_size(size_bytes: u64) -> Usage {
        const MIB: u64 = 1 << 20;
        const TIB: u64 = 1 << 40;
        let steps = [
            (3 * MIB, Usage::Floppy),
            (512 * MIB, Usage::Small),
            (4 * TIB, Usage::Default),
            (16 * TIB, Usage::Big),
        ];
        let step = steps.into_iter().find(|(below, _)| size_bytes < *below);
        step.map_or(Usage::Huge, |(_, usage)| usage)
    }

    pub(super) fn block_size(self) -> u32 {
        match self {
            Usage::Floppy | Usage::Small => 1024,
            Usage::Default | Usage::Big | Usage::Huge => 4096,
        }
    }

    pub(super) fn bytes_per_inode(self) -> u64 {
        match self {
            Usage::Floppy => 8 << 10,
            Usage::Small => 4 << 10,
            Usage::Default => 16 << 10,
            Usage::Big => 32 << 10,
            Usage::Huge => 64 << 10,
        }
    }
}

/// How the number of inodes is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeCount {
    /// As many as the bytes per inode of the usage type give.
    Usage,
    /// One for every this many bytes.
    BytesPerInode(u64),
    /// At least this many.
    AtLeast(u32),
}

/// How the length of the journal is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSize {
    /// By the size of the file system; none below 2048 blocks.
    Auto,
    /// The length in MiB, whatever the block size.
    Mib(u32),
    /// The length in blocks of the file system.
    Blocks(u32),
}

/// Where the journal begins: there, or in the next free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPlace {
    /// This block of the file system.
    Block(u64),
    /// This byte of the device.
    Byte(u64),
}

impl JournalPlace {
    /// The block, with blocks of `1 << block_bits` bytes.
    pub fn block(self, block_bits: u32) -> BlockNr {
        match self {
            Self::Block(block) => BlockNr(block),
            Self::Byte(byte) => BlockNr(byte >> block_bits),
        }
    }
}

/// The external journal that a new file system uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalJournal {
    /// UUID of the journal device.
    pub uuid: [u8; 16],
    /// Its device number, as a hint for the kernel: major times 256 plus minor; 0 is none.
    pub device_number: u32,
}

/// Options for [`crate::format`]. `None` is mke2fs's choice.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// The features; see [`Preset::features`] and [`Features::apply_list`].
    pub features: Features,
    /// The usage type (`-T`), which chooses the inode ratio.
    pub usage: Option<Usage>,
    /// Bytes of a block: a power of two from 1024 to 65536.
    pub block_size: Option<u32>,
    /// Bytes of a cluster, with `bigalloc`; by default 16 blocks.
    pub cluster_size: Option<u32>,
    /// Bytes of an inode; by default 256.
    pub inode_size: Option<u16>,
    /// The number of inodes, or their ratio.
    pub inodes: InodeCount,
    /// Blocks of the file system; by default all that the device holds.
    pub blocks_count: Option<u64>,
    /// Blocks of a group, a multiple of 8; by default as many as a bitmap describes.
    pub blocks_per_group: Option<u32>,
    /// Groups of a flexible group, a power of two.
    pub groups_per_flex: u32,
    /// Blocks reserved for the superuser, in hundredths of a percent.
    pub reserved_permyriad: u32,
    /// Volume label, at most 16 bytes.
    pub label: Vec<u8>,
    /// UUID; random by default.
    pub uuid: Option<[u8; 16]>,
    /// Seed of directory hashes; random by default.
    pub hash_seed: Option<[u8; 16]>,
    /// Creation time in seconds since 1970; by default the clock's.
    pub time: Option<u64>,
    /// Length of the internal journal.
    pub journal: JournalSize,
    /// KiB for fast commits behind it, with the feature `fast_commit`; by default a 64th of it.
    pub fast_commit_kib: Option<u32>,
    /// Place of the journal; by default in the middle.
    pub journal_place: Option<JournalPlace>,
    /// A journal on another device, instead of an internal one. The file system must be registered
    /// there: see [`crate::add_journal_user`].
    pub external_journal: Option<ExternalJournal>,
    /// Blocks of the orphan file.
    pub orphan_file_blocks: Option<u32>,
    /// Size in blocks that the file system may grow to without moving data; by default 1024 times
    /// its own.
    pub resize_max_blocks: Option<u64>,
    /// RAID chunk in blocks.
    pub raid_stride: u16,
    /// RAID stripe in blocks.
    pub raid_stripe_width: u32,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
    /// Current content of the device.
    pub contents: DeviceContents,
    /// Treatment of inode tables.
    pub inode_tables: InodeTables,
    /// Places of group metadata.
    pub placement: Placement,
}

impl MkfsOptions {
    /// mke2fs's defaults for this type.
    pub fn new(preset: Preset) -> MkfsOptions {
        MkfsOptions {
            features: preset.features(),
            usage: None,
            block_size: None,
            cluster_size: None,
            inode_size: None,
            inodes: InodeCount::Usage,
            blocks_count: None,
            blocks_per_group: None,
            groups_per_flex: 16,
            reserved_permyriad: 500,
            label: Vec::new(),
            uuid: None,
            hash_seed: None,
            time: None,
            journal: JournalSize::Auto,
            fast_commit_kib: None,
            journal_place: None,
            external_journal: None,
            orphan_file_blocks: None,
            resize_max_blocks: None,
            raid_stride: 0,
            raid_stripe_width: 0,
            root_owner: (0, 0),
            contents: DeviceContents::Unknown,
            inode_tables: InodeTables::Lazy,
            placement: Placement::Spread,
        }
    }

    /// Fails if the placement needs a feature that is not chosen.
    pub(crate) fn check_placement(&self) -> Result<(), Error> {
        let is_packed = self.placement == Placement::Packed;
        if is_packed && !self.features.has(Feature::FLEX_BG) {
            return Err(Error::OutOfRange(
                "packed metadata need the feature flex_bg",
            ));
        }
        Ok(())
    }
}
