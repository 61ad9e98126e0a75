//! The checksum that covers a change.

use super::{CommandError, Debugger, Spot};
use uext4_format::dirent::{has_seal, seal_block};
use uext4_format::extent::ExtentNode;
use uext4_format::fields::{seal_inode, seal_journal, seal_mmp, seal_superblock};
use uext4_format::xattr::XattrBlock;
use uext4_format::{
    BlockNr, GroupDescriptor, GroupNr, InodeNr, block_bitmap_checksum, inode_bitmap_checksum,
};

/// What a checksum belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    None,
    Superblock,
    Group(GroupNr),
    Inode(InodeNr),
    Journal,
    Mmp,
    Attributes(BlockNr),
    /// A block of a directory with this generation.
    Directory(InodeNr, u32),
    /// A block of an extent tree.
    Node(InodeNr, u32),
    BlockBitmap(GroupNr),
    InodeBitmap(GroupNr),
}

type Found<T> = std::result::Result<T, CommandError>;

impl Seal {
    /// Computes the checksum anew. Returns another block that has to be written, if it is there.
    pub(super) fn apply(
        self,
        debugger: &Debugger,
        spot: &Spot,
        block: &mut [u8],
    ) -> Found<Option<(Spot, Vec<u8>)>> {
        match self {
            Seal::None => return Ok(None),
            Seal::Superblock => {
                seal_superblock(block);
                return Ok(None);
            }
            Seal::Journal => {
                seal_journal(block);
                return Ok(None);
            }
            _ => {}
        }
        let image = debugger.image()?;
        let (geometry, checksums) = (*image.geometry(), *image.checksums());
        match self {
            Seal::Inode(nr) => {
                let inode = debugger.inode(&image, nr)?;
                seal_inode(inode.part_mut(block), nr, &checksums);
            }
            Seal::Group(group) => {
                let slot = spot.part_mut(block);
                let descriptor = GroupDescriptor::parse_unverified(slot);
                descriptor.write_to(slot, group, &geometry, &checksums);
            }
            Seal::Mmp => seal_mmp(block, &checksums),
            Seal::Attributes(nr) => {
                if let Some(seed) = checksums.metadata {
                    XattrBlock::new(block).update_checksum(seed, nr);
                }
            }
            Seal::Directory(nr, generation) => {
                let seed = checksums.inode_seed(nr, generation);
                if let Some(seed) = seed.filter(|_| has_seal(block)) {
                    seal_block(block, seed);
                }
            }
            Seal::Node(nr, generation) => {
                if let Some(seed) = checksums.inode_seed(nr, generation) {
                    ExtentNode::new(block).update_checksum(seed);
                }
            }
            Seal::BlockBitmap(group) | Seal::InodeBitmap(group) => {
                let Some(seed) = checksums.metadata else {
                    return Ok(None);
                };
                let spot = debugger.group(&image, group)?;
                let mut table = spot.read()?;
                let slot = spot.part_mut(&mut table);
                let mut descriptor = GroupDescriptor::parse_unverified(slot);
                if self == Seal::BlockBitmap(group) {
                    let sum = block_bitmap_checksum(seed, block, &geometry);
                    descriptor.set_block_bitmap_checksum(sum, &geometry);
                } else {
                    let sum = inode_bitmap_checksum(seed, block, &geometry);
                    descriptor.set_inode_bitmap_checksum(sum, &geometry);
                }
                descriptor.write_to(slot, group, &geometry, &checksums);
                return Ok(Some((spot, table)));
            }
            Seal::None | Seal::Superblock | Seal::Journal => {}
        }
        Ok(None)
    }
}
