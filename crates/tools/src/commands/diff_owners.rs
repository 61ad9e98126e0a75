//! `uext4 diff --blocks`: what the blocks that differ hold in the second image.
//!
//! Descriptors, inode bitmaps and the inodes in use are read in the order of the groups, once for
//! each window of the device: a window that has more owners than memory shall hold gets shorter,
//! and the rest is the next window.
//! Invariants: memory is bounded by the limit of claims, and by the inodes that they name.

use super::diff_blocks::Runs;
use super::diff_claims::{Claims, Part, bit, item};
use super::diff_rows::{Named, Row, names};
use crate::failure::{self, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4::Filesystem;
use uext4::device::BlockDevice;
use uext4::format::{
    BlockNr, FileType, Geometry, GroupDescriptor, GroupNr, Inode, InodeNr, Superblock, group_flag,
};
use uext4_num::{clamp_usize, u64_of};

/// Inode of the reserved descriptor blocks.
const RESIZE: u32 = 7;
/// Inode of the journal.
const JOURNAL: u32 = 8;
/// Blocks of free space that are looked at together.
const REST_BLOCKS: u64 = 1 << 15;

/// What a run of blocks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Owner {
    /// Blocks before the first group, which a boot loader may use.
    Boot,
    Superblock,
    Descriptors,
    ReservedDescriptors,
    BlockBitmap,
    InodeBitmap,
    InodeTable,
    Mmp,
    Journal,
    Data,
    DirectoryData,
    Map,
    Attributes,
    Free,
    /// In use in the bitmap, by nothing that can be read.
    Unknown,
}

impl Owner {
    pub(super) fn text(self) -> &'static str {
        match self {
            Owner::Boot => "boot block",
            Owner::Superblock => "superblock",
            Owner::Descriptors => "descriptors",
            Owner::ReservedDescriptors => "reserved descriptors",
            Owner::BlockBitmap => "block bitmap",
            Owner::InodeBitmap => "inode bitmap",
            Owner::InodeTable => "inode table",
            Owner::Mmp => "multiple-mount protection",
            Owner::Journal => "journal",
            Owner::Data => "data",
            Owner::DirectoryData => "directory",
            Owner::Map => "map",
            Owner::Attributes => "attributes",
            Owner::Free => "free",
            Owner::Unknown => "in use, without a known owner",
        }
    }
}

/// Blocks that differ and belong together.
struct Claim {
    run: Range<u64>,
    owner: Owner,
    /// The group that the blocks describe, which need not be the one that they are in.
    group: Option<u32>,
    /// Inodes that own the blocks, or those of a table that differ.
    inodes: Vec<u32>,
}

/// The owners of the blocks of a window that differ.
pub(super) struct Owners<'o> {
    geometry: &'o Geometry,
    claims: Vec<Claim>,
    window: Range<u64>,
    claims_max: usize,
}

/// The two images, with what the second one says about owners.
pub(super) struct Image<'o> {
    pub(super) a: &'o dyn BlockDevice,
    /// Whose owners are looked for.
    pub(super) b: &'o dyn BlockDevice,
    /// Superblock of the second image.
    pub(super) disk: &'o Superblock,
    pub(super) geometry: &'o Geometry,
    pub(super) differing: &'o Runs,
}

impl<'o> Owners<'o> {
    /// Finds the owners from block `from` on, of as many blocks as at most about `claims_max` runs
    /// with an owner cover.
    ///
    /// # Errors
    /// A descriptor or a bitmap that cannot be read.
    pub(super) fn find(image: &Image<'o>, from: u64, claims_max: usize) -> uext4::Result<Self> {
        let (disk, geometry) = (image.disk, image.geometry);
        let mut owners = Self {
            geometry,
            claims: Vec::new(),
            window: from..geometry.blocks_count,
            claims_max,
        };
        let boot = 0..geometry.first_data_block.into();
        owners.claim(image, boot, Owner::Boot, &[]);
        let mmp = disk.mmp_block;
        if mmp != 0 {
            owners.claim(image, mmp..mmp.saturating_add(1), Owner::Mmp, &[]);
        }
        let mut descriptors = Vec::new();
        for group in (0..geometry.group_count).map(GroupNr) {
            let descriptor = image.descriptor(group)?;
            owners.claim_group(image, group, &descriptor)?;
            descriptors.push(descriptor);
        }
        owners.sort_and_merge();
        owners.claim_rest(image, &descriptors)?;
        Ok(owners)
    }

    /// Adds the differing blocks of a range.
    fn claim(&mut self, image: &Image<'_>, blocks: Range<u64>, owner: Owner, inodes: &[u32]) {
        self.claim_of(None, image, blocks, owner, inodes);
    }

    /// As [`Self::claim`], of blocks that describe a group.
    fn claim_of(
        &mut self,
        group: Option<GroupNr>,
        image: &Image<'_>,
        blocks: Range<u64>,
        owner: Owner,
        inodes: &[u32],
    ) {
        let blocks = blocks.start.max(self.window.start)..blocks.end.min(self.window.end);
        image.differing.inside(blocks, |run| {
            let end = run.end.min(self.window.end);
            if run.start < end {
                self.claims.push(Claim {
                    run: run.start..end,
                    owner,
                    group: group.map(|group| group.0),
                    inodes: inodes.to_vec(),
                });
                self.shorten_if_full();
            }
        });
    }

