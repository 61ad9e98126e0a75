//! Checksums of the blocks that an inode refers to: tree nodes, directory blocks, attributes.

use super::{Work, directory};
use uext4_format::extent::ExtentNode;
use uext4_format::orphan_file::{seal_orphan_block, verify_orphan_block};
use uext4_format::xattr::{Area, XattrBlock, decode_block};
use uext4_format::{BlockNr, DamageLocation, FileType, Inode, InodeFlags, InodeNr, Seed};
use uext4_volume::{Error, Result};
use uext4_volume::{FileMap, has_map};

/// What the blocks of an inode hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Data,
    Entries { has_index: bool },
    Orphans,
}

/// An inode whose blocks are visited.
struct Owner {
    nr: InodeNr,
    old: Option<Seed>,
    new: Option<Seed>,
    holds: Holds,
}

impl Work<'_> {
    /// Everything that an inode in use refers to.
    pub(super) fn file(&mut self, nr: InodeNr, inode: &Inode) -> Result<()> {
        let owner = Owner {
            nr,
            old: self.old.inode_seed(nr, inode.generation),
            new: self.new.inode_seed(nr, inode.generation),
            holds: self.holds(nr, inode),
        };
        if inode.file_acl.0 != 0 {
            self.attributes(inode.file_acl)?;
        }
        let is_tree = inode.flags.contains(InodeFlags::EXTENTS);
        if !has_map(inode) || (owner.holds == Holds::Data && !is_tree) {
            return Ok(()); // tables of block numbers have no checksums
        }
        let map = FileMap::read(self.volume, nr, inode)?;
        if is_tree {
            self.nodes(&owner, &map)?;
        }
        if owner.holds == Holds::Data {
            return Ok(());
        }
        let blocks = map.extents.iter();
        let mut blocks = blocks.flat_map(|extent| extent.start.0..extent.physical_end());
        blocks.try_for_each(|block| self.content(&owner, BlockNr(block)))
    }

    /// The nodes of a tree, whose old checksums [`FileMap::read`] has verified.
    fn nodes(&mut self, owner: &Owner, map: &FileMap) -> Result<()> {
        let Some(seed) = owner.new else { return Ok(()) };
        for nr in &map.nodes {
            let mut bytes = self.volume.read(*nr)?;
            ExtentNode::new(&mut bytes[..]).update_checksum(seed);
            self.changes.put(*nr, bytes)?;
        }
        Ok(())
    }

    fn holds(&self, nr: InodeNr, inode: &Inode) -> Holds {
        match inode.file_type() {
            Some(FileType::Directory) => Holds::Entries {
                has_index: inode.flags.contains(InodeFlags::INDEX),
            },
            _ if nr.0 == self.orphan_file => Holds::Orphans,
            _ => Holds::Data,
        }
    }

    /// A block of attributes has the seed of the file system, since inodes share it.
    fn attributes(&mut self, nr: BlockNr) -> Result<()> {
        let mut bytes = self.block_of_file(nr, DamageLocation::Block(nr))?;
        if !self.attribute_blocks.insert(nr) {
            return Ok(());
        }
        let block = XattrBlock::new(&bytes[..]);
        if let Some(seed) = self.old.metadata {
            block.verify_checksum(seed, nr)?;
        }
        decode_block(&bytes, DamageLocation::Block(nr))?;
        let before = bytes.clone();
        self.rehash_entries(&mut bytes, Area::InBlock)?;
        if let Some(seed) = self.new.metadata {
            XattrBlock::new(&mut bytes[..]).update_checksum(seed, nr);
        }
        if bytes == before {
            Ok(())
        } else {
            self.changes.put(nr, bytes)
        }
    }

    fn content(&mut self, owner: &Owner, nr: BlockNr) -> Result<()> {
        let place = DamageLocation::InodeBlock(owner.nr, nr);
        let mut bytes = self.block_of_file(nr, place)?;
        match owner.holds {
            Holds::Data => return Ok(()),
            Holds::Orphans => {
                verify_orphan_block(&bytes, nr, owner.old)?;
                seal_orphan_block(&mut bytes, nr, owner.new);
            }
            Holds::Entries { has_index } => {
                let block = directory::Block {
                    has_index,
                    old: owner.old,
                    new: owner.new,
                    place,
                };
                block
                    .reseal(&mut bytes)?
                    .map_err(|uext4_format::Full| Error::NoSpace)?;
            }
        }
        self.changes.put(nr, bytes)
    }
}
