//! The result of a build.

use uext4_format::{Geometry, Superblock};
use uext4_mkfs::Draft;

/// The first symbolic link that was followed, and how many there were.
pub(crate) type Followed = Option<(Vec<u8>, u64)>;

/// Properties of an image that was built.
#[derive(Clone, Debug)]
pub struct BuildReport {
    /// The primary superblock, as written.
    pub superblock: Superblock,
    /// Geometry of the image, as the superblock gives it.
    pub geometry: Geometry,
    /// Length of the journal in blocks; 0: none.
    pub journal_blocks: u32,
    /// Files of the tree, each counted once.
    pub files: u64,
    /// Symbolic links of lower layers that an upper layer has as a directory without an entry, so
    /// that its files are where the link leads: the first such path, and how many there are.
    pub followed: Option<(Vec<u8>, u64)>,
}

impl BuildReport {
    pub(crate) fn new(draft: Draft, files: u64, followed: Followed) -> BuildReport {
        BuildReport {
            journal_blocks: draft.journal_blocks(),
            files,
            followed,
            geometry: draft.geometry,
            superblock: draft.superblock,
        }
    }
}
