//! Directories that are built anew from their entries.
//!
//! The old blocks are written again, as far as they are needed; more are allocated. A directory of
//! which the log cannot have all blocks at once, or without a log, gets new blocks instead, if
//! there is space. These are written at once, before the inode leads to them. Blocks that are left
//! out of the map are free in the next round.

use super::Outcome;
use super::damaged_directory::{DamagedDirectory, DirBlock};
use super::entries::{Entry, Placed};
use super::patch::Patch;
use crate::state::{Step, Stop};
use uext4_format::dirent::BlockKind;
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::hash::DirHasher;
use uext4_format::{BlockNr, CorruptKind, Inode, InodeFlags, InodeNr, LogicalBlock};
use uext4_journal::recovery::room_images;
use uext4_mkfs::directory::{Blocks, Format, Item, Owner, Packing};
use uext4_num::{clamp_u32, u64_of, usize_of};
use uext4_volume::append_extent;

/// Memory for the lists of clusters, blocks and extents of a directory, for each block, in bytes.
pub(super) const BYTES_PER_BLOCK: u64 = 48;

/// Part of the log that the blocks of one directory may take.
const LOG_SHARE: u64 = 4;

/// Blocks for a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// The old ones, and new ones as far as these are too few.
    Old,
    New,
}

/// What the blocks of a directory have.
#[derive(Default)]
pub(super) struct Read {
    pub(super) entries: Vec<Placed>,
    /// Where ".." leads.
    pub(super) up: Option<InodeNr>,
    /// Memory in bytes.
    pub(super) bytes: u64,
}

/// What a directory is to have.
pub(super) struct Content<'e> {
    pub(super) nr: InodeNr,
    pub(super) parent: InodeNr,
    /// Without "." and "..".
    pub(super) entries: &'e [Entry],
    /// Fewest blocks.
    pub(super) blocks_min: u32,
}

impl Patch<'_, '_> {
    /// Builds a directory from all entries that its blocks have.
    pub(super) fn rebuild(
        &mut self,
        dir: &mut DamagedDirectory,
        extents: &[Extent],
    ) -> Step<Outcome> {
        let Read { entries, up, bytes } = self.read_entries(dir, extents)?;
        let entries = self.unique_entries(dir, entries)?;
        let links = &self.check.links;
        let up = up.filter(|up| dir.nr != InodeNr::ROOT && links.is_directory(*up));
        let parent = links.parent(dir.nr).or(up);
        let content = Content {
            nr: dir.nr,
            parent: parent.unwrap_or_else(|| self.parent_of(dir.nr)),
            entries: &entries,
            blocks_min: 1,
        };
        let is_written = self.write_directory(dir.inode.clone(), &content, extents)?;
        self.check.give_back(bytes);
        Ok(if is_written {
            Outcome::Repaired
        } else {
            Outcome::Impossible
        })
    }

    /// The entries of all blocks, by the rules. The caller gives their memory back.
    pub(super) fn read_entries(
        &mut self,
        dir: &mut DamagedDirectory,
        extents: &[Extent],
    ) -> Step<Read> {
        let mut read = Read::default();
        for block in DirBlock::all(extents) {
            let place = dir.location_of(block);
            let (found, found_up) = self.entries_of_block(dir, block)?;
            read.up = read.up.or(found_up);
            let found = self.apply_rules(dir, place, found);
            let more = found.iter().map(Entry::bytes).sum::<u64>();
            self.check.take(more)?;
            read.bytes += more;
            let found = found.into_iter().map(|entry| (entry, place));
            read.entries.extend(found);
        }
        Ok(read)
    }

    /// The entries of a block but "." and "..", and where ".." at its start leads.
    fn entries_of_block(
        &mut self,
        dir: &mut DamagedDirectory,
        block: DirBlock,
    ) -> Step<(Vec<Entry>, Option<InodeNr>)> {
        let bytes = self.read(block.nr)?;
        if dir.is_node(&bytes) {
            return Ok((Vec::new(), None));
        }
        let mut entries = if block.logical == 0 && BlockKind::of(&bytes) == BlockKind::Root {
            self.check
                .salvage(dir.area(&bytes), super::salvage::Scan::Damage)
                .sound
        } else {
            let (area, scan) = (dir.area(&bytes), dir.scan_of(block));
            self.entries_of(dir, area, scan)
        };
        let mut up = None;
        if block.logical == 0 {
            let dots = self.take_dots(dir, &mut entries);
            up = dots.last().map(|entry| entry.inode);
        }
        entries.retain(|entry| !entry.is_dots());
        Ok((entries, up))
    }

