//! Repair of directories in inodes. One that does not fit there any more gets a block.

use super::Outcome;
use super::connect::remove_selected;
use super::damaged_directory::DamagedDirectory;
use super::entries::{Entry, Placed};
use super::patch::Patch;
use super::rebuild::Content;
use super::salvage::{Area, Scan};
use crate::state::Step;
use uext4_format::dirent::{DirEntry, LeafTail};
use uext4_format::inline_data::{PARENT_BYTES, ROOT_BYTES, parent, root_area_mut, value_area};
use uext4_format::xattr::{XattrName, XattrSet, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{DamageLocation, Feature, Inode, InodeFlags, InodeNr};
use uext4_mkfs::directory::{Item, Owner, inline};
use uext4_num::u64_of;

impl Patch<'_, '_> {
    /// Writes a directory in an inode anew from its entries.
    pub(super) fn repair_inline_directory(&mut self, dir: &mut DamagedDirectory) -> Step<Outcome> {
        let place = DamageLocation::Inode(dir.nr);
        if decode_ibody(&dir.inode.tail, place).is_err() {
            return Ok(Outcome::Impossible);
        }
        let inode = dir.inode.clone();
        let entries = self.inline_entries(dir.nr, &inode, |patch, area| {
            patch.entries_of(dir, area, Scan::Damage)
        });
        let entries = self.apply_rules(dir, place, entries);
        let placed: Vec<Placed> = entries.into_iter().map(|entry| (entry, place)).collect();
        let entries = self.unique_entries(dir, placed)?;
        let up = parent(&dir.inode.i_block);
        let is_dir = self.check.links.is_directory(up);
        let content = Content {
            nr: dir.nr,
            parent: if is_dir { up } else { self.parent_of(dir.nr) },
            entries: &entries,
            blocks_min: 1,
        };
        if self.write_inline(&dir.inode, &content)? {
            return Ok(Outcome::Repaired);
        }
        let inode = self.without_inline(dir.nr, &dir.inode);
        if self.write_directory(inode, &content, &[])? {
            return Ok(Outcome::Repaired);
        }
        Ok(Outcome::Impossible)
    }

    /// The entries in both areas of an inode, as `read` finds them in each.
    pub(super) fn inline_entries(
        &self,
        nr: InodeNr,
        inode: &Inode,
        mut read: impl FnMut(&Self, Area<'_>) -> Vec<Entry>,
    ) -> Vec<Entry> {
        let (_, value) = attributes(nr, inode);
        let (_, first) = inode.i_block.split_at(PARENT_BYTES);
        let rules = self.check.rules_of(nr, inode);
        let area = |bytes| Area {
            rules,
            bytes,
            block_size: ROOT_BYTES,
            tail: LeafTail::None,
        };
        let mut entries = read(self, area(first));
        entries.extend(read(self, area(&value)));
        entries
    }

    /// False, with nothing written, if the names do not fit into the inode.
    pub(super) fn write_inline(&mut self, inode: &Inode, content: &Content<'_>) -> Step<bool> {
        let owner = Owner {
            inode: content.nr,
            parent: content.parent,
            seed: None,
            blocks_min: content.blocks_min,
        };
        let items: Vec<Item<'_>> = content.entries.iter().map(Entry::item).collect();
        let max = ROOT_BYTES + inode.tail.len();
        let made = inline(owner, &items, u64_of(max));
        let split = made.as_deref().and_then(|bytes| bytes.split_first_chunk());
        let Some((i_block, value)) = split else {
            return Ok(false);
        };
        let mut inode = inode.clone();
        let (mut set, _) = attributes(content.nr, &inode);
        set.set(XattrName::inline_data(), XattrValue::Here(value.to_vec()));
        if encode_ibody(&mut inode.tail, &set).is_err() {
            return Ok(false);
        }
        inode.i_block = *i_block;
        inode.size = u64_of(ROOT_BYTES + value.len());
        self.write_inode(content.nr, &inode)?;
        Ok(true)
    }

    /// The inode without its names, for blocks.
    pub(super) fn without_inline(&self, nr: InodeNr, inode: &Inode) -> Inode {
        let mut inode = inode.clone();
        if let Ok(mut set) = decode_ibody(&inode.tail, DamageLocation::Inode(nr)) {
            set.remove(&XattrName::inline_data());
            // Fewer attributes fit where they were.
            let _ = encode_ibody(&mut inode.tail, &set);
        }
        inode.flags.remove(InodeFlags::INLINE_DATA);
        if self.check.geometry.features.has(Feature::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        inode
    }

    /// Removes entries from a directory in an inode.
    pub(super) fn remove_inline_entries(
        &mut self,
        dir: &DamagedDirectory,
        select: &dyn Fn(&DirEntry<'_>) -> bool,
    ) -> Step {
        let mut inode = dir.inode.clone();
        let (mut set, mut value) = attributes(dir.nr, &inode);
        let place = DamageLocation::Inode(dir.nr);
        remove_selected(root_area_mut(&mut inode.i_block, place), select);
        if remove_selected(value_area(&mut value[..], place), select) {
            set.set(XattrName::inline_data(), XattrValue::Here(value));
            // It fits where it was.
            let _ = encode_ibody(&mut inode.tail, &set);
        }
        self.write_inode(dir.nr, &inode)
    }
}

/// The attributes in an inode, and the value with the second area of names.
fn attributes(nr: InodeNr, inode: &Inode) -> (XattrSet, Vec<u8>) {
    let set = decode_ibody(&inode.tail, DamageLocation::Inode(nr)).unwrap_or_default();
    let value = match set.get(&XattrName::inline_data()) {
        Some(XattrValue::Here(value)) => value.clone(),
        _ => Vec::new(),
    };
    (set, value)
}