    /// Cuts the window in the middle of too many claims.
    fn shorten_if_full(&mut self) {
        if self.claims.len() <= self.claims_max {
            return;
        }
        self.sort_and_merge();
        let Some(middle) = self.claims.get(self.claims_max / 2) else {
            return;
        };
        let end = middle.run.start.max(self.window.start + 1);
        self.window.end = end;
        self.claims.retain(|claim| claim.run.start < end);
        for claim in &mut self.claims {
            claim.run.end = claim.run.end.min(end);
        }
        self.sort_and_merge();
    }

    /// Where the next window begins.
    pub(super) fn end(&self) -> u64 {
        self.window.end
    }

    fn claim_group(
        &mut self,
        image: &Image<'_>,
        group: GroupNr,
        descriptor: &GroupDescriptor,
    ) -> uext4::Result<()> {
        let geometry = image.geometry;
        if let Some(block) = geometry.superblock_block(group) {
            self.claim(image, run_of(block), Owner::Superblock, &[]);
        }
        if let Some((_, run)) = geometry.descriptor_run(group) {
            let blocks = run.start.0..run.start.0 + u64::from(run.len_blocks);
            self.claim(image, blocks, Owner::Descriptors, &[]);
        }
        let of = Some(group);
        self.claim_of(
            of,
            image,
            run_of(descriptor.block_bitmap),
            Owner::BlockBitmap,
            &[],
        );
        self.claim_of(
            of,
            image,
            run_of(descriptor.inode_bitmap),
            Owner::InodeBitmap,
            &[],
        );
        let table = descriptor.inode_table.0;
        let mut differing = Vec::new();
        let blocks = table..table.saturating_add(geometry.inode_table_blocks().into());
        image.differing.inside(blocks, |run| differing.push(run));
        for block in differing.into_iter().flatten() {
            let inodes = image.inodes_that_differ(group, block, table)?;
            self.claim_of(of, image, block..block + 1, Owner::InodeTable, &inodes);
        }
        if !descriptor.has_flag(group_flag::INODE_UNINIT) {
            self.claim_inodes(image, group, descriptor)?;
        }
        Ok(())
    }

