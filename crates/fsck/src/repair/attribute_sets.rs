//! Repair of sets of attributes: entries that no program can have made go, and entries of values in
//! inodes fit these.

use super::patch::Patch;
use crate::state::Step;
use uext4_format::xattr::{
    Area, EaInodeFields, NameIndex, VALUE_MAX_BYTES, Xattr, XattrSet, XattrValue,
    entry_hash_of_inode, signed_entry_hash_of_inode,
};
use uext4_format::{Feature, FileType, Inode, InodeFlags, InodeNr};
use uext4_num::{low_u32, u64_of};

impl Patch<'_, '_> {
    /// The attributes that stay. The feature of values in inodes comes back if one has such a
    /// value.
    pub(super) fn believable(&mut self, set: &XattrSet, area: Area) -> Step<XattrSet> {
        let mut kept = XattrSet::new();
        for entry in set.iter() {
            if entry.name.index == NameIndex::NONE && area == Area::InBlock {
                continue;
            }
            let value = match &entry.value {
                XattrValue::Here(_) => Some(entry.value.clone()),
                XattrValue::Inode { inode, .. } => self.value_in(*inode, entry)?,
            };
            if let Some(value) = value {
                kept.set(entry.name.clone(), value);
            }
        }
        Ok(kept)
    }

    /// A value in an inode, with the size and the hash that the inode has; `None` if it holds no
    /// value.
    fn value_in(&mut self, nr: InodeNr, entry: &Xattr) -> Step<Option<XattrValue>> {
        let is_possible = self.check.geometry.contains_inode(nr) && !self.check.hidden.contains(nr);
        let found = if is_possible { self.inode(nr)? } else { None };
        let Some(inode) = found.filter(|inode| inode.links != 0) else {
            return Ok(None);
        };
        let XattrValue::Inode {
            size, entry_hash, ..
        } = entry.value
        else {
            return Ok(None);
        };
        let is_marked = inode.flags.contains(InodeFlags::EA_INODE);
        let is_value = has_hash(&inode, entry, entry_hash) && inode.size == u64::from(size);
        if !is_marked && !is_value {
            return Ok(None);
        }
        self.bring_back(nr, &inode)?;
        let size = match self.mend_value_size(nr, inode.clone(), size)? {
            Some(size) => size,
            None => return Ok(None),
        };
        let fields = EaInodeFields::of(&inode);
        let is_right = has_hash(&inode, entry, entry_hash);
        Ok(Some(XattrValue::Inode {
            inode: nr,
            size,
            entry_hash: if is_right {
                entry_hash
            } else {
                entry_hash_of_inode(&entry.name.rest, fields.hash)
            },
        }))
    }

    /// Sets the flag of a value's inode, and the feature, where they are missing.
    fn bring_back(&mut self, nr: InodeNr, inode: &Inode) -> Step {
        let mut features = self.superblock.features();
        features.insert(Feature::EA_INODE);
        self.superblock.set_features(features);
        if inode.flags.contains(InodeFlags::EA_INODE) {
            return Ok(());
        }
        let mut marked = inode.clone();
        marked.flags.insert(InodeFlags::EA_INODE);
        self.write_inode(nr, &marked)
    }

    /// The size of a value: the inode's if its blocks have it, else that of the entry, which the
    /// inode gets.
    fn mend_value_size(&mut self, nr: InodeNr, mut inode: Inode, size: u32) -> Step<Option<u32>> {
        if inode.size == u64::from(size) {
            return Ok(Some(size));
        }
        let extents = self.extents_of(nr, &inode)?;
        let end = extents.last().map_or(0, |last| last.logical_end());
        let block_bytes = self.check.block_bytes();
        let fits = |size: u64| {
            size != 0 && size <= u64_of(VALUE_MAX_BYTES) && size.div_ceil(block_bytes) == end
        };
        if fits(inode.size) {
            return Ok(Some(low_u32(inode.size)));
        }
        if !fits(size.into()) {
            return Ok(None);
        }
        inode.size = size.into();
        inode.flags.insert(InodeFlags::EA_INODE);
        self.write_inode(nr, &inode)?;
        Ok(Some(size))
    }

    /// Repairs an inode that holds a value. One that no entry refers to is an ordinary file.
    pub(super) fn repair_value(&mut self, nr: InodeNr, mut inode: Inode) -> Step {
        let references = self.check.derived.value_references(nr);
        let is_file = inode.file_type() == Some(FileType::Regular);
        if references == Some(0) || !is_file {
            inode.flags.remove(InodeFlags::EA_INODE);
            return self.write_inode(nr, &inode);
        }
        inode.links = 1;
        if let Some(refcount) = references {
            let fields = EaInodeFields {
                refcount,
                ..EaInodeFields::of(&inode)
            };
            fields.store(&mut inode);
        }
        self.write_inode(nr, &inode)
    }
}

/// Whether an entry has the hash of its name and of the value in an inode. Values of Lustre have
/// none.
fn has_hash(inode: &Inode, entry: &Xattr, entry_hash: u32) -> bool {
    let fields = EaInodeFields::of(inode);
    let name = &entry.name.rest;
    let is_of_lustre = fields.hash == 0 && fields.refcount == 0;
    is_of_lustre
        || entry_hash == entry_hash_of_inode(name, fields.hash)
        || entry_hash == signed_entry_hash_of_inode(name, fields.hash)
}
