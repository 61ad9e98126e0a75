//! A directory and its blocks during one operation.
//!
//! Invariants: the caller holds the directory's `index` lock at least shared while a [`Dir`] lives,
//! so form and length stay as read; a caller without the lock validates the version afterwards.
//! Locking: mapping a block takes the inode's state; no leaf may be locked then.

use crate::cache::meta::{BlockState, MetaBlock, Seal};
use crate::parts::map;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::dir_config::DirConfig;
use crate::types::error::{Error, Result};
use uext4_format::dirent::{BlockKind, DirLeaf, KnownLeaf, KnownLeafMut, LeafTable, LeafTail};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, InodeFlags, LogicalBlock, Seed};
use uext4_journal::Image;
use uext4_sync::Arc;

/// Arrangement of the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In the inode (feature inline_data).
    Inline,
    /// Blocks of entries without order.
    Linear,
    /// Leaves ordered by hash under an index.
    Indexed,
}

/// A leaf that is not in a block yet.
pub(super) struct NewLeaf {
    pub(super) bytes: Image,
    pub(super) table: LeafTable,
}

/// A directory during one operation.
pub(super) struct Dir<'a> {
    pub(super) fs: &'a Fs,
    pub(super) inode: &'a Arc<Inode>,
    pub(super) form: Form,
    /// Length in blocks when it was opened; splits may have added others since.
    pub(super) blocks: u32,
    seed: Seed,
}

impl<'a> Dir<'a> {
    /// Reads form and length of a directory; its `index` lock is held, or its version is validated
    /// later.
    pub(super) fn open(fs: &'a Fs, inode: &'a Arc<Inode>) -> Result<Self> {
        let facts = inode.facts();
        let flags = facts.flags;
        let form = if flags.contains(InodeFlags::INLINE_DATA) {
            Form::Inline
        } else if flags.contains(InodeFlags::INDEX) && fs.dirs.index {
            Form::Indexed
        } else {
            Form::Linear
        };
        let blocks = match form {
            Form::Inline => 0,
            _ => u32::try_from(facts.size / fs.block_bytes()).map_err(|_| {
                Corrupt::new(
                    DamageLocation::Inode(inode.nr()),
                    "directory",
                    CorruptKind::TooLarge,
                )
            })?,
        };
        Ok(Self {
            fs,
            inode,
            form,
            blocks,
            seed: fs.inodes.format().seed(inode.nr(), facts.generation),
        })
    }

