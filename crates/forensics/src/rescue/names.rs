//! Names of directories, past damaged records.

use super::{Rescue, VISITED_BYTES};
use crate::Result;
use crate::content::Content;
use crate::deleted::{inline_content, plausible};
use std::collections::HashMap;
use uext4_format::dirent::{DirEntries, RecordHeader};
use uext4_format::{DamageLocation, Inode, InodeFlags, InodeNr};
use uext4_num::u64_of;

impl Rescue<'_> {
    /// The names in a directory, each with its inode.
    pub(super) fn entries(&mut self, inode: &Inode) -> Result<Vec<(InodeNr, Vec<u8>)>> {
        let mut entries = HashMap::new();
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let root = uext4_format::inline_data::PARENT_BYTES;
            self.add_entries(inode.i_block.get(root..).unwrap_or_default(), &mut entries)?;
            let value = inline_content(inode).unwrap_or_default();
            let behind = value.get(inode.i_block.len()..).unwrap_or_default();
            self.add_entries(behind, &mut entries)?;
        } else {
            let (mut lost, before) = (Content::default(), self.memory.taken_bytes());
            let extents = self.extents(inode, &mut lost)?;
            let after = self.memory.taken_bytes();
            self.memory.give_back(after.saturating_sub(before));
            for extent in extents {
                let len = u64::from(extent.len).min(self.entries_left);
                self.entries_left = self.entries_left.saturating_sub(len);
                for block in extent.start.0..extent.start.0.saturating_add(len) {
                    if !self.blocks.insert(block) {
                        continue;
                    }
                    self.memory.take(VISITED_BYTES)?;
                    if let Some(bytes) = self.history.image.block(block) {
                        self.add_entries(&bytes, &mut entries)?;
                    }
                }
            }
        }
        let mut entries: Vec<(InodeNr, Vec<u8>)> =
            entries.into_iter().map(|(name, nr)| (nr, name)).collect();
        entries.sort_by(|a, b| a.1.cmp(&b.1));
        let bytes = entries
            .iter()
            .map(|(_, name)| u64_of(name.len()).saturating_add(VISITED_BYTES));
        self.memory.give_back(bytes.sum());
        Ok(entries)
    }

    /// Adds the entries of a block. Behind a damaged record each offset may begin one.
    fn add_entries(&self, bytes: &[u8], entries: &mut HashMap<Vec<u8>, InodeNr>) -> Result<()> {
        let geometry = self.history.image.geometry();
        let place = DamageLocation::Superblock;
        let mut behind = 0;
        for entry in
            DirEntries::new(bytes, 0, bytes.len(), place).map_while(std::result::Result::ok)
        {
            behind = entry.offset.saturating_add(entry.rec_len);
            if !geometry.contains_inode(entry.inode) {
                continue;
            }
            let rest = bytes.get(entry.offset..).unwrap_or_default();
            let header = RecordHeader::read(rest, bytes.len());
            if let Some(name) = header.and_then(|header| plausible(&header, rest)) {
                self.add_entry(name, entry.inode, entries)?;
            }
        }
        for at in (behind.next_multiple_of(4)..bytes.len()).step_by(4) {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(header) = RecordHeader::read(rest, bytes.len()) else {
                break;
            };
            let is_known = geometry.contains_inode(header.inode) && header.code != 0;
            if let Some(name) = plausible(&header, rest).filter(|_| is_known) {
                self.add_entry(name, header.inode, entries)?;
            }
        }
        Ok(())
    }

    fn add_entry(
        &self,
        name: &[u8],
        nr: InodeNr,
        entries: &mut HashMap<Vec<u8>, InodeNr>,
    ) -> Result<()> {
        if !entries.contains_key(name) {
            self.memory
                .take(u64_of(name.len()).saturating_add(VISITED_BYTES))?;
            entries.insert(name.to_vec(), nr);
        }
        Ok(())
    }
}
