//! Repair of reserved inodes that are no files in use.

use super::Outcome;
use super::inodes::PERMISSIONS;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::{
    Checksums, CorruptKind, FileType, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr, RawInode,
    set_flags,
};

/// Fields that the list of bad blocks does not have: mode, owner, group, links, attributes.
const NONE_OF_A_LIST: [(usize, usize); 5] = [(0x0, 2), (0x2, 2), (0x18, 2), (0x1A, 2), (0x68, 4)];

impl Patch<'_, '_> {
    pub(super) fn repair_reserved(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
        if problems.any(|problem| problem == CorruptKind::BlockListDeep) {
            return self.repair_block_list(nr);
        }
        match self.inode(nr)? {
            Some(mut inode)
                if nr == InodeNr::BOOT_LOADER && inode.i_block != [0; I_BLOCK_BYTES] =>
            {
                inode.mode = FileType::Regular.mode_bits() | inode.mode & PERMISSIONS;
                self.write_inode(nr, &inode)?;
                Ok(Outcome::Repaired)
            }
            _ => self.clear_inode(nr),
        }
    }

    /// Leaves the map of the list of bad blocks, and clears what a list does not have.
    fn repair_block_list(&mut self, nr: InodeNr) -> Step<Outcome> {
        let Some(mut bytes) = self.inode_bytes(nr)? else {
            return Ok(Outcome::Impossible);
        };
        for (at, len) in NONE_OF_A_LIST {
            let end = at + len;
            bytes.get_mut(at..end).unwrap_or_default().fill(0);
        }
        let mut flags = RawInode(&bytes).flags();
        flags.remove(InodeFlags::INLINE_DATA);
        set_flags(&mut bytes, flags);
        self.mend_sizes(nr, &mut bytes);
        match Inode::parse(&bytes, nr, &self.check.geometry, &Checksums::NONE) {
            Ok(inode) => self.write_inode(nr, &inode)?,
            Err(_) => return self.clear_inode(nr),
        }
        Ok(Outcome::Repaired)
    }
}
