//! Configuration shared by all directories of a file system.

use uext4_format::dirent::{DirEntryType, LeafTail};
use uext4_format::hash::{DirHasher, HashVersion};
use uext4_format::htree::MaxLevels;
use uext4_format::{Feature, FileType, Superblock};
use uext4_num::clamp_u32;
use uext4_sync::atomic::{AtomicU32, Ordering};

/// Features, limits and the hash of new directories.
pub(crate) struct DirConfig {
    /// Whether leaves and nodes end with a checksum.
    pub(crate) tail: LeafTail,
    /// Whether new directories may get an index (`dir_index`).
    pub(crate) index: bool,
    /// Whether entries carry a file type (`filetype`).
    pub(crate) file_types: bool,
    /// Greatest depth of an index (`large_dir`).
    pub(crate) levels: MaxLevels,
    /// Most blocks of a directory that the format allows.
    format_max: u64,
    block_size: u64,
    /// Most blocks of a directory, by the format and `max_dir_size_kb`.
    max_blocks: AtomicU32,
    /// The hash of new indexes; existing ones name their own version.
    pub(crate) hasher: DirHasher,
}

/// Index entries hold block numbers of 28 bits.
const INDEX_BLOCKS_MAX: u64 = 1 << 28;

impl DirConfig {
    /// From the superblock; `max_dir_size_kib` is the mount option of that name.
    pub(crate) fn new(superblock: &Superblock, max_dir_size_kib: Option<u64>) -> Self {
        let features = superblock.features();
        let large = features.has(Feature::LARGE_DIR);
        let checksums = features.has(Feature::METADATA_CSUM);
        let block_size = 1024_u64 << superblock.log_block_size.min(6);
        // Without `large_dir` the upper half of a directory's size is not valid.
        let format_max = if large { u64::MAX } else { u64::from(u32::MAX) } / block_size;
        let config = Self {
            tail: if checksums {
                LeafTail::Checksum
            } else {
                LeafTail::None
            },
            index: features.has(Feature::DIR_INDEX),
            file_types: features.has(Feature::FILETYPE),
            levels: if large {
                MaxLevels::Three
            } else {
                MaxLevels::Two
            },
            format_max: format_max.min(INDEX_BLOCKS_MAX),
            block_size,
            max_blocks: AtomicU32::new(0),
            hasher: DirHasher::of(superblock),
        };
        config.set_max_size(max_dir_size_kib);
        config
    }

    /// Sets the mount option `max_dir_size_kb`.
    pub(crate) fn set_max_size(&self, max_dir_size_kib: Option<u64>) {
        let asked = max_dir_size_kib.map(|kib| kib.saturating_mul(1024) / self.block_size);
        let max = asked.map_or(self.format_max, |blocks| blocks.clamp(1, self.format_max));
        self.max_blocks.store(clamp_u32(max), Ordering::Relaxed);
    }

    /// Most blocks of a directory.
    pub(crate) fn max_blocks(&self) -> u32 {
        self.max_blocks.load(Ordering::Relaxed)
    }

    /// The type code of an entry for a file of this type.
    pub(crate) fn entry_type(&self, kind: FileType) -> DirEntryType {
        if self.file_types {
            DirEntryType::from(kind)
        } else {
            DirEntryType::Unknown
        }
    }

    /// The hash of an index that names `version`.
    pub(crate) fn hasher(&self, version: HashVersion) -> DirHasher {
        DirHasher {
            version,
            ..self.hasher
        }
    }
}
