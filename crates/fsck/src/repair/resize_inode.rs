//! Repair of the resize inode: made anew, as a new file system has it.

use super::Outcome;
use super::map_reader::only;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::indirect::{DIRECT_BLOCKS, DOUBLE_INDIRECT, pointer, set_pointer};
use uext4_format::{
    BlockNr, CorruptKind, Feature, FileType, GroupNr, Inode, InodeNr, KNOWN_EXTRA_BYTES,
};
use uext4_mkfs::resize_map;

impl Patch<'_, '_> {
    /// Without space for its table the file system goes on without it, and cannot grow while it is
    /// mounted.
    pub(super) fn repair_resize_inode(&mut self, findings: &[Finding]) -> Step<Outcome> {
        let nr = InodeNr::RESIZE;
        let has = |wanted: CorruptKind| {
            let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
            problems.any(|problem| problem == wanted)
        };
        if has(CorruptKind::MapsWithoutFeature) {
            return self.clear_inode(nr);
        }
        let old = self.inode(nr)?;
        let table = old
            .as_ref()
            .map(|old| pointer(&old.i_block, DOUBLE_INDIRECT));
        let is_own = !has(CorruptKind::TableNotOwn);
        let kept = table.filter(|table| is_own && self.check.may_map(&only(*table)));
        let table = match kept {
            Some(table) => Some(table),
            None => self.allocate(self.check.geometry.group_first_block(GroupNr(0)))?,
        };
        match table.filter(|table| table.0 <= u64::from(u32::MAX)) {
            Some(table) => self.make_resize_inode(old, table)?,
            None => self.forget_resize_inode()?,
        }
        Ok(Outcome::Repaired)
    }

    fn make_resize_inode(&mut self, old: Option<Inode>, table: BlockNr) -> Step {
        let geometry = self.check.geometry;
        let nr = InodeNr::RESIZE;
        let bytes = u64::from(geometry.reserved_gdt_blocks) * self.check.block_bytes();
        self.check.take(bytes)?;
        let map = resize_map(&geometry);
        let per_block = self.check.block_bytes() / 4;
        let mut inode = Inode::new(&geometry, KNOWN_EXTRA_BYTES);
        if let Some(old) = old {
            (inode.atime, inode.mtime, inode.ctime) = (old.atime, old.mtime, old.ctime);
            inode.generation = old.generation;
        }
        inode.mode = FileType::Regular.mode_bits() | 0o600;
        inode.links = 1;
        let blocks = per_block * per_block + per_block + u64::from(DIRECT_BLOCKS);
        inode.size = blocks << geometry.block_bits;
        set_pointer(&mut inode.i_block, DOUBLE_INDIRECT, table);
        if inode.set_sectors(map.sectors, &geometry).is_err() {
            return self.forget_resize_inode();
        }
        self.write(table, map.table)?;
        for (block, bytes) in map.reserved {
            self.write(block, bytes)?;
        }
        self.check.give_back(bytes);
        self.write_inode(nr, &inode)
    }

    fn forget_resize_inode(&mut self) -> Step {
        let mut features = self.superblock.features();
        features.remove(Feature::RESIZE_INODE);
        self.superblock.set_features(features);
        self.superblock.reserved_gdt_blocks = 0;
        let bytes = usize::from(self.check.geometry.inode_size);
        self.write_inode_bytes(InodeNr::RESIZE, &vec![0; bytes])
    }
}