    /// Claims the blocks of all inodes in use of a group.
    fn claim_inodes(
        &mut self,
        image: &Image<'_>,
        group: GroupNr,
        descriptor: &GroupDescriptor,
    ) -> uext4::Result<()> {
        let geometry = image.geometry;
        let bitmap = image.block(image.b, descriptor.inode_bitmap.0)?;
        let per_block = geometry.inodes_per_block();
        let mut table = Vec::new();
        for index in 0..geometry.inodes_per_group {
            if index % per_block == 0 {
                let range = index..index.saturating_add(per_block);
                let is_used = range.into_iter().any(|index| bit(&bitmap, index));
                let block = descriptor.inode_table.0 + u64::from(index / per_block);
                table = if is_used {
                    image.block(image.b, block)?
                } else {
                    Vec::new()
                };
            }
            let raw = item(&table, index % per_block, geometry.inode_size);
            let (Some(raw), true) = (raw, bit(&bitmap, index)) else {
                continue;
            };
            let nr = geometry.inode_at(group, index);
            match Inode::parse(raw, nr, geometry, &image.disk.checksums()) {
                Ok(inode) => self.claim_inode(image, nr, &inode),
                Err(corrupt) if self.window.start == 0 => {
                    failure::info(format_args!("{corrupt}; its blocks are not known"));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn claim_inode(&mut self, image: &Image<'_>, nr: InodeNr, inode: &Inode) {
        let is_dir = inode.file_type() == Some(FileType::Directory);
        Claims::new(image.b, image.geometry, &mut |part, blocks| {
            let (owner, inodes): (Owner, &[u32]) = match (part, nr.0) {
                (_, RESIZE) => (Owner::ReservedDescriptors, &[]),
                (_, JOURNAL) => (Owner::Journal, &[]),
                (Part::Data, _) if is_dir => (Owner::DirectoryData, &[nr.0]),
                (Part::Data, _) => (Owner::Data, &[nr.0]),
                (Part::Map, _) => (Owner::Map, &[nr.0]),
                (Part::Attributes, _) => (Owner::Attributes, &[nr.0]),
            };
            self.claim(image, blocks, owner, inodes);
        })
        .of(inode);
    }

    /// Sorts the claims. Claims of one run by several inodes become one, and so do neighbours of
    /// one owner.
    fn sort_and_merge(&mut self) {
        self.claims.sort_by_key(order);
        self.claims.dedup_by(|later, first| {
            if order(later) == order(first) {
                first.inodes.append(&mut later.inodes);
                return true;
            }
            let what = |claim: &Claim| (claim.owner, claim.group);
            let joins = later.run.start == first.run.end
                && what(later) == what(first)
                && later.inodes == first.inodes;
            if joins {
                first.run.end = later.run.end;
            }
            joins
        });
    }

    /// Claims what no owner has: free blocks, and those in use for an unknown reason.
    fn claim_rest(&mut self, image: &Image<'_>, groups: &[GroupDescriptor]) -> uext4::Result<()> {
        let mut gaps = Vec::new();
        let mut end = self.window.start;
        for claim in &self.claims {
            if claim.run.start > end {
                gaps.push(end..claim.run.start);
            }
            end = end.max(claim.run.end);
        }
        gaps.push(end..self.window.end.max(end));
        let mut bitmap = (None, Vec::new());
        for part in gaps.into_iter().flat_map(parts) {
            let mut rest = Vec::new();
            image.differing.inside(part, |run| rest.push(run));
            for block in rest.into_iter().flatten() {
                let (group, cluster) = image.geometry.split_block_to_cluster(BlockNr(block));
                if bitmap.0 != Some(group) {
                    let descriptor = groups.get(clamp_usize(group.0));
                    bitmap = (Some(group), image.block_bitmap(descriptor)?);
                }
                let owner = if bit(&bitmap.1, cluster) {
                    Owner::Unknown
                } else {
                    Owner::Free
                };
                self.claim_next(image, block, owner);
            }
        }
        self.sort_and_merge();
        Ok(())
    }

    /// Claims a block, mostly behind the last one.
    fn claim_next(&mut self, image: &Image<'_>, block: u64, owner: Owner) {
        match self.claims.last_mut() {
            Some(last) if last.owner == owner && last.run.end == block => {
                last.run.end = (block + 1).min(self.window.end);
            }
            _ => self.claim(image, block..block + 1, owner, &[]),
        }
    }

    /// The rows for the user. `open` mounts the image if names are needed.
    pub(super) fn named(&self, open: impl FnOnce() -> Result<Filesystem>) -> Result<Vec<Row>> {
        let wanted: BTreeSet<u32> = self
            .claims
            .iter()
            .flat_map(|claim| claim.inodes.iter().copied())
            .collect();
        let names = if wanted.is_empty() {
            BTreeMap::new()
        } else {
            names(&open()?, &wanted)
        };
        let rows = self.claims.iter().map(|claim| Row {
            first_block: claim.run.start,
            blocks: claim.run.end - claim.run.start,
            owner: claim.owner,
            group: claim.group.unwrap_or_else(|| {
                let first = BlockNr(claim.run.start.max(self.geometry.first_data_block.into()));
                self.geometry.group_of_block(first).0
            }),
            inodes: claim
                .inodes
                .iter()
                .map(|nr| Named::new(*nr, &names))
                .collect(),
        });
        Ok(rows.collect())
    }
}

fn order(claim: &Claim) -> (u64, u64, Owner, Option<u32>) {
    (claim.run.start, claim.run.end, claim.owner, claim.group)
}

fn run_of(block: BlockNr) -> Range<u64> {
    block.0..block.0.saturating_add(1)
}

/// A range in parts of bounded length.
fn parts(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = blocks.clone().step_by(clamp_usize(REST_BLOCKS));
    starts.map(move |start| start..blocks.end.min(start + REST_BLOCKS))
}

impl Image<'_> {
    fn block(&self, device: &dyn BlockDevice, block: u64) -> uext4::Result<Vec<u8>> {
        let block_bytes = u64::from(self.geometry.block_size());
        let mut bytes = vec![0; clamp_usize(block_bytes)];
        device.read_at(block.saturating_mul(block_bytes), &mut bytes)?;
        Ok(bytes)
    }

    fn descriptor(&self, group: GroupNr) -> uext4::Result<GroupDescriptor> {
        let (block, offset) = self.geometry.descriptor_location(group);
        let bytes = self.block(self.b, block.0)?;
        let raw = bytes.get(clamp_usize(offset)..).unwrap_or_default();
        let length = usize::from(self.geometry.desc_size).min(raw.len());
        let raw = raw.split_at(length).0;
        Ok(GroupDescriptor::parse(
            raw,
            group,
            self.geometry,
            &self.disk.checksums(),
        )?)
    }

    /// The block bitmap of a group; empty if it was never written.
    fn block_bitmap(&self, group: Option<&GroupDescriptor>) -> uext4::Result<Vec<u8>> {
        match group {
            Some(group) if !group.has_flag(group_flag::BLOCK_UNINIT) => {
                self.block(self.b, group.block_bitmap.0)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The inodes of a block of a table that differ.
    fn inodes_that_differ(
        &self,
        group: GroupNr,
        block: u64,
        table: u64,
    ) -> uext4::Result<Vec<u32>> {
        let (a, b) = (self.block(self.a, block)?, self.block(self.b, block)?);
        let size = usize::from(self.geometry.inode_size);
        let first = (block - table) * u64::from(self.geometry.inodes_per_block());
        let pairs = a.chunks(size).zip(b.chunks(size)).enumerate();
        let differ = pairs.filter(|(_, (a, b))| a != b);
        Ok(differ
            .map(|(at, _)| {
                let index = uext4_num::clamp_u32(first + u64_of(at));
                self.geometry.inode_at(group, index).0
            })
            .collect())
    }
}
