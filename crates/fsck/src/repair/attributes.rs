//! Repair of attributes: what refers to them, and the areas that hold them. An entry with damage
//! goes, and the others stay.

use super::Outcome;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use std::collections::HashMap;
use uext4_format::xattr::{
    Area, BLOCK_MAGIC, REFCOUNT_MAX, XattrBlock, XattrSet, decode_block, decode_ibody,
    encode_block, encode_ibody, hashes_match, offsets_fit, salvage, set_ibody_magic,
};
use uext4_format::{BlockNr, CorruptKind, DamageLocation, InodeNr};

/// No attribute block.
const NONE: BlockNr = BlockNr(0);

impl Patch<'_, '_> {
    /// Repairs each place that the findings name: one task may have a block and an inode of the
    /// same number.
    pub(super) fn repair_attributes(&mut self, findings: &[Finding]) -> Step<Outcome> {
        let mut outcome = Outcome::Impossible;
        for (place, problems) in by_location(findings) {
            if self.repair_at(place, &problems)? == Outcome::Repaired {
                outcome = Outcome::Repaired;
            }
        }
        Ok(outcome)
    }

    fn repair_at(
        &mut self,
        place: DamageLocation,
        problems: &[(&'static str, CorruptKind)],
    ) -> Step<Outcome> {
        let has = |wanted| problems.iter().any(|(_, problem)| *problem == wanted);
        match place {
            DamageLocation::InodeBlock(nr, block) => {
                let is_drop = has(CorruptKind::XattrOutside) || has(CorruptKind::OwnAttributes);
                if is_drop {
                    self.set_attribute_block(nr, block, NONE)
                } else if has(CorruptKind::XattrShared) {
                    match self.copy_attributes(block)? {
                        Copied::To(copy) => self.set_attribute_block(nr, block, copy),
                        Copied::NoAttributes => self.set_attribute_block(nr, block, NONE),
                        Copied::NoSpace => Ok(Outcome::Impossible),
                    }
                } else {
                    self.repair_attribute_block(nr, block)
                }
            }
            DamageLocation::Block(block) => self.set_references(block),
            DamageLocation::Inode(nr) => {
                let is_value = problems.iter().any(|(what, _)| *what == "value inode");
                let is_inline = problems.iter().any(|(what, _)| *what == "inline data");
                if is_value && let Some(inode) = self.inode(nr)? {
                    self.repair_value(nr, inode)?;
                }
                if is_inline {
                    return self.repair_inline(nr);
                }
                self.repair_attribute_area(nr)
            }
            _ => Ok(Outcome::Impossible),
        }
    }

    /// Lets an inode whose attributes are in block `from` have them in another one, or none.
    fn set_attribute_block(&mut self, nr: InodeNr, from: BlockNr, to: BlockNr) -> Step<Outcome> {
        let Some(mut inode) = self.inode(nr)?.filter(|inode| inode.file_acl == from) else {
            return Ok(Outcome::Impossible);
        };
        inode.file_acl = to;
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// Copies a block that another structure claimed first, if it holds attributes.
    fn copy_attributes(&mut self, block: BlockNr) -> Step<Copied> {
        let bytes = self.read(block)?;
        let place = DamageLocation::Block(block);
        let seed = self.check.checksums.metadata;
        let is_sealed = seed.is_none_or(|seed| {
            XattrBlock::new(&bytes[..])
                .verify_checksum(seed, block)
                .is_ok()
        });
        let is_sound = decode_block(&bytes, place).is_ok() && hashes_match(&bytes, Area::InBlock);
        if !is_sealed || !is_sound {
            return Ok(Copied::NoAttributes);
        }
        let Some(copy) = self.allocate_copy(block)? else {
            return Ok(Copied::NoSpace);
        };
        self.write_attribute_block(copy, bytes, 1)?;
        Ok(Copied::To(copy))
    }

    /// Changes an attribute block, with its checksum.
    fn write_attribute_block(&mut self, nr: BlockNr, mut bytes: Vec<u8>, references: u32) -> Step {
        let mut header = XattrBlock::new(&mut bytes[..]);
        header.set_refcount(references.clamp(1, REFCOUNT_MAX));
        if let Some(seed) = self.check.checksums.metadata {
            header.update_checksum(seed, nr);
        }
        self.write(nr, bytes)
    }

    /// Sets the number of inodes that refer to a block.
    fn set_references(&mut self, block: BlockNr) -> Step<Outcome> {
        let references = self.check.derived.block_references(block);
        let references = references.filter(|count| (1..=REFCOUNT_MAX).contains(count));
        let Some(references) = references else {
            return Ok(Outcome::Impossible);
        };
        let bytes = self.read(block)?;
        self.write_attribute_block(block, bytes, references)?;
        Ok(Outcome::Repaired)
    }

    /// Writes the attributes of a block that can be believed. One without any that has no magic is
    /// no attribute block: no inode keeps it.
    fn repair_attribute_block(&mut self, nr: InodeNr, block: BlockNr) -> Step<Outcome> {
        let old = self.read(block)?;
        let decoded = decode_block(&old, DamageLocation::Block(block));
        let is_whole = decoded.is_ok();
        let set = decoded.unwrap_or_else(|_| salvage(&old, Area::InBlock));
        let kept = self.believable(&set, Area::InBlock)?;
        let header = XattrBlock::new(&old[..]);
        if kept.is_empty() && header.magic() != BLOCK_MAGIC {
            self.drop_block(nr, block)?;
            return Ok(Outcome::Repaired);
        }
        let references = header.refcount();
        let stays = is_whole
            && kept == set
            && hashes_match(&old, Area::InBlock)
            && offsets_fit(&old, Area::InBlock);
        let mut new = old;
        if !stays && encode_block(&mut new, &kept).is_err() {
            return Ok(Outcome::Impossible);
        }
        self.write_attribute_block(block, new, references)?;
        Ok(Outcome::Repaired)
    }

    fn drop_block(&mut self, nr: InodeNr, block: BlockNr) -> Step {
        for nr in self
            .check
            .derived
            .block_users(block)
            .into_iter()
            .chain([nr])
        {
            self.set_attribute_block(nr, block, NONE)?;
        }
        Ok(())
    }

    /// Writes the attributes in an inode that can be believed.
    fn repair_attribute_area(&mut self, nr: InodeNr) -> Step<Outcome> {
        let Some(mut inode) = self.inode(nr)? else {
            return Ok(Outcome::Impossible);
        };
        let decoded = decode_ibody(&inode.tail, DamageLocation::Inode(nr));
        let set = decoded.unwrap_or_else(|_| salvage(&inode.tail, Area::InInode));
        let kept = self.believable(&set, Area::InInode)?;
        if encode_ibody(&mut inode.tail, &kept).is_err() {
            return Ok(Outcome::Impossible);
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// The attributes in an inode; those that can be believed if the area is damaged, or if only
    /// its magic is.
    pub(super) fn attributes_in(&self, nr: InodeNr, tail: &[u8]) -> XattrSet {
        let mut area = tail.to_vec();
        set_ibody_magic(&mut area);
        let decoded = decode_ibody(&area, DamageLocation::Inode(nr));
        decoded.unwrap_or_else(|_| salvage(&area, Area::InInode))
    }
}

/// What has become of a block of attributes that another structure has as well.
enum Copied {
    To(BlockNr),
    NoAttributes,
    NoSpace,
}

/// Structures and their problems.
type Problems = Vec<(&'static str, CorruptKind)>;

/// The problems of each place, in the order of the first ones.
fn by_location(findings: &[Finding]) -> Vec<(DamageLocation, Problems)> {
    let mut places: Vec<(DamageLocation, Problems)> = Vec::new();
    let mut known = HashMap::new();
    for Finding { corrupt, .. } in findings {
        let at = *known.entry(corrupt.place).or_insert(places.len());
        let problem = (corrupt.structure, corrupt.problem);
        match places.get_mut(at) {
            Some((_, problems)) => problems.push(problem),
            None => places.push((corrupt.place, vec![problem])),
        }
    }
    places
}
