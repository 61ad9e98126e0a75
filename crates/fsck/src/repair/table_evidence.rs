//! Whether blocks look like the inode table of a group.

use super::patch::Patch;
use crate::state::Step;
use uext4_format::extent::{ExtentNode, MAGIC};
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::{
    BlockNr, FileType, GroupNr, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr, RawInode,
};

/// Blocks of a table that are looked at: its inodes are used from the first on.
const BLOCKS_MAX: u32 = 64;
/// Inodes that are enough.
const INODES_MAX: u32 = 32;
/// Most links of a file.
const LINKS_MAX: u16 = 65_000;
/// Byte offset of the map in an inode.
const MAP_AT: usize = 0x28;

impl Patch<'_, '_> {
    /// Whether there are inodes of this group at these blocks: by their checksums, which include
    /// their numbers, else by their fields.
    pub(super) fn is_table_of(&mut self, group: GroupNr, start: BlockNr) -> Step<bool> {
        let (good, bad) = self.count_inodes(group, start)?;
        Ok(good > bad)
    }

    /// Whether nothing at these blocks is something else than inodes of this group.
    pub(super) fn may_be_table_of(&mut self, group: GroupNr, start: BlockNr) -> Step<bool> {
        let (_, bad) = self.count_inodes(group, start)?;
        Ok(bad == 0)
    }

    /// Slots in use that are inodes of this group, and those that are not.
    fn count_inodes(&mut self, group: GroupNr, start: BlockNr) -> Step<(u32, u32)> {
        let geometry = self.check.geometry;
        let blocks = geometry.inode_table_blocks().min(BLOCKS_MAX);
        let per_block = geometry.inodes_per_block();
        let size = usize::from(geometry.inode_size);
        let (mut good, mut bad) = (0, 0);
        for at in 0..blocks {
            if good >= INODES_MAX || bad >= INODES_MAX {
                break;
            }
            let bytes = self.read(BlockNr(start.0 + u64::from(at)))?;
            for (slot, raw) in (0..per_block).zip(bytes.chunks_exact(size)) {
                let index = at * per_block + slot;
                if index >= geometry.inodes_per_group || raw.iter().all(|byte| *byte == 0) {
                    continue;
                }
                match self.is_inode(geometry.inode_at(group, index), raw) {
                    Some(true) => good += 1,
                    Some(false) => bad += 1,
                    None => {}
                }
            }
        }
        Ok((good, bad))
    }

    /// Whether these bytes, which are not all zero, are those of an inode; `None` if nothing says.
    fn is_inode(&self, nr: InodeNr, raw: &[u8]) -> Option<bool> {
        let (geometry, checksums) = (&self.check.geometry, &self.check.checksums);
        if checksums.metadata.is_some() {
            return Some(Inode::verify_unused(raw, nr, geometry, checksums).is_ok());
        }
        let fields = RawInode(raw);
        if fields.mode() == 0 {
            return None;
        }
        let Some(kind) = FileType::from_mode(fields.mode()) else {
            return Some(false);
        };
        let is_used = fields.links() != 0;
        if fields.links() > LINKS_MAX || is_used == (fields.dtime() != 0) {
            return Some(false);
        }
        let map = raw.get(MAP_AT..MAP_AT + I_BLOCK_BYTES)?;
        let has_map = matches!(kind, FileType::Regular | FileType::Directory);
        if !has_map || fields.flags().contains(InodeFlags::INLINE_DATA) {
            return None;
        }
        if fields.flags().contains(InodeFlags::EXTENTS) {
            return Some(ExtentNode::new(map).magic() == MAGIC);
        }
        let mut blocks = (0..ROOT_POINTERS).map(|at| pointer(map, at));
        Some(blocks.all(|block| block.0 == 0 || geometry.contains(block)))
    }
}
