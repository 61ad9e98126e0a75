//! Blocks of extended attributes, each shared by up to 1024 inodes.
//!
//! Inodes are asked about twice in the same order: first to count the users of each block, then to
//! hand the blocks out.

use uext4_format::BlockNr;
use uext4_format::xattr::{REFCOUNT_MAX, XattrBlock};
use uext4_num::{clamp_usize, u64_of, usize_of};

use crate::content::gather::Gather;
use crate::content::output::Output;
use crate::error::Result;
use crate::layout::block_allocator::BlockAllocator;
use crate::layout::identity::Identity;
use crate::tree::arena::Tree;
use crate::tree::ids::FileId;
use crate::tree::keys::{Key, Purpose};

/// The attribute blocks of the image, each shared by inodes with equal attributes.
#[derive(Clone)]
pub(crate) struct AttributeBlocks {
    /// For each block of the tree: its copies on disk, and the inodes that have one so far.
    copies: Vec<(Vec<BlockNr>, u32)>,
}

impl AttributeBlocks {
    /// Writes the blocks for these inodes.
    pub(crate) fn write(
        tree: &Tree,
        order: &[FileId],
        identity: &Identity,
        allocator: &mut BlockAllocator,
        output: &mut Output,
    ) -> Result<AttributeBlocks> {
        let contents = tree.attributes.blocks();
        let mut users = vec![0_u32; contents.len()];
        let mut used = Vec::new();
        for id in order {
            let Some(block) = block_of(tree, *id) else {
                continue;
            };
            if users[block] == 0 {
                used.push(block);
            }
            users[block] += 1;
        }
        let mut copies: Vec<(Vec<BlockNr>, u32)> = vec![(Vec::new(), 0); contents.len()];
        let mut gather = Gather::new(identity.geometry.block_bits);
        for block in used {
            let mut left = users[block];
            let key = Key::ROOT.child(&contents[block]);
            while left > 0 {
                let count = left.min(REFCOUNT_MAX);
                let copy = u64_of(copies[block].0.len());
                let nr = allocator.allocate_one(key.with(Purpose::Copy, copy))?;
                let mut bytes = contents[block].to_vec();
                let mut header = XattrBlock::new(&mut bytes[..]);
                header.set_refcount(count);
                if let Some(seed) = identity.checksums.metadata {
                    header.update_checksum(seed, nr);
                }
                gather.append(nr, &bytes, output)?;
                copies[block].0.push(nr);
                left -= count;
            }
        }
        gather.finish(output)?;
        Ok(AttributeBlocks { copies })
    }

    /// The block of the next inode in order; 0: none.
    pub(crate) fn next(&mut self, tree: &Tree, id: FileId) -> BlockNr {
        let Some(block) = block_of(tree, id) else {
            return BlockNr(0);
        };
        let (copies, used) = &mut self.copies[block];
        let at = clamp_usize(*used / REFCOUNT_MAX);
        *used += 1;
        copies[at]
    }
}

fn block_of(tree: &Tree, id: FileId) -> Option<usize> {
    tree.attributes
        .get(tree.file(id).attributes)
        .block
        .map(usize_of)
}