    /// The configuration of all directories.
    pub(super) fn config(&self) -> &'a DirConfig {
        &self.fs.dirs
    }

    /// Checksum of this directory's blocks.
    pub(super) fn seal(&self) -> Seal {
        Seal::Directory(self.seed)
    }

    /// Whether the directory has this block. A split may have added it since this was opened.
    pub(super) fn has(&self, nr: LogicalBlock) -> bool {
        nr.0 < self.blocks
            || self
                .inode
                .size_now()
                .is_none_or(|size| self.has_in(size, nr))
    }

    /// As [`Self::has`], for a directory that has this size in bytes now.
    fn has_in(&self, size: u64, nr: LogicalBlock) -> bool {
        nr.0 < self.blocks
            || self.form == Form::Indexed && u64::from(nr.0) * self.fs.block_bytes() < size
    }

    /// Whether a split has moved the names of this major hash from a leaf to another one.
    pub(super) fn is_split_off(&self, leaf: LogicalBlock, major: Option<u32>) -> bool {
        is_split_off(self.inode, leaf, major)
    }

    /// A block of the directory; `None` for a hole, or a block that was never written.
    pub(super) fn block(&self, nr: LogicalBlock) -> Result<Option<Arc<MetaBlock>>> {
        match self.known(nr) {
            Some(block) => {
                // A block that is read is counted there.
                self.fs.base.spend_block(block.nr(), self.seal().name())?;
                Ok(Some(block))
            }
            None => self.block_in(&self.inode.read(), nr),
        }
    }

    /// A block of the directory, if it is in memory and was used before.
    pub(super) fn known(&self, nr: LogicalBlock) -> Option<Arc<MetaBlock>> {
        self.has(nr)
            .then(|| self.inode.dir_blocks().block(nr))
            .flatten()
    }

    /// As [`Self::block`], with the inode's state locked already.
    pub(super) fn block_in(
        &self,
        state: &InodeState,
        nr: LogicalBlock,
    ) -> Result<Option<Arc<MetaBlock>>> {
        if !self.has_in(state.disk.size, nr) {
            return Ok(None);
        }
        let Some(physical) = map::block_of(self.fs, state, nr)? else {
            return Ok(None);
        };
        let read = self.fs.read_block(physical, self.seal(), |bytes| {
            self.leaf(bytes, physical).validate()
        });
        match read {
            Err(Error::Corrupt(corrupt)) => {
                if self.is_blank(physical)? {
                    Ok(None)
                } else {
                    Err(Error::Corrupt(corrupt))
                }
            }
            read => {
                let block = read?;
                self.inode.dir_blocks().put(nr, &block);
                Ok(Some(block))
            }
        }
    }

    /// A block that must be there.
    pub(super) fn block_or_damage(&self, nr: LogicalBlock) -> Result<Arc<MetaBlock>> {
        self.block(nr)?
            .ok_or_else(|| self.damage(CorruptKind::BlockMissing).into())
    }

    /// True when the block holds only zeros: it was allocated and never written.
    fn is_blank(&self, physical: BlockNr) -> Result<bool> {
        self.fs.check_block(physical, self.seal().name())?;
        Ok(self
            .fs
            .base
            .journal
            .read_block(physical)?
            .iter()
            .all(|&byte| byte == 0))
    }

    /// The entries of a block, to iterate. A root or node appears as in a reader without index
    /// support.
    pub(super) fn leaf<B: AsRef<[u8]>>(&self, bytes: B, nr: BlockNr) -> DirLeaf<B> {
        let tail = tail_of(self.config(), bytes.as_ref());
        DirLeaf::new(bytes, tail, self.location(nr))
    }

    /// As [`Self::leaf`], to search for names.
    pub(super) fn names<'b>(&self, state: &'b BlockState) -> Result<KnownLeaf<'b>> {
        let place = self.location(state.nr());
        Ok(state.leaf(|bytes| table(self.fs, bytes, place))?)
    }

    /// As [`Self::names`]; updates the prefetch hints of the block.
    pub(super) fn names_in<'b>(
        &self,
        block: &MetaBlock,
        state: &'b BlockState,
    ) -> Result<KnownLeaf<'b>> {
        let names = self.names(state)?;
        self.inode.dir_blocks().update_hints(block, state);
        Ok(names)
    }

    /// As [`Self::names`], to change; the block must be a leaf.
    pub(super) fn names_mut<'b>(&self, state: &'b mut BlockState) -> Result<KnownLeafMut<'b>> {
        names_mut(self.fs, self.inode, state)
    }

    /// A new leaf with its table of names, built while its bytes are still in the CPU cache.
    pub(super) fn new_leaf(&self, bytes: Image) -> Result<NewLeaf> {
        let table = table(self.fs, &bytes, DamageLocation::Inode(self.inode.nr()))?;
        Ok(NewLeaf { bytes, table })
    }

    /// Location of block `nr` of this directory, for errors.
    pub(super) fn location(&self, nr: BlockNr) -> DamageLocation {
        DamageLocation::InodeBlock(self.inode.nr(), nr)
    }

    /// Damage of the directory as a whole.
    pub(super) fn damage(&self, problem: CorruptKind) -> Corrupt {
        Corrupt::new(DamageLocation::Inode(self.inode.nr()), "directory", problem)
    }
}

/// See [`Dir::is_split_off`].
pub(super) fn is_split_off(dir: &Inode, leaf: LogicalBlock, major: Option<u32>) -> bool {
    if let Some(major) = major
        && let Some(version) = dir.index.version()
    {
        let right = dir.dir_blocks().right_of(version, leaf);
        right.is_some_and(|right| major >= right.hash)
    } else {
        false
    }
}

/// See [`Dir::names_mut`].
pub(super) fn names_mut<'b>(
    fs: &Fs,
    dir: &Inode,
    state: &'b mut BlockState,
) -> Result<KnownLeafMut<'b>> {
    let place = DamageLocation::InodeBlock(dir.nr(), state.nr());
    let leaf = state.leaf_mut(|bytes| table(fs, bytes, place))?;
    if leaf.tail() != fs.dirs.tail {
        let problem = CorruptKind::IndexAsLeaf;
        return Err(Corrupt::new(place, "directory leaf", problem).into());
    }
    Ok(leaf)
}

fn table(fs: &Fs, bytes: &[u8], place: DamageLocation) -> std::result::Result<LeafTable, Corrupt> {
    let leaf = DirLeaf::new(bytes, tail_of(&fs.dirs, bytes), place);
    LeafTable::build(&leaf, |name| fs.name_hasher.key(name).print())
}

fn tail_of(config: &DirConfig, bytes: &[u8]) -> LeafTail {
    match config.tail {
        LeafTail::Checksum if BlockKind::of(bytes) != BlockKind::Leaf => LeafTail::None,
        tail => tail,
    }
}

/// True for "." and "..", which are in the first block in every form.
pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
