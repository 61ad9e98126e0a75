//! A quota file's tree as a live object.

use super::GraceTimes;
use super::owner::EntryLocation;
use crate::state::base::Base;
use crate::types::error::{Error, Result};
use uext4_format::quota::{
    Patch, QUOTA_BLOCK_BYTES, QUOTA_ENTRY_BYTES, QuotaEntry, QuotaKind, QuotaTree,
};
use uext4_format::{BlockNr, CorruptKind, LogicalBlock};
use uext4_journal::{Image, Live, Object, Render, Sink};
use uext4_num::{clamp_u32, clamp_usize, u64_of};
use uext4_sync::{Arc, Rank};

/// An entry and its location.
pub(crate) type Placed = (QuotaEntry, EntryLocation);

pub(crate) struct QuotaFile {
    live: Live<FileState>,
}

impl Object for QuotaFile {
    type State = FileState;
    fn live(&self) -> &Live<FileState> {
        &self.live
    }
}

/// The tree, its blocks, and unrendered changes of the tree.
pub(crate) struct FileState {
    tree: QuotaTree,
    block_size: u64,
    blocks: Vec<BlockNr>,
    changed: Vec<Patch>,
}

impl Render for FileState {
    const RANK: Rank = Rank::QuotaFile;

    fn render(&mut self, out: &mut Sink<'_>) {
        for patch in std::mem::take(&mut self.changed) {
            if let Some(place) = self.locate(patch.at) {
                out.patch(place.block, place.offset, &patch.bytes);
            }
        }
    }
}

impl FileState {
    /// Location of a byte of the file on the device.
    fn locate(&self, at: u64) -> Option<EntryLocation> {
        let block = *self.blocks.get(clamp_usize(at / self.block_size))?;
        let offset = clamp_usize(at % self.block_size);
        Some(EntryLocation { block, offset, at })
    }

    /// The block that the file needs before the next entry, if it is too short.
    pub(super) fn next_block(&self) -> Option<LogicalBlock> {
        let have = u64_of(self.blocks.len()) * self.block_size;
        let next = LogicalBlock(clamp_u32(self.blocks.len()));
        (have < self.tree.bytes_for_insert()).then_some(next)
    }

    /// Adds a zeroed block to the file.
    pub(crate) fn grow(&mut self, block: BlockNr) {
        self.blocks.push(block);
    }

    /// Sets the grace times in the info block.
    pub(super) fn set_grace(&mut self, grace: GraceTimes) {
        self.tree.info.space_grace_seconds = grace.space_seconds;
        self.tree.info.inodes_grace_seconds = grace.inodes_seconds;
        let patch = self.tree.info_patch();
        self.changed.push(patch);
    }

    /// Allocates a slot for a new entry; the file is long enough. Also returns a bound on the
    /// blocks that change.
    pub(super) fn insert(&mut self, id: u32) -> Option<(EntryLocation, u32)> {
        let (at, patches) = self.tree.insert(id);
        // The owner renders the slot, in any order with this file: what the transaction did to
        // these bytes before is over.
        let slot = at..at + u64_of(QUOTA_ENTRY_BYTES);
        self.changed.retain(|patch| !slot.contains(&patch.at));
        let blocks = clamp_u32(patches.len());
        self.changed.extend(patches);
        Some((self.locate(at)?, blocks))
    }

    /// Frees the slot of an entry; returns a bound on the blocks that change.
    pub(super) fn remove(&mut self, id: u32, place: EntryLocation) -> u32 {
        let patches = self.tree.remove(id, place.at).unwrap_or_default();
        let blocks = clamp_u32(patches.len());
        self.changed.extend(patches);
        blocks
    }

    /// Size of the file in bytes: all of its blocks, as e2fsck requires.
    pub(super) fn size_bytes(&self) -> u64 {
        u64_of(self.blocks.len()) * self.block_size
    }
}

impl QuotaFile {
    /// Reads the file in these blocks; also returns its entries with their locations.
    pub(crate) fn read(
        base: &Base,
        kind: QuotaKind,
        blocks: Vec<BlockNr>,
        corrupt: impl Fn(CorruptKind) -> Error + Copy,
    ) -> Result<(Arc<Self>, Vec<Placed>)> {
        let block_size = base.block_bytes();
        let mut last: Option<(BlockNr, Image)> = None;
        let read = |block: u32, _| {
            let at = u64::from(block) * u64_of(QUOTA_BLOCK_BYTES);
            let nr = blocks.get(clamp_usize(at / block_size)).copied();
            let nr = nr.ok_or_else(|| corrupt(CorruptKind::BlockBehindEnd))?;
            let image = match last.take() {
                Some((known, image)) if known == nr => image,
                _ => base.journal.read_block(nr)?,
            };
            let mut bytes = [0; QUOTA_BLOCK_BYTES];
            let within = clamp_usize(at % block_size);
            bytes.copy_from_slice(&image[within..within + QUOTA_BLOCK_BYTES]);
            last = Some((nr, image));
            Ok(bytes)
        };
        let (tree, entries) = QuotaTree::read(kind, read, corrupt)?;
        if tree.used_bytes() > u64_of(blocks.len()) * block_size {
            return Err(corrupt(CorruptKind::MoreBlocks));
        }
        let state = FileState {
            tree,
            block_size,
            blocks,
            changed: Vec::new(),
        };
        let placed = entries.into_iter().map(|(entry, at)| {
            let place = state
                .locate(at)
                .ok_or_else(|| corrupt(CorruptKind::NoSuchEntry));
            place.map(|place| (entry, place))
        });
        let placed = placed.collect::<Result<Vec<_>>>()?;
        let live = Live::new(state);
        Ok((Arc::new(Self { live }), placed))
    }

    pub(super) fn grace(&self) -> GraceTimes {
        let info = self.live.read().tree.info;
        GraceTimes {
            space_seconds: info.space_grace_seconds,
            inodes_seconds: info.inodes_grace_seconds,
        }
    }

    /// Size of the file in bytes, with all of its blocks.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.live.read().size_bytes()
    }

    /// The block that the file needs before the next entry.
    pub(crate) fn next_block(&self) -> Option<LogicalBlock> {
        self.live.read().next_block()
    }
}
