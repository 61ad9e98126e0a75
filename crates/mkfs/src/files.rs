//! The initial inodes of a file system, and their blocks.

use uext4_format::dirent::{
    DirEntryType, DirLeaf, Insertion, LeafTail, NewEntry, init_first_block,
};
use uext4_format::indirect::{DIRECT_BLOCKS, DOUBLE_INDIRECT, pointer, set_pointer};
use uext4_format::orphan_file::seal_orphan_block;
use uext4_format::quota::QuotaKind;
use uext4_format::{
    BlockNr, BlockRun, Checksums, DamageLocation, Feature, Features, FileType, Geometry, GroupNr,
    Inode, InodeFlags, InodeNr, Superblock, Timestamp, extent,
};
use uext4_num::{clamp_i64, clamp_u32, high_u32, low_u16, low_u32, u64_of, usize_of};

use crate::error::Error;
use crate::mapping::{FileMap, map_runs};
use crate::options::Placement;
use crate::quota::{Usages, charge, render};
use crate::resize_inode::resize_map;
use crate::space::{Sharing, Space};

/// Minimum size of lost+found in bytes, so that a checker need not allocate.
const LOST_FOUND_BYTES: u32 = 16 << 10;
/// Most blocks of lost+found.
const LOST_FOUND_BLOCKS_MAX: u32 = DIRECT_BLOCKS;

/// Blocks to write, and the inodes in use.
pub(super) struct Files<'a> {
    pub(super) space: &'a mut Space,
    pub(super) checksums: Checksums,
    time: Timestamp,
    placement: Placement,
    /// Inodes in use, ascending.
    pub(super) inodes: Vec<(InodeNr, Inode)>,
    /// Blocks to write, in any order.
    pub(super) blocks: Vec<(BlockNr, Vec<u8>)>,
    /// Blocks that must read as zero unless [`Self::blocks`] has them.
    pub(super) zeroes: Vec<BlockRun>,
}

