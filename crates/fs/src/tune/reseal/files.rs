//! Checksums of the blocks that an inode refers to: tree nodes, directory blocks, attributes.

use super::{Work, directory};
use crate::{Error, Result};
use std::ops::Range;
use uext4_format::extent::{Expect, ExtentNode};
use uext4_format::indirect::{DIRECT_BLOCKS, ROOT_POINTERS, pointer};
use uext4_format::orphan_file::{seal_orphan_block, verify_orphan_block};
use uext4_format::xattr::XattrBlock;
use uext4_format::{BlockNr, FileType, Inode, InodeFlags, InodeNr, Place, Seed};
use uext4_num::usize_of;

/// Longest target in a symbolic link's inode, in bytes, exclusive.
const FAST_LINK_BYTES: u64 = 60;

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
        if !has_map(inode) {
            return Ok(());
        }
        if !inode.flags.contains(InodeFlags::EXTENTS) {
            return match owner.holds {
                Holds::Data => Ok(()), // tables of block numbers have no checksums
                _ => self.pointers(&owner, inode),
            };
        }
        let geometry = &self.geometry;
        let blocks = u64::from(geometry.first_data_block)..geometry.blocks_count;
        let (root, expect) = (ExtentNode::new(&inode.i_block[..]), Expect::root(blocks));
        root.validate(&expect, Place::Inode(nr))?;
        self.node(&owner, &root, &expect)
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
        let mut bytes = self.block_of_file(nr, Place::Block(nr))?;
        if !self.attribute_blocks.insert(nr) {
            return Ok(());
        }
        let mut block = XattrBlock::new(&mut bytes[..]);
        if let Some(seed) = self.old.metadata {
            block.verify_checksum(seed, nr)?;
        }
        let Some(seed) = self.new.metadata else {
            return Ok(());
        };
        block.update_checksum(seed, nr);
        self.changes.put(nr, bytes)
    }

    fn node<B: AsRef<[u8]>>(
        &mut self,
        owner: &Owner,
        node: &ExtentNode<B>,
        expect: &Expect,
    ) -> Result<()> {
        if node.depth() == 0 {
            if owner.holds == Holds::Data {
                return Ok(());
            }
            let runs = node.extents();
            let runs: Vec<Range<u64>> = runs
                .map(|extent| extent.start.0..extent.physical_end())
                .collect();
            return runs
                .into_iter()
                .flatten()
                .try_for_each(|nr| self.content(owner, BlockNr(nr)));
        }
        for (at, index) in node.indexes().enumerate() {
            let place = Place::InodeBlock(owner.nr, index.child);
            let mut bytes = self.block_of_file(index.child, place)?;
            let mut child = ExtentNode::new(&mut bytes[..]);
            let expect = expect.child(node, at);
            child.validate(&expect, place)?;
            if let Some(seed) = owner.old {
                child.verify_checksum(seed, place)?;
            }
            self.node(owner, &child, &expect)?;
            if let Some(seed) = owner.new {
                child.update_checksum(seed);
                self.changes.put(index.child, bytes)?;
            }
        }
        Ok(())
    }

    /// The blocks of a directory without extents.
    fn pointers(&mut self, owner: &Owner, inode: &Inode) -> Result<()> {
        for at in 0..ROOT_POINTERS {
            let depth = at.saturating_sub(usize_of(DIRECT_BLOCKS) - 1);
            self.pointed(owner, pointer(&inode.i_block, at), depth)?;
        }
        Ok(())
    }

    fn pointed(&mut self, owner: &Owner, nr: BlockNr, depth: usize) -> Result<()> {
        if nr.0 == 0 {
            return Ok(());
        }
        if depth == 0 {
            return self.content(owner, nr);
        }
        let table = self.block_of_file(nr, Place::InodeBlock(owner.nr, nr))?;
        (0..table.len() / 4).try_for_each(|at| self.pointed(owner, pointer(&table, at), depth - 1))
    }

    fn content(&mut self, owner: &Owner, nr: BlockNr) -> Result<()> {
        let place = Place::InodeBlock(owner.nr, nr);
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

/// Whether `i_block` is a map.
fn has_map(inode: &Inode) -> bool {
    let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
    let is_value = inode.flags.contains(InodeFlags::EA_INODE);
    match inode.file_type() {
        Some(FileType::Symlink) if !is_value => !is_inline && inode.size >= FAST_LINK_BYTES,
        Some(FileType::Regular | FileType::Directory | FileType::Symlink) => !is_inline,
        _ => false,
    }
}
