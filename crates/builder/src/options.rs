//! Options of an image.

use uext4_mkfs::{DeviceContents, MkfsOptions, Placement, Preset};

/// Block size of images, unless the options say otherwise.
const BLOCK_BYTES: u32 = 4096;
/// Blocks of the orphan file, unless the options say otherwise: an image is to be small.
const ORPHAN_FILE_BLOCKS: u32 = 32;

/// Size of an image: given, or by the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many bytes, rounded down to whole blocks.
    Bytes(u64),
    /// As few blocks as hold the tree.
    Min,
    /// As few, and this share of them besides, with the inodes that mke2fs gives to so much space
    /// unless the options give their number.
    MinPlusPercent(u32),
}

/// Places of bitmaps and inode tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Behind the contents: as many as the tree needs.
    Behind,
    /// At the start of the image, before all contents. Their number must be known before the tree
    /// is, so the image needs a size in bytes.
    Front,
}

/// Places of contents, directories and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRule {
    /// One after the other, without gaps.
    Packed,
    /// By path and size, with gaps, so that a changed file changes few blocks. The image needs a
    /// size in bytes, about twice that of the contents. UUID, hash seed and the time of the file
    /// system follow from the options, the time being 1970 by default; bitmaps and tables are at
    /// the start. The feature `quota` is refused.
    DiffFriendly,
}

/// Size, format and layout of an image, and the threads that read for it.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Size of the image, in bytes or by the tree.
    pub size: Size,
    /// The file system. What is `None` here and random in mkfs follows from the tree: UUID and hash
    /// seed from all of it, the time from its latest change. [`uext4_mkfs::InodeCount`]`::Usage`
    /// means just enough inodes where the size is not given.
    pub format: MkfsOptions,
    /// Places of bitmaps and inode tables.
    pub tables: Tables,
    /// Places of everything else.
    pub places: PlacementRule,
    /// Threads that read files ahead. The image does not depend on it.
    pub threads: usize,
}

impl BuildOptions {
    /// ext4 as mke2fs makes it, in blocks of 4 KiB, with an orphan file of 32 blocks. Images
    /// without a given size reserve no blocks for the superuser.
    pub fn new(size: Size) -> BuildOptions {
        let mut format = MkfsOptions::new(Preset::Ext4);
        format.block_size = Some(BLOCK_BYTES);
        format.orphan_file_blocks = Some(ORPHAN_FILE_BLOCKS);
        format.placement = Placement::Packed;
        format.contents = DeviceContents::Zeroed;
        if !matches!(size, Size::Bytes(_)) {
            format.reserved_permyriad = 0;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        BuildOptions {
            size,
            format,
            tables: Tables::Behind,
            places: PlacementRule::Packed,
            threads,
        }
    }
}

/// The time of `SOURCE_DATE_EPOCH` in seconds, if the environment has it.
///
/// # Errors
/// Its value, if it is no number.
pub fn source_date_epoch() -> Result<Option<u64>, String> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let text = value.to_string_lossy();
    text.parse().map(Some).map_err(|_| text.into_owned())
}