impl<'a> Files<'a> {
    pub(super) fn new(
        space: &'a mut Space,
        superblock: &Superblock,
        placement: Placement,
    ) -> Files<'a> {
        Files {
            placement,
            space,
            checksums: superblock.checksums(),
            time: Timestamp::new(clamp_i64(superblock.mkfs_time), 0),
            inodes: Vec::new(),
            blocks: Vec::new(),
            zeroes: Vec::new(),
        }
    }

    fn geometry(&self) -> Geometry {
        self.space.geometry
    }

    fn inode(&self, kind: FileType, permissions: u16, links: u16) -> Inode {
        let mut inode = Inode::new(&self.geometry(), uext4_format::KNOWN_EXTRA_BYTES);
        inode.mode = kind.mode_bits() | permissions;
        inode.links = links;
        let time = self.time.as_stored(inode.times_have_extra());
        (inode.atime, inode.mtime, inode.ctime) = (time, time, time);
        if inode.extra_isize > 0 {
            inode.crtime = time;
        }
        inode
    }

    /// Maps these runs in the inode, and counts them.
    fn attach(&mut self, inode: &mut Inode, ino: InodeNr, runs: &[BlockRun]) -> Result<(), Error> {
        let seed = self.checksums.inode_seed(ino, inode.generation);
        let FileMap { i_block, nodes } = map_runs(self.space, runs, seed)?;
        if self.geometry().features.has(Feature::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        inode.i_block = i_block;
        let geometry = self.geometry();
        let clusters: u64 = runs
            .iter()
            .map(|run| geometry.blocks_to_clusters(u64::from(run.len_blocks)))
            .sum();
        self.count(inode, clusters + u64_of(nodes.len()))?;
        self.blocks.extend(nodes);
        Ok(())
    }

    fn count(&self, inode: &mut Inode, clusters: u64) -> Result<(), Error> {
        let geometry = self.geometry();
        let sectors = clusters * (geometry.cluster_size() >> 9);
        inode
            .set_sectors(sectors, &geometry)
            .map_err(|_| Error::NoSpace("block counts"))
    }

    /// Adds the empty reserved inodes: the one of bad blocks has times, the others are zero.
    pub(super) fn add_reserved(&mut self, first_inode: u32) {
        let geometry = self.geometry();
        for ino in (1..first_inode).map(InodeNr) {
            if ino == InodeNr::ROOT || self.inodes.iter().any(|(used, _)| *used == ino) {
                continue;
            }
            let mut inode = Inode::new(&geometry, 0);
            if ino == InodeNr::BAD_BLOCKS {
                (inode.atime, inode.mtime, inode.ctime) = (self.time, self.time, self.time);
            }
            self.inodes.push((ino, inode));
        }
    }

    /// Adds the root directory with lost+found in it.
    pub(super) fn add_directories(&mut self, owner: (u32, u32)) -> Result<(), Error> {
        let lost_found = InodeNr(self.geometry().first_inode);
        let mut root = self.inode(FileType::Directory, 0o755, 3);
        (root.uid, root.gid) = owner;
        let runs = self.add_directory(root, InodeNr::ROOT, 1)?;
        let block_size = self.geometry().block_size();
        let blocks = rescue_dir_blocks(block_size, self.geometry().features);
        let inode = self.inode(FileType::Directory, 0o700, 2);
        self.add_directory(inode, lost_found, blocks)?;
        self.link(runs.start, lost_found, b"lost+found");
        Ok(())
    }

    fn leaf_tail(&self) -> LeafTail {
        match self.checksums.metadata {
            Some(_) => LeafTail::Checksum,
            None => LeafTail::None,
        }
    }

    fn entry_type(&self) -> DirEntryType {
        let typed = self.geometry().features.has(Feature::FILETYPE);
        if typed {
            DirEntryType::from(FileType::Directory)
        } else {
            DirEntryType::Unknown
        }
    }

    /// Adds a directory of this many blocks below the root, with only the dot entries.
    fn add_directory(
        &mut self,
        mut inode: Inode,
        ino: InodeNr,
        blocks: u32,
    ) -> Result<BlockRun, Error> {
        let block_size = self.geometry().block_size();
        let goal = self.geometry().group_first_block(GroupNr(0));
        let start = self
            .space
            .take_run(goal, blocks, Sharing::OwnClusters, "directories")?;
        let run = BlockRun {
            start,
            len_blocks: blocks,
        };
        self.attach(&mut inode, ino, &[run])?;
        inode.size = u64::from(blocks) * u64::from(block_size);
        let (tail, kind) = (self.leaf_tail(), self.entry_type());
        for at in 0..blocks {
            let mut bytes = vec![0; usize_of(block_size)];
            if at == 0 {
                init_first_block(&mut bytes, tail, ino, InodeNr::ROOT, kind);
            } else {
                DirLeaf::init(&mut bytes[..], tail, DamageLocation::Inode(ino));
            }
            if let Some(seed) = self.checksums.inode_seed(ino, 0) {
                DirLeaf::new(&mut bytes[..], tail, DamageLocation::Inode(ino))
                    .update_checksum(seed);
            }
            self.blocks.push((BlockNr(start.0 + u64::from(at)), bytes));
        }
        self.inodes.push((ino, inode));
        Ok(run)
    }

    /// Adds a directory's entry to the root's block.
    fn link(&mut self, root_block: BlockNr, inode: InodeNr, name: &[u8]) {
        let (tail, kind) = (self.leaf_tail(), self.entry_type());
        let seed = self.checksums.inode_seed(InodeNr::ROOT, 0);
        let root = self.blocks.iter_mut().find(|(nr, _)| *nr == root_block);
        let (_, bytes) = root.expect("the root directory was just made");
        let mut leaf = DirLeaf::new(&mut bytes[..], tail, DamageLocation::Inode(InodeNr::ROOT));
        let done = leaf
            .insert(&NewEntry { inode, name, kind })
            .expect("the block was just made");
        assert!(
            matches!(done, Insertion::Done(_)),
            "a new block has room for three names"
        );
        if let Some(seed) = seed {
            leaf.update_checksum(seed);
        }
    }

    /// Adds the empty journal: its blocks read as zero except the first, which is written later.
    /// It begins at `place`, or the next free blocks.
    pub(super) fn add_journal(
        &mut self,
        blocks: u32,
        place: Option<BlockNr>,
    ) -> Result<(Inode, BlockNr), Error> {
        let mut inode = self.inode(FileType::Regular, 0o600, 1);
        let purpose = "the journal";
        let runs = match place {
            Some(place) => self.space.take(place, blocks, purpose)?,
            None => self.take(self.middle(), blocks, purpose)?,
        };
        self.attach(&mut inode, InodeNr::JOURNAL, &runs)?;
        inode.size = u64::from(blocks) << self.geometry().block_bits;
        let first = runs.first().map_or(BlockNr(0), |run| run.start);
        self.zeroes.extend(runs);
        self.inodes.push((InodeNr::JOURNAL, inode.clone()));
        Ok((inode, first))
    }

    /// Allocates blocks near the goal, or packed.
    fn take(
        &mut self,
        goal: BlockNr,
        blocks: u32,
        purpose: &'static str,
    ) -> Result<Vec<BlockRun>, Error> {
        let first = self.geometry().group_first_block(GroupNr(0));
        match self.placement {
            Placement::Spread => self.space.take(goal, blocks, purpose),
            Placement::Packed => self.space.take_pieces(first, blocks, purpose),
        }
    }

    /// Goal for the journal: the middle of the device, close to most data.
    fn middle(&self) -> BlockNr {
        let geometry = self.geometry();
        let group = geometry.group_count / 2;
        let flex = geometry.groups_per_flex();
        let aligned = if group > flex {
            group / flex * flex
        } else {
            group
        };
        geometry.group_first_block(GroupNr(aligned))
    }

    /// Adds the empty orphan file.
    pub(super) fn add_orphan_file(&mut self, ino: InodeNr, blocks: u32) -> Result<(), Error> {
        let mut inode = self.inode(FileType::Regular, 0o600, 1);
        let goal = self.geometry().group_first_block(GroupNr(0));
        let runs = self.take(goal, blocks, "the orphan file")?;
        self.attach(&mut inode, ino, &runs)?;
        inode.size = u64::from(blocks) << self.geometry().block_bits;
        let seed = self.checksums.inode_seed(ino, inode.generation);
        for run in &runs {
            for nr in (run.start.0..run.start.0 + u64::from(run.len_blocks)).map(BlockNr) {
                let mut bytes = vec![0; usize_of(self.geometry().block_size())];
                seal_orphan_block(&mut bytes, nr, seed);
                self.blocks.push((nr, bytes));
            }
        }
        self.inodes.push((ino, inode));
        Ok(())
    }

    /// Adds a quota file with the usage of the directories made so far, and this one.
    pub(super) fn add_quota_file(
        &mut self,
        ino: InodeNr,
        kind: QuotaKind,
        usages: Usages<'_>,
    ) -> Result<(), Error> {
        let geometry = self.geometry();
        let mut usages = usages(kind);
        for (_, inode) in self.inodes.iter().filter(|(_, inode)| is_directory(inode)) {
            let id = match kind {
                QuotaKind::User => inode.uid,
                QuotaKind::Group => inode.gid,
                QuotaKind::Project => inode.projid,
            };
            charge(&mut usages, id, inode.sectors(&geometry) * 512);
        }
        let contents = render(kind, &usages);
        let block_size = usize_of(geometry.block_size());
        let blocks = clamp_u32(contents.len().div_ceil(block_size));
        let mut inode = self.inode(FileType::Regular, 0o600, 1);
        let goal = geometry.group_first_block(GroupNr(0));
        let start = self
            .space
            .take_run(goal, blocks, Sharing::OwnClusters, "quota files")?;
        self.attach(
            &mut inode,
            ino,
            &[BlockRun {
                start,
                len_blocks: blocks,
            }],
        )?;
        inode.flags.insert(InodeFlags::IMMUTABLE);
        inode.size = u64_of(contents.len());
        for (at, part) in contents.chunks(block_size).enumerate() {
            let mut bytes = part.to_vec();
            bytes.resize(block_size, 0);
            self.blocks.push((BlockNr(start.0 + u64_of(at)), bytes));
        }
        self.inodes.push((ino, inode));
        Ok(())
    }

    /// Adds the inode of the reserved descriptor blocks.
    pub(super) fn add_resize_inode(&mut self) -> Result<(), Error> {
        let geometry = self.geometry();
        let mut inode = self.inode(FileType::Regular, 0o600, 1);
        let per_block = u64::from(geometry.block_size() / 4);
        inode.size =
            (per_block * per_block + per_block + u64::from(DIRECT_BLOCKS)) << geometry.block_bits;
        let goal = geometry.group_first_block(GroupNr(0));
        let root = self
            .space
            .take_run(goal, 1, Sharing::OwnClusters, "the resize inode")?;
        set_pointer(&mut inode.i_block, DOUBLE_INDIRECT, root);
        let map = resize_map(&geometry);
        inode
            .set_sectors(map.sectors, &geometry)
            .map_err(|_| Error::NoSpace("block counts"))?;
        self.blocks.push((root, map.table));
        self.blocks.extend(map.reserved);
        self.inodes.push((InodeNr::RESIZE, inode));
        Ok(())
    }
}

