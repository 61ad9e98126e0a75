//! The blocks of a transaction that gives inodes other numbers.

use super::Renumbered;
use super::references::{Owner, Reference, References};
use crate::descriptors::Descriptors;
use std::collections::{BTreeMap, BTreeSet};
use uext4_format::{BlockNr, FileType, GroupNr, Inode, InodeFlags, InodeNr};
use uext4_num::u64_of;
use uext4_volume::Volume;
use uext4_volume::{FileMap, has_map};
use uext4_volume::{ResizeError, Result};

/// Most blocks of a transaction.
const BLOCKS_MAX: u64 = 4096;

/// What a block holds that depends on its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Entries,
    TreeNode,
    Orphans,
}

/// A transaction. Owners and inodes have the numbers from before it.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) numbers: Renumbered,
    pub(super) owned: BTreeMap<BlockNr, (Owner, Holds)>,
    /// Attribute blocks with values in inodes.
    pub(super) values: BTreeSet<BlockNr>,
    /// Inodes that change without another number.
    pub(super) inodes: BTreeSet<InodeNr>,
    /// Blocks of inode tables.
    tables: BTreeSet<BlockNr>,
    groups: BTreeSet<GroupNr>,
}

impl Batch {
    /// Most blocks of the transaction: each group has a bitmap of inodes, of blocks, and a
    /// descriptor.
    fn blocks(&self) -> u64 {
        let groups = 3 * u64_of(self.groups.len());
        let blocks = self.owned.len() + self.values.len() + self.tables.len();
        u64_of(blocks) + groups + 1
    }
}

/// All transactions, in order.
pub(super) struct Batches<'a> {
    volume: &'a Volume,
    descriptors: &'a Descriptors,
    orphan_file: InodeNr,
    room: u64,
    /// Numbers after the transactions that are complete.
    before: Renumbered,
    all: Vec<Batch>,
}

/// What changes when an inode gets another number.
struct Needs {
    owned: Vec<(BlockNr, (Owner, Holds))>,
    values: Vec<BlockNr>,
    inodes: Vec<InodeNr>,
}

impl<'a> Batches<'a> {
    /// Divides the inodes among transactions that the log can hold.
    ///
    /// # Errors
    /// [`ResizeError::Journal`] if it cannot hold what one inode needs; damage.
    pub(super) fn of(
        volume: &'a Volume,
        descriptors: &'a Descriptors,
        numbers: &Renumbered,
        references: &References,
    ) -> Result<Self> {
        let mut batches = Self {
            volume,
            descriptors,
            orphan_file: InodeNr(volume.superblock().orphan_file_inum),
            room: volume.room()?.min(BLOCKS_MAX),
            before: Renumbered::new(),
            all: Vec::new(),
        };
        let mut batch = Batch::default();
        for (old, new) in numbers.iter() {
            let needs = batches.needs(old, references.to(old))?;
            let more = u64_of(needs.owned.len() + needs.values.len() + needs.inodes.len()) + 8;
            if batch.blocks() + more > batches.room && !batch.numbers.is_empty() {
                batches.close(&mut batch);
            }
            batches.add(&mut batch, old, new, needs)?;
            let wanted = batch.blocks();
            if wanted > batches.room {
                let room = batches.room;
                return Err(ResizeError::Journal { wanted, room }.into());
            }
        }
        batches.close(&mut batch);
        Ok(batches)
    }

    pub(super) fn into_vec(self) -> Vec<Batch> {
        self.all
    }

    fn close(&mut self, batch: &mut Batch) {
        for (old, new) in batch.numbers.iter() {
            self.before.push(old, new);
        }
        self.all.push(std::mem::take(batch));
    }

    /// References, and the blocks of the inode itself that depend on its number.
    fn needs(&self, nr: InodeNr, references: &[Reference]) -> Result<Needs> {
        let mut needs = Needs {
            owned: Vec::new(),
            values: Vec::new(),
            inodes: Vec::new(),
        };
        for reference in references {
            match *reference {
                Reference::Entry(owner, block) => {
                    needs.owned.push((block, (owner, Holds::Entries)))
                }
                Reference::Value(block) => needs.values.push(block),
                Reference::Inode(user) => needs.inodes.push(user),
            }
        }
        if self.volume.superblock().checksums().metadata.is_some() {
            self.own_blocks(nr, &mut needs)?;
        }
        Ok(needs)
    }

    fn own_blocks(&self, nr: InodeNr, needs: &mut Needs) -> Result<()> {
        let inode = self.inode(nr)?;
        if !has_map(&inode) {
            return Ok(());
        }
        let holds = match inode.file_type() {
            Some(FileType::Directory) => Some(Holds::Entries),
            _ if nr == self.orphan_file => Some(Holds::Orphans),
            _ => None,
        };
        let is_tree = inode.flags.contains(InodeFlags::EXTENTS);
        if holds.is_none() && !is_tree {
            return Ok(());
        }
        let owner = Owner::of(nr, &inode);
        let map = FileMap::read(self.volume, nr, &inode)?;
        if is_tree {
            let nodes = map.nodes.iter();
            needs
                .owned
                .extend(nodes.map(|node| (*node, (owner, Holds::TreeNode))));
        }
        if let Some(holds) = holds {
            let blocks = map.extents.iter();
            let blocks = blocks.flat_map(|extent| extent.start.0..extent.physical_end());
            needs
                .owned
                .extend(blocks.map(|block| (BlockNr(block), (owner, holds))));
        }
        Ok(())
    }

    fn inode(&self, nr: InodeNr) -> Result<Inode> {
        let (block, offset) = self.descriptors.inode_position(nr)?;
        let bytes = self.volume.read(block)?;
        let checksums = self.volume.superblock().checksums();
        let geometry = self.volume.geometry();
        Ok(Inode::parse(&bytes[offset..], nr, geometry, &checksums)?)
    }

    fn add(&self, batch: &mut Batch, old: InodeNr, new: InodeNr, needs: Needs) -> Result<()> {
        let now = |nr: InodeNr| self.before.now(nr);
        for (block, (owner, holds)) in needs.owned {
            let nr = now(owner.nr);
            batch.owned.insert(block, (Owner { nr, ..owner }, holds));
        }
        batch.values.extend(needs.values);
        let inodes: Vec<InodeNr> = needs.inodes.into_iter().map(now).collect();
        for nr in inodes.iter().copied().chain([old, new]) {
            let (block, _) = self.descriptors.inode_position(nr)?;
            batch.tables.insert(block);
        }
        batch.inodes.extend(inodes);
        batch.numbers.push(old, new);
        for nr in [old, new] {
            let group = self.volume.geometry().split_inode(nr);
            batch.groups.extend(group.map(|place| place.0));
        }
        Ok(())
    }
}
