//! Checksum rules of metadata blocks.

use uext4_format::extent::ExtentNode;
use uext4_format::xattr::XattrBlock;
use uext4_format::{BlockNr, Corrupt, DamageLocation, Seed, dirent};

/// Checksum rule of a metadata block. Seeds are raw crc32c states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// No checksum (indirect blocks). Without `metadata_csum`, other blocks keep their variants.
    Indirect,
    /// Extent tree node of the inode with this seed.
    Extent(Seed),
    /// Directory block of the inode with this seed: a leaf or an index node, by its bytes.
    Directory(Seed),
    /// Extended attribute block; the seed is the file system's.
    Xattr(Seed),
}

impl Seal {
    /// The structure's name in ext4 terms.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Seal::Indirect => "indirect block",
            Seal::Extent(_) => "extent tree block",
            Seal::Directory(_) => "directory block",
            Seal::Xattr(_) => "extended attribute block",
        }
    }

    pub(super) fn write(self, nr: BlockNr, bytes: &mut [u8]) {
        match self {
            Seal::Indirect => {}
            Seal::Extent(seed) => ExtentNode::new(bytes).update_checksum(seed),
            Seal::Directory(seed) => dirent::seal_block(bytes, seed),
            Seal::Xattr(seed) => XattrBlock::new(bytes).update_checksum(seed, nr),
        }
    }

    pub(super) fn verify(self, nr: BlockNr, bytes: &[u8]) -> std::result::Result<(), Corrupt> {
        let place = DamageLocation::Block(nr);
        match self {
            Seal::Indirect => Ok(()),
            Seal::Extent(seed) => ExtentNode::new(bytes).verify_checksum(seed, place),
            Seal::Directory(seed) => dirent::verify_block(bytes, seed, place),
            Seal::Xattr(seed) => XattrBlock::new(bytes).verify_checksum(seed, nr),
        }
    }
}
