//! The owners of some blocks, found by one pass over all groups, inodes and maps.
//!
//! Invariants: memory grows with the blocks that are asked about, not with the file system. A block
//! that has an owner is not met again (`next`), so that maps which share blocks cost no time.

use crate::inodes::bit;
use crate::map::{Nodes, Part, Trust, walk};
use crate::{Image, Memory, Result};
use std::ops::Range;
use uext4_format::{BlockNr, Checksums, Feature, FileType, GroupNr, Inode, InodeNr};
use uext4_num::{clamp_u32, u64_of};
use uext4_volume::has_map;

/// Inode of the reserved descriptor blocks.
const RESIZE: InodeNr = InodeNr(7);
/// Memory for each block, in bytes.
const BLOCK_BYTES: u64 = 48;

/// What has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No known structure, and in use by the bitmap.
    Unknown,
    /// The bitmap says that it is free.
    Free,
    /// It is behind the end of the file system.
    Outside,
    /// Blocks before the first group.
    Boot,
    /// The superblock, or its copy in a group.
    Superblock(GroupNr),
    /// Descriptors, or their copies in a group.
    Descriptors(GroupNr),
    /// Blocks that are kept free for descriptors.
    ReservedDescriptors,
    /// Bitmap of the clusters of a group.
    BlockBitmap(GroupNr),
    /// Bitmap of the inodes of a group.
    InodeBitmap(GroupNr),
    /// A block of an inode table, with its first and its last inode.
    InodeTable(GroupNr, InodeNr, InodeNr),
    /// Multiple mount protection.
    Mmp,
    /// The log.
    Journal,
    /// Entries of a directory.
    Directory(InodeNr),
    /// Data of a file.
    Data(InodeNr),
    /// Extents, or a table of block numbers.
    Map(InodeNr),
    /// Extended attributes.
    Attributes(InodeNr),
}

/// Blocks with their owners.
pub struct Owners {
    blocks: Vec<u64>,
    owners: Vec<Owner>,
    /// For each block the first one from it on that may have no owner yet, as an index.
    next: Vec<usize>,
}

impl Owners {
    /// Finds the owners of `blocks`.
    ///
    /// # Errors
    /// Too little memory.
    pub fn find(image: &Image, mut blocks: Vec<u64>, memory: &Memory) -> Result<Self> {
        blocks.sort_unstable();
        blocks.dedup();
        memory.take(u64_of(blocks.len()).saturating_mul(BLOCK_BYTES))?;
        let owners = vec![Owner::Unknown; blocks.len()];
        let mut found = Self {
            next: (0..blocks.len()).collect(),
            blocks,
            owners,
        };
        found.mark_metadata(image);
        found.mark_files(image)?;
        found.mark_rest(image);
        Ok(found)
    }

    /// The owner of a block that was asked about.
    pub fn of(&self, block: u64) -> Owner {
        let at = self.blocks.binary_search(&block).ok();
        let owner = at.and_then(|at| self.owners.get(at));
        owner.copied().unwrap_or(Owner::Unknown)
    }

    /// Sets the owner of the blocks of a range that have none yet.
    fn mark(&mut self, range: Range<u64>, owner: impl Fn(u64) -> Owner) {
        let from = self.blocks.partition_point(|block| *block < range.start);
        let mut at = self.unowned(from);
        while let (Some(block), Some(old)) = (self.blocks.get(at), self.owners.get_mut(at)) {
            if *block >= range.end {
                break;
            }
            *old = owner(*block);
            let behind = at.saturating_add(1);
            if let Some(next) = self.next.get_mut(at) {
                *next = behind;
            }
            at = self.unowned(behind);
        }
    }

    /// The first block from an index on that has no owner yet. The steps there get shorter by it.
    fn unowned(&mut self, from: usize) -> usize {
        let mut at = from;
        while let Some(next) = self.next.get(at).copied().filter(|next| *next != at) {
            let behind = self.next.get(next).copied().unwrap_or(next);
            if let Some(step) = self.next.get_mut(at) {
                *step = behind;
            }
            at = next;
        }
        at
    }

    fn mark_one(&mut self, block: u64, owner: Owner) {
        self.mark(block..block.saturating_add(1), |_| owner);
    }

    fn mark_metadata(&mut self, image: &Image) {
        let geometry = *image.geometry();
        self.mark(0..geometry.first_data_block.into(), |_| Owner::Boot);
        self.mark(geometry.blocks_count..u64::MAX, |_| Owner::Outside);
        if geometry.features.has(Feature::MMP) {
            self.mark_one(image.superblock().mmp_block, Owner::Mmp);
        }
        for group in (0..geometry.group_count).map(GroupNr) {
            if let Some(block) = geometry.superblock_block(group) {
                self.mark_one(block.0, Owner::Superblock(group));
            }
            if let Some((_, run)) = geometry.descriptor_run(group) {
                let end = run.start.0.saturating_add(run.len_blocks.into());
                self.mark(run.start.0..end, |_| Owner::Descriptors(group));
            }
            if let Some(run) = geometry.reserved_gdt_run(group) {
                let end = run.start.0.saturating_add(run.len_blocks.into());
                self.mark(run.start.0..end, |_| Owner::ReservedDescriptors);
            }
            self.mark_group(image, group);
        }
    }