fn is_directory(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Directory)
}

/// At least two blocks and 16 KiB, at most as many as direct blocks map. Like mke2fs, one block
/// less with inline directories.
fn rescue_dir_blocks(block_size: u32, features: Features) -> u32 {
    let blocks = (LOST_FOUND_BYTES / block_size).clamp(2, LOST_FOUND_BLOCKS_MAX);
    blocks - u32::from(features.has(Feature::INLINE_DATA))
}

/// The journal's inode as far as the superblock has a copy of it.
pub fn journal_of_backup(superblock: &Superblock, geometry: &Geometry) -> Option<Inode> {
    let [map @ .., high, low] = &superblock.jnl_blocks;
    if superblock.jnl_backup_type != 1 {
        return None;
    }
    let mut inode = Inode::new(geometry, 0);
    for (at, word) in map.iter().enumerate() {
        set_pointer(&mut inode.i_block, at, BlockNr(u64::from(*word)));
    }
    inode.mode = FileType::Regular.mode_bits() | 0o600;
    inode.links = 1;
    inode.size = u64::from(*high) << 32 | u64::from(*low);
    if low_u16(map[0]) == extent::MAGIC {
        inode.flags.insert(InodeFlags::EXTENTS);
    }
    Some(inode)
}

/// The superblock's copy of the journal inode: its map, then high and low half of its size.
pub fn journal_backup(inode: &Inode) -> [u32; 17] {
    std::array::from_fn(|i| match i {
        15 => high_u32(inode.size),
        16 => low_u32(inode.size),
        _ => clamp_u32(pointer(&inode.i_block, i).0),
    })
}
