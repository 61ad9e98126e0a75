//! The directory lost+found of the root.

use super::entries::Entry;
use super::patch::Patch;
use super::rebuild::Content;
use super::salvage::number_name;
use crate::slots::written_inodes;
use crate::state::Step;
use uext4_format::{
    Feature, FileType, GroupNr, Inode, InodeFlags, InodeNr, RawInode, Timestamp, group_flag,
};

/// Its name.
pub(super) const NAME: &[u8] = b"lost+found";
/// Its permissions: names in it may be of files in directories that others may not enter.
const PERMISSIONS: u16 = 0o700;

impl Patch<'_, '_> {
    /// The directory for inodes without a name, which has one in the root afterwards; `None` if
    /// there can be none. `numbers` are the inodes without a name.
    pub(super) fn connection_target(&mut self, numbers: &[InodeNr]) -> Step<Option<InodeNr>> {
        if !self.is_open_directory(InodeNr::ROOT) {
            return Ok(None);
        }
        let mut names = Vec::new();
        match self.find_name(InodeNr::ROOT, NAME)? {
            // Files of others have no place below an encryption policy.
            Some(nr) if self.check.links.is_directory(nr) && !self.is_encrypted(nr)? => {
                return Ok(self.is_open_directory(nr).then_some(nr));
            }
            Some(nr) => {
                self.remove_entries(InodeNr::ROOT, &|entry| entry.name == NAME)?;
                names.push(Entry {
                    inode: nr,
                    code: self.code_of(nr),
                    name: number_name(nr),
                });
            }
            None => {}
        }
        // Its number in every file system that mke2fs made.
        let usual = InodeNr(self.check.geometry.first_inode);
        let is_there = numbers.contains(&usual)
            && self.is_open_directory(usual)
            && !self.is_encrypted(usual)?;
        let nr = if is_there {
            Some(usual)
        } else {
            self.make_target()?
        };
        let Some(nr) = nr else {
            return Ok(None);
        };
        names.push(Entry {
            inode: nr,
            code: self.directory_kind().code(),
            name: NAME.to_vec(),
        });
        let wanted = names.len();
        let named = self.add_entries(InodeNr::ROOT, names)?;
        Ok((named.len() == wanted).then_some(nr))
    }

    fn is_encrypted(&mut self, nr: InodeNr) -> Step<bool> {
        let inode = self.inode(nr)?;
        let is_marked = inode.is_some_and(|inode| inode.flags.contains(InodeFlags::ENCRYPT));
        Ok(is_marked && self.check.geometry.features.has(Feature::ENCRYPT))
    }

    /// A new empty directory; `None` if there is no inode or no block.
    fn make_target(&mut self) -> Step<Option<InodeNr>> {
        let Some(nr) = self.take_inode()? else {
            return Ok(None);
        };
        let extra_bytes = self.check.superblock.want_extra_isize;
        let mut inode = Inode::new(&self.check.geometry, extra_bytes);
        inode.mode = FileType::Directory.mode_bits() | PERMISSIONS;
        inode.links = 2;
        if self.check.geometry.features.has(Feature::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        let now = self.check.clock.wall();
        let now = Timestamp::new(now.seconds, now.nanoseconds);
        inode.set_atime(now);
        inode.set_mtime(now);
        inode.set_ctime(now);
        inode.crtime = now;
        let content = Content {
            nr,
            parent: InodeNr::ROOT,
            entries: &[],
            blocks_min: 1,
        };
        let is_written = self.write_directory(inode, &content, &[])?;
        Ok(is_written.then_some(nr))
    }

    /// A free inode, in the written part of its table or next to it: then that part grows.
    pub(super) fn take_inode(&mut self) -> Step<Option<InodeNr>> {
        for group in self.check.groups() {
            let geometry = self.check.geometry;
            let mut descriptor = self.descriptor(group)?;
            let written = written_inodes(&descriptor, &geometry);
            let Some(index) = self.free_index(group, written)? else {
                continue;
            };
            if index >= written {
                descriptor.itable_unused = geometry.inodes_per_group - index - 1;
                descriptor.flags &= !group_flag::INODE_UNINIT;
                self.write_descriptor(group, &descriptor)?;
            }
            return Ok(Some(geometry.inode_at(group, index)));
        }
        Ok(None)
    }

    fn free_index(&mut self, group: GroupNr, written: u32) -> Step<Option<u32>> {
        let geometry = self.check.geometry;
        let usable = geometry.inodes_per_group.min(written.saturating_add(1));
        for index in 0..usable {
            let nr = geometry.inode_at(group, index);
            let is_known = self.check.links.kind(nr).is_some()
                || self.check.is_reserved(nr)
                || self.check.hidden.contains(nr)
                || self.is_left(nr);
            if is_known {
                continue;
            }
            let Some(bytes) = self.inode_bytes(nr)? else {
                return Ok(None);
            };
            if index >= written || RawInode(&bytes).links() == 0 {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }
}