    fn mark_group(&mut self, image: &Image, group: GroupNr) {
        let geometry = *image.geometry();
        let descriptor = image.descriptor(group);
        self.mark_one(descriptor.block_bitmap.0, Owner::BlockBitmap(group));
        self.mark_one(descriptor.inode_bitmap.0, Owner::InodeBitmap(group));
        let table = descriptor.inode_table.0;
        let end = table.saturating_add(geometry.inode_table_blocks().into());
        let per_block = geometry.inodes_per_block();
        self.mark(table..end, |block| {
            let into = clamp_u32(block.saturating_sub(table));
            let first = into.saturating_mul(per_block);
            let last = first.saturating_add(per_block).saturating_sub(1);
            let last = last.min(geometry.inodes_per_group.saturating_sub(1));
            let nr = |index| geometry.inode_at(group, index);
            Owner::InodeTable(group, nr(first), nr(last))
        });
    }

    fn mark_files(&mut self, image: &Image) -> Result<()> {
        if self.owners.iter().all(|owner| *owner != Owner::Unknown) {
            return Ok(());
        }
        let mut nodes = Nodes::new(image.geometry(), image);
        image.inodes(&mut |slot| {
            if slot.is_allocated {
                let parsed = Inode::parse(slot.bytes, slot.nr, image.geometry(), &Checksums::NONE);
                if let Ok(inode) = parsed {
                    self.mark_inode(image, slot.nr, &inode, &mut nodes);
                }
            }
            Ok(())
        })
    }

    fn mark_inode(&mut self, image: &Image, nr: InodeNr, inode: &Inode, nodes: &mut Nodes<'_>) {
        if inode.file_acl.0 != 0 {
            self.mark_one(inode.file_acl.0, Owner::Attributes(nr));
        }
        // The inode for growth has no type.
        if !has_map(inode) && nr != RESIZE {
            return;
        }
        let is_journal = nr.0 == image.superblock().journal_inum;
        let data = match inode.file_type() {
            _ if nr == RESIZE => Owner::ReservedDescriptors,
            _ if is_journal => Owner::Journal,
            Some(FileType::Directory) => Owner::Directory(nr),
            _ => Owner::Data(nr),
        };
        walk(
            image.geometry(),
            inode,
            Trust::Any,
            nodes,
            &mut |part| match part {
                Part::Data(extent) => {
                    let run = extent.start.0..extent.physical_end();
                    self.mark(run, |_| data);
                }
                Part::Node(block) => self.mark_one(block, Owner::Map(nr)),
                Part::Lost(_) => {}
            },
        );
    }

    /// What nothing has is free, if its bitmap says so.
    fn mark_rest(&mut self, image: &Image) {
        let mut bitmap = (None, None);
        for (block, owner) in self.blocks.iter().zip(&mut self.owners) {
            if *owner != Owner::Unknown {
                continue;
            }
            let (group, cluster) = image.geometry().split_block_to_cluster(BlockNr(*block));
            if bitmap.0 != Some(group) {
                bitmap = (Some(group), image.block_bitmap(group));
            }
            if bitmap.1.as_deref().is_some_and(|bits| !bit(bits, cluster)) {
                *owner = Owner::Free;
            }
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Owner::Unknown => write!(f, "in use, without a known owner"),
            Owner::Free => write!(f, "free"),
            Owner::Outside => write!(f, "outside of the file system"),
            Owner::Boot => write!(f, "boot block"),
            Owner::Superblock(GroupNr(0)) => write!(f, "superblock"),
            Owner::Superblock(group) => write!(f, "superblock copy in group {group}"),
            Owner::Descriptors(group) => write!(f, "descriptors in group {group}"),
            Owner::ReservedDescriptors => write!(f, "reserved descriptors"),
            Owner::BlockBitmap(group) => write!(f, "block bitmap of group {group}"),
            Owner::InodeBitmap(group) => write!(f, "inode bitmap of group {group}"),
            Owner::InodeTable(group, first, last) => {
                write!(f, "inode table of group {group}, inodes {first}-{last}")
            }
            Owner::Mmp => write!(f, "multiple mount protection"),
            Owner::Journal => write!(f, "journal"),
            Owner::Directory(nr) => write!(f, "directory {nr}"),
            Owner::Data(nr) => write!(f, "data of inode {nr}"),
            Owner::Map(nr) => write!(f, "map of inode {nr}"),
            Owner::Attributes(nr) => write!(f, "attributes of inode {nr}"),
        }
    }
}