    /// The entries with unique names, and one name for each directory.
    pub(super) fn unique_entries(
        &mut self,
        dir: &DamagedDirectory,
        mut entries: Vec<Placed>,
    ) -> Step<Vec<Entry>> {
        if dir.accepted.has_any(CorruptKind::DirectoryTwice) {
            entries = self.drop_second_names(dir, entries)?;
        }
        if dir.accepted.has_any(CorruptKind::NameTwice) {
            self.part_twins(dir, &mut entries);
        }
        Ok(entries.into_iter().map(|(entry, _)| entry).collect())
    }

    /// Writes blocks, map and inode of a directory, whose old blocks these are. False, with nothing
    /// written, if there is no space.
    pub(super) fn write_directory(
        &mut self,
        inode: Inode,
        content: &Content<'_>,
        old: &[Extent],
    ) -> Step<bool> {
        let names = content.entries.iter().map(Entry::bytes).sum::<u64>();
        let fewest = u64::from(content.blocks_min) * self.check.block_bytes();
        self.check.take(2 * names + fewest)?;
        let made = self.made(&inode, content);
        let n_blocks = u64_of(made.bytes.len()) / self.check.block_bytes();
        let n_old = old.iter().map(|extent| u64::from(extent.len)).sum::<u64>();
        let lists = BYTES_PER_BLOCK * (n_blocks + n_old);
        self.check.take(lists)?;
        let is_written = self.write_made(inode, content.nr, &made, old)?;
        self.check.give_back(2 * names + fewest + lists);
        Ok(is_written)
    }

    /// As [`Self::write_directory`], for these bytes.
    pub(super) fn write_made(
        &mut self,
        mut inode: Inode,
        nr: InodeNr,
        made: &Blocks,
        old: &[Extent],
    ) -> Step<bool> {
        inode.flags.remove(InodeFlags::INDEX);
        if made.is_indexed {
            inode.flags.insert(InodeFlags::INDEX);
        }
        self.write_file(inode, nr, &made.bytes, old)
    }

    /// Writes all blocks of a file, with its map and inode. The caller has taken
    /// [`BYTES_PER_BLOCK`] for each block, and for each old one.
    pub(super) fn write_file(
        &mut self,
        mut inode: Inode,
        nr: InodeNr,
        bytes: &[u8],
        old: &[Extent],
    ) -> Step<bool> {
        let block_size = usize_of(self.check.geometry.block_size());
        let parts = bytes.chunks(block_size);
        let n = u64_of(parts.len());
        let home = self.home_of(old, n)?;
        let reused = match home {
            Home::Old => old,
            Home::New => &[],
        };
        let Some(blocks) = self.blocks_for(reused, n)? else {
            return Ok(false);
        };
        inode.size = u64_of(bytes.len());
        let extents = extents_of(&blocks);
        let is_same = extents.iter().eq(old);
        let earlier = std::mem::take(&mut self.blocks);
        let has_map = is_same || self.set_map(nr, &mut inode, &extents)?;
        let nodes = std::mem::replace(&mut self.blocks, earlier);
        if !has_map {
            return Ok(false);
        }
        for (block, node) in nodes {
            self.write_to(home, block, &node)?;
        }
        for (block, part) in blocks.into_iter().zip(parts) {
            self.write_to(home, block, part)?;
        }
        self.write_inode(nr, &inode)?;
        Ok(true)
    }

    /// Whether a stop at any write leaves the old or the new state of a directory that gets `n`
    /// blocks.
    pub(super) fn is_atomic(&self, old: &[Extent], n: u64) -> Step<bool> {
        let n_old = old.iter().map(|extent| u64::from(extent.len)).sum::<u64>();
        let is_logged = self.check.log.is_some() && n.max(n_old) <= self.at_once()?;
        Ok(is_logged || self.home_of(old, n)? == Home::New)
    }

