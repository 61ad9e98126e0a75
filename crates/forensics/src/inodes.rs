//! All inodes that may have been used, in the order of their numbers.
//!
//! Invariants: inodes that a group never used are not read, where a checksum vouches for their
//! number. No more blocks are read than the file system has, also where tables lie on each other.

use crate::Image;
use uext4_format::{GroupNr, InodeNr, RawInode};
use uext4_num::usize_of;

/// An inode as it is in its table.
pub(crate) struct Slot<'s> {
    pub(crate) nr: InodeNr,
    pub(crate) bytes: &'s [u8],
    /// Whether it is in use: see [`in_use`].
    pub(crate) is_allocated: bool,
}

impl Image {
    /// Calls `take` for each inode of the tables.
    ///
    /// # Errors
    /// Those of `take`.
    pub(crate) fn inodes<E>(
        &self,
        take: &mut dyn FnMut(Slot<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = self.geometry().blocks_count;
        for group in (0..self.geometry().group_count).map(GroupNr) {
            let touched = self.inodes_touched(group);
            if touched > 0 {
                self.inodes_of(group, touched, &mut left, take)?;
            }
        }
        Ok(())
    }

    fn inodes_of<E>(
        &self,
        group: GroupNr,
        touched: u32,
        left: &mut u64,
        take: &mut dyn FnMut(Slot<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let geometry = self.geometry();
        let bitmap = self.inode_bitmap(group);
        let table = self.descriptor(group).inode_table;
        let per_block = geometry.inodes_per_block().max(1);
        for first in (0..touched).step_by(usize_of(per_block)) {
            *left = match left.checked_sub(1) {
                Some(left) => left,
                None => break,
            };
            let (block, _) = geometry.inode_location(table, first);
            let Some(bytes) = self.block(block.0) else {
                continue;
            };
            let indexes = first..first.saturating_add(per_block).min(touched);
            let slots = bytes.chunks_exact(geometry.inode_size.into());
            for (index, slot) in indexes.zip(slots) {
                let nr = geometry.inode_at(group, index);
                if geometry.contains_inode(nr) {
                    let is_allocated = in_use(bitmap.as_deref(), index, slot);
                    take(Slot {
                        nr,
                        bytes: slot,
                        is_allocated,
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Whether an inode is in use: its bitmap says so, or, where the bitmap is lost, it has a name.
pub(crate) fn in_use(bitmap: Option<&[u8]>, index: u32, inode: &[u8]) -> bool {
    match bitmap {
        Some(bitmap) => bit(bitmap, index),
        None => RawInode(inode).links() > 0,
    }
}

/// Bit `at` of a bitmap; clear behind its end.
pub(crate) fn bit(bitmap: &[u8], at: u32) -> bool {
    let byte = bitmap.get(usize_of(at / 8));
    byte.is_some_and(|byte| byte.checked_shr(at % 8).unwrap_or(0) & 1 == 1)
}
