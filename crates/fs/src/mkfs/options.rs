//! What a new file system shall be like.

use uext4_format::{Feature, Features};

use super::ExternalJournal;

/// What is on the device now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceContents {
    /// All of it reads as zero: a fresh sparse file. What has to be zero is not written.
    Zeroed,
    /// Anything. What has to be zero is written.
    Unknown,
}

/// What to do with inode tables on a device of unknown contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeTables {
    /// Where descriptors have checksums, leave what is not in use as it is, for whoever mounts.
    Lazy,
    /// Write zeroes over all of them.
    Zero,
}

/// The file system types of mke2fs, as far as they choose features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// No journal, no extents.
    Ext2,
    /// A journal.
    Ext3,
    /// What mke2fs 1.47 makes by default.
    Ext4,
}

impl Preset {
    /// The features.
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

/// What the file system is for: chooses block size and inode ratio where they are not given.
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
    /// The usage that the size suggests.
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

/// How many inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeCount {
    /// As the usage says.
    Usage,
    /// One for every so many bytes.
    BytesPerInode(u64),
    /// At least this many.
    AtLeast(u32),
}

/// How large the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSize {
    /// As the size of the file system suggests; none below 2048 blocks.
    Auto,
    /// So many MiB.
    Mib(u32),
    /// So many blocks.
    Blocks(u32),
}

/// A wish list for [`super::format`]. `None` is "as mke2fs would choose".
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// The features; see [`Preset::features`] and [`Features::apply_list`].
    pub features: Features,
    /// What the file system is for.
    pub usage: Option<Usage>,
    /// Bytes of a block: a power of two from 1024 to 65536.
    pub block_size: Option<u32>,
    /// Bytes of a cluster, with `bigalloc`; by default 16 blocks.
    pub cluster_size: Option<u32>,
    /// Bytes of an inode; by default 256.
    pub inode_size: Option<u16>,
    /// How many inodes.
    pub inodes: InodeCount,
    /// Blocks of the file system; by default all that the device holds.
    pub blocks_count: Option<u64>,
    /// Blocks of a group, a multiple of 8; by default as many as a bitmap describes.
    pub blocks_per_group: Option<u32>,
    /// Groups of a flexible group, a power of two.
    pub groups_per_flex: u32,
    /// Blocks for the privileged user, in hundredths of a percent.
    pub reserved_permyriad: u32,
    /// Volume label, at most 16 bytes.
    pub label: Vec<u8>,
    /// UUID; random by default.
    pub uuid: Option<[u8; 16]>,
    /// Seed of directory hashes; random by default.
    pub hash_seed: Option<[u8; 16]>,
    /// Seconds since 1970; the clock's by default.
    pub time: Option<u64>,
    /// How large the journal is.
    pub journal: JournalSize,
    /// A journal on another device, in place of one inside; the file system still has to be
    /// entered there: see [`super::add_journal_user`].
    pub external_journal: Option<ExternalJournal>,
    /// Blocks of the orphan file.
    pub orphan_file_blocks: Option<u32>,
    /// Blocks that the file system may grow to without moving data; by default 1024 times as many.
    pub resize_max_blocks: Option<u64>,
    /// RAID chunk in blocks.
    pub raid_stride: u16,
    /// RAID stripe in blocks.
    pub raid_stripe_width: u32,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
    /// What is on the device now.
    pub contents: DeviceContents,
    /// What to do with inode tables.
    pub inode_tables: InodeTables,
}

impl MkfsOptions {
    /// What mke2fs does by default for this type.
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
            external_journal: None,
            orphan_file_blocks: None,
            resize_max_blocks: None,
            raid_stride: 0,
            raid_stripe_width: 0,
            root_owner: (0, 0),
            contents: DeviceContents::Unknown,
            inode_tables: InodeTables::Lazy,
        }
    }
}