    /// Most blocks of a directory that are written through the log at once.
    fn at_once(&self) -> Step<u64> {
        let Some(log) = &self.check.log else {
            return Ok(1);
        };
        let room = room_images(log, self.check.geometry.block_size());
        Ok(room.map_err(|error| Stop::Failed(error.into()))? / LOG_SHARE)
    }

    /// Where the blocks of a directory are to be, so that no crash between parts of a round loses
    /// a name.
    fn home_of(&self, old: &[Extent], n: u64) -> Step<Home> {
        let n_old = old.iter().map(|extent| u64::from(extent.len)).sum::<u64>();
        let at_once = self.at_once()?;
        let geometry = &self.check.geometry;
        let all = geometry.clusters_count();
        let free = all.saturating_sub(self.check.claimed.count_below(all));
        // The map may need some as well.
        let needed = 2 * n.div_ceil(u64::from(geometry.blocks_per_cluster()));
        Ok(if n_old > 0 && n.max(n_old) > at_once && free >= needed {
            Home::New
        } else {
            Home::Old
        })
    }

    /// Writes a block of a directory. A new one is written at once: nothing leads to it yet.
    fn write_to(&mut self, home: Home, block: BlockNr, bytes: &[u8]) -> Step {
        if home == Home::Old {
            return self.write(block, bytes.to_vec());
        }
        let byte = block.0 * self.check.block_bytes();
        let written = self.check.device.write_at(byte, bytes);
        written.map_err(|error| Stop::Failed(error.into()))
    }

    /// The blocks of a directory, without an index where names have other hashes than these, or are
    /// too many for one. Encrypted names have the hashes of their bytes.
    pub(super) fn made(&self, inode: &Inode, content: &Content<'_>) -> Blocks {
        let format = Format::new(
            self.check.geometry.features,
            self.check.geometry.block_size(),
            DirHasher::of(self.check.superblock),
            Packing::Full,
        );
        let owner = Owner {
            inode: content.nr,
            parent: content.parent,
            seed: self
                .check
                .checksums
                .inode_seed(content.nr, inode.generation),
            blocks_min: content.blocks_min,
        };
        let items: Vec<Item<'_>> = content.entries.iter().map(Entry::item).collect();
        if inode.flags.contains(InodeFlags::CASEFOLD) {
            return format.linear(owner, &items);
        }
        let built = format.build(owner, &items);
        built.unwrap_or_else(|_| format.linear(owner, &items))
    }

    /// `n` blocks in whole clusters, the old ones first; `None` if there is no space.
    fn blocks_for(&mut self, old: &[Extent], n: u64) -> Step<Option<Vec<BlockNr>>> {
        let geometry = self.check.geometry;
        let ratio = u64::from(geometry.blocks_per_cluster());
        let needed = n.div_ceil(ratio);
        let mut clusters: Vec<u64> = Vec::new();
        for extent in old {
            clusters.extend(self.check.clusters(extent.start.0..extent.physical_end()));
        }
        clusters.sort_unstable();
        clusters.dedup();
        while u64_of(clusters.len()) < needed {
            let goal = clusters.last().map_or(0, |last| last + 1) << geometry.cluster_bits;
            let goal = BlockNr(goal + u64::from(geometry.first_data_block));
            let Some(block) = self.allocate(goal)? else {
                return Ok(None);
            };
            clusters.extend(self.check.clusters(block.0..block.0 + 1));
        }
        let first = u64::from(geometry.first_data_block);
        let blocks = clusters.iter().flat_map(|cluster| {
            let start = first + (cluster << geometry.cluster_bits);
            (start..start + ratio).map(BlockNr)
        });
        let blocks: Vec<BlockNr> = blocks.take(uext4_num::clamp_usize(n)).collect();
        let are_inside = blocks.iter().all(|block| block.0 < geometry.blocks_count);
        Ok(are_inside.then_some(blocks))
    }
}

/// The map of a directory with these blocks.
fn extents_of(blocks: &[BlockNr]) -> Vec<Extent> {
    let mut extents = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let next = Extent {
            logical: LogicalBlock(clamp_u32(at)),
            start: *block,
            len: 1,
            state: ExtentState::Written,
        };
        append_extent(&mut extents, next);
    }
    extents
}
