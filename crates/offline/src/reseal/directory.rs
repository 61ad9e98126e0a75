//! The checksum of a directory block: in a tail of 12 bytes of a leaf, behind the slots of a node.
//!
//! Invariant: entries keep their order, and no entry changes its block, so an index stays valid.

use uext4_format::dirent::{BlockKind, DirLeaf, LeafTail, NewEntry, seal_block, verify_block};
use uext4_format::htree::DxNode;
use uext4_format::{DamageLocation, Full, Seed};
use uext4_volume::Result;

/// The block, and the seeds of its directory.
pub(super) struct Block {
    pub(super) has_index: bool,
    pub(super) old: Option<Seed>,
    pub(super) new: Option<Seed>,
    pub(super) place: DamageLocation,
}

fn tail(seed: Option<Seed>) -> LeafTail {
    match seed {
        Some(_) => LeafTail::Checksum,
        None => LeafTail::None,
    }
}

impl Block {
    /// Gives the block the new checksum, or the space of the old one back. [`Full`] if there is no
    /// space for one.
    pub(super) fn reseal(&self, bytes: &mut [u8]) -> Result<std::result::Result<(), Full>> {
        let (old, new) = (tail(self.old), tail(self.new));
        if let Some(seed) = self.old {
            verify_block(bytes, seed, self.place)?;
        }
        if old != new {
            let fits = match self.kind(bytes) {
                BlockKind::Leaf => self.repack(bytes)?,
                BlockKind::Root => DxNode::root(&mut *bytes).set_tail(new),
                BlockKind::Node => DxNode::node(&mut *bytes).set_tail(new),
            };
            if fits.is_err() {
                return Ok(fits);
            }
        }
        if let Some(seed) = self.new {
            seal_block(bytes, seed);
        }
        Ok(Ok(()))
    }

    /// Without checksums an empty leaf looks like a node, but has no limit of its slots.
    fn kind(&self, bytes: &[u8]) -> BlockKind {
        let kind = BlockKind::of(bytes);
        let limit = match kind {
            BlockKind::Leaf => return kind,
            BlockKind::Root => {
                DxNode::root(bytes).limit() == DxNode::root(bytes).capacity(tail(self.old))
            }
            BlockKind::Node => {
                DxNode::node(bytes).limit() == DxNode::node(bytes).capacity(tail(self.old))
            }
        };
        if self.has_index && limit {
            kind
        } else {
            BlockKind::Leaf
        }
    }

    fn repack(&self, bytes: &mut [u8]) -> Result<std::result::Result<(), Full>> {
        let before = bytes.to_vec();
        let leaf = DirLeaf::new(&before[..], tail(self.old), self.place);
        let entries = leaf.entries().collect::<std::result::Result<Vec<_>, _>>()?;
        let entries = entries.iter().map(|entry| NewEntry {
            inode: entry.inode,
            name: entry.name,
            kind: entry.kind,
        });
        let mut packed = DirLeaf::new(bytes, tail(self.new), self.place);
        if entries.len() == 0 {
            DirLeaf::init(packed.into_bytes(), tail(self.new), self.place);
            return Ok(Ok(()));
        }
        Ok(packed.pack(entries))
    }
}
