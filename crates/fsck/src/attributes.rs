//! Check of extended attributes: the area in the inode, and shared blocks.

use super::policies::Context;
use super::values::Named;
use crate::state::{Check, Step};
use std::collections::BTreeMap;
use uext4_format::xattr::{
    Area, NameIndex, XattrBlock, XattrName, XattrSet, XattrValue, decode_block, decode_ibody,
    hashes_match, offsets_fit,
};
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, Inode, InodeFlags, InodeNr,
};

/// Attribute blocks, by number.
#[derive(Default)]
pub(crate) struct SharedBlocks(BTreeMap<u64, SharedBlock>);

impl SharedBlocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get_mut(&mut self, block: BlockNr) -> Option<&mut SharedBlock> {
        self.0.get_mut(&block.0)
    }
}

pub(crate) struct SharedBlock {
    /// Number of inodes that refer to it.
    names: u32,
    /// Its stored reference count.
    says: u32,
    /// What it says about the encryption of these inodes, once it was asked for; `None` if it
    /// cannot be read.
    pub(crate) context: Option<Option<Context>>,
    /// The block and its values, as each of these inodes counts them.
    adds: Added,
}

/// What attributes add to an inode that has them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Added {
    pub(crate) clusters: u64,
    /// Values in inodes of their own.
    pub(crate) values: u64,
}

impl Added {
    fn and(self, other: Self) -> Self {
        Self {
            clusters: self.clusters.saturating_add(other.clusters),
            values: self.values.saturating_add(other.values),
        }
    }
}

/// The block of attributes itself.
const ONE_BLOCK: Added = Added {
    clusters: 1,
    values: 0,
};

/// Memory for each block, in bytes.
const BYTES_PER_BLOCK: u64 = 80;

impl Check<'_> {
    /// Checks the attributes of an inode; returns what they add to it.
    pub(crate) fn check_attributes(&mut self, nr: InodeNr, inode: &Inode) -> Step<Added> {
        let here = match decode_ibody(&inode.tail, DamageLocation::Inode(nr)) {
            Ok(set) => {
                let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
                if is_inline && set.get(&XattrName::inline_data()).is_none() {
                    let problem = CorruptKind::DataAttribute;
                    self.add_problem(DamageLocation::Inode(nr), "inline data", problem);
                }
                self.check_hashes(&inode.tail, Area::InInode, DamageLocation::Inode(nr));
                if is_inline {
                    self.check_offsets(&inode.tail, Area::InInode, DamageLocation::Inode(nr));
                }
                self.check_set(&set, DamageLocation::Inode(nr))?
            }
            Err(corrupt) => {
                self.add_corrupt(&corrupt);
                Added::default()
            }
        };
        Ok(here.and(self.check_attribute_block(nr, inode)?))
    }

    /// As [`Self::check_attributes`], for the block only.
    pub(crate) fn check_attribute_block(&mut self, nr: InodeNr, inode: &Inode) -> Step<Added> {
        match inode.file_acl {
            BlockNr(0) => Ok(Added::default()),
            block => self.added_by_block(nr, inode, block),
        }
    }

    fn added_by_block(&mut self, nr: InodeNr, inode: &Inode, block: BlockNr) -> Step<Added> {
        let run = block.0..block.0.saturating_add(1);
        let place = DamageLocation::InodeBlock(nr, block);
        if !self.geometry.features.has(Feature::EXT_ATTR) {
            self.add_problem(place, "xattr block", CorruptKind::AttributesWithoutFeature);
        }
        if inode.flags.contains(InodeFlags::EA_INODE) {
            self.add_problem(place, "value inode", CorruptKind::OwnAttributes);
            return Ok(Added::default());
        }
        if !self.may_map(&run) {
            self.add_problem(place, "xattr block", CorruptKind::XattrOutside);
            return Ok(Added::default());
        }
        if let Some(shared) = self.shared.0.get_mut(&block.0) {
            shared.names += 1;
            let adds = shared.adds;
            self.derive_block_user(block, nr)?;
            return Ok(adds);
        }
        let clusters = self.clusters(run);
        if self.claim(clusters)? != 1 {
            self.add_problem(place, "xattr block", CorruptKind::XattrShared);
            return Ok(ONE_BLOCK);
        }
        self.check_block(place, block)
    }

    fn check_block(&mut self, place: DamageLocation, block: BlockNr) -> Step<Added> {
        self.take(BYTES_PER_BLOCK)?;
        let bytes = self.read(block)?;
        let header = XattrBlock::new(&bytes[..]);
        let sealed = match self.checksums.metadata {
            Some(seed) => header.verify_checksum(seed, block),
            None => Ok(()),
        };
        let sealed = sealed.map_err(|corrupt| Corrupt { place, ..corrupt });
        let values = match sealed.and_then(|()| decode_block(&bytes, place)) {
            Ok(set) => {
                self.check_hashes(&bytes, Area::InBlock, place);
                self.check_offsets(&bytes, Area::InBlock, place);
                self.check_set(&set, place)?
            }
            Err(corrupt) => {
                self.add_corrupt(&corrupt);
                self.derive_block_users(block)?;
                Added::default()
            }
        };
        let shared = SharedBlock {
            names: 1,
            says: header.refcount(),
            context: None,
            adds: values.and(ONE_BLOCK),
        };
        let adds = shared.adds;
        self.shared.0.insert(block.0, shared);
        Ok(adds)
    }

    fn check_hashes(&mut self, bytes: &[u8], area: Area, place: DamageLocation) {
        if !hashes_match(bytes, area) {
            self.add_problem(place, "xattr entry", CorruptKind::EntryHash);
        }
    }

    fn check_offsets(&mut self, bytes: &[u8], area: Area, place: DamageLocation) {
        if !offsets_fit(bytes, area) {
            let problem = CorruptKind::EmptyValueBehind;
            self.add_problem(place, "xattr entry", problem);
        }
    }

    /// Checks a set of attributes; returns what its values in inodes add.
    fn check_set(&mut self, set: &XattrSet, place: DamageLocation) -> Step<Added> {
        let mut adds = Added::default();
        for entry in set.iter() {
            if entry.name.index == NameIndex::NONE && !matches!(place, DamageLocation::Inode(_)) {
                self.add_problem(place, "xattr entry", CorruptKind::NoPrefix);
            }
            let XattrValue::Inode {
                inode,
                size,
                entry_hash,
            } = entry.value
            else {
                continue;
            };
            adds = adds.and(Added {
                clusters: u64::from(size).div_ceil(self.geometry.cluster_size()),
                values: 1,
            });
            let sound = self.geometry.contains_inode(inode) && !self.hidden.contains(inode);
            if !sound || !self.geometry.features.has(Feature::EA_INODE) {
                self.add_problem(place, "xattr entry", CorruptKind::ValueImpossible);
                continue;
            }
            self.name_value(Named {
                place,
                inode,
                size,
                entry_hash,
                name: entry.name.rest.clone(),
            })?;
        }
        Ok(adds)
    }

    /// Compares each block's stored reference count with the number of its inodes.
    pub(crate) fn shared_blocks(&mut self) -> Step {
        for (block, shared) in std::mem::take(&mut self.shared).0 {
            let SharedBlock { names, says, .. } = shared;
            if names != says {
                let detail = format!("{says}, not {names}");
                let place = DamageLocation::Block(BlockNr(block));
                self.add_detailed(place, "xattr block", CorruptKind::References, detail);
                self.derive_block_references(block, names)?;
            }
        }
        Ok(())
    }
}
