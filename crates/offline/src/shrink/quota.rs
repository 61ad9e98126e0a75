//! Usage in quota files, which counts the blocks of maps: for files whose map gets another number
//! of blocks.
//!
//! The entries are found once, and change where they are. A quota file that moves is a change of
//! its own, since the entries are in other blocks then.

use super::moves::Mover;
use std::collections::BTreeMap;
use uext4_format::quota::{QUOTA_BLOCK_BYTES, QUOTA_ENTRY_BYTES, QuotaEntry, QuotaKind, QuotaTree};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Inode, InodeFlags, InodeNr};
use uext4_num::{clamp_usize, u64_of};
use uext4_volume::FileMap;
use uext4_volume::{Error, Result};

/// Block and byte of the entry of each owner.
pub(super) type Entries = BTreeMap<(QuotaKind, u32), (BlockNr, usize)>;

impl Mover<'_> {
    pub(super) fn is_quota_file(&self, nr: InodeNr) -> bool {
        let mut files = self.volume.superblock().quota_files();
        files.any(|(_, file)| file == nr)
    }

    /// Charges the owners of an inode for `sectors` instead of those that it has.
    pub(super) fn charge(&mut self, nr: InodeNr, inode: &Inode, sectors: u64) -> Result<()> {
        let geometry = *self.volume.geometry();
        let before = inode.sectors(&geometry);
        let is_file = nr == InodeNr::ROOT || nr.0 >= geometry.first_inode;
        let is_own = self.is_quota_file(nr) || nr.0 == self.volume.superblock().orphan_file_inum;
        let is_value = inode.flags.contains(InodeFlags::EA_INODE);
        if before == sectors || !is_file || is_own || is_value {
            return Ok(());
        }
        for (kind, file) in self.volume.superblock().quota_files() {
            let id = inode.owner(kind);
            let Some((block, at)) = self.entry_of(kind, file, id)? else {
                continue;
            };
            let mut bytes = self.block(block)?;
            let raw = &mut bytes[at..at + QUOTA_ENTRY_BYTES];
            let mut entry = QuotaEntry::decode(raw).unwrap_or_default();
            let more = entry.space_bytes.saturating_add(sectors * 512);
            entry.space_bytes = more.saturating_sub(before * 512);
            raw.copy_from_slice(&entry.encode());
            self.blocks.insert(block, bytes);
        }
        Ok(())
    }

    fn entry_of(
        &mut self,
        kind: QuotaKind,
        file: InodeNr,
        id: u32,
    ) -> Result<Option<(BlockNr, usize)>> {
        if !self.usages.keys().any(|(known, _)| *known == kind) {
            let found = self.read_entries(kind, file)?;
            self.usages.extend(found);
        }
        Ok(self.usages.get(&(kind, id)).copied())
    }

    /// Reads a quota file, of which no change waits for a commit but in its entries.
    fn read_entries(&self, kind: QuotaKind, nr: InodeNr) -> Result<Entries> {
        let map = FileMap::read(self.volume, nr, &self.inode(nr)?)?;
        let blocks = map.extents.iter();
        let blocks = blocks.flat_map(|extent| extent.start.0..extent.physical_end());
        let blocks: Vec<u64> = blocks.collect();
        let block_size = u64::from(self.volume.geometry().block_size());
        let wrong = |problem| {
            Error::from(Corrupt::new(
                DamageLocation::Inode(nr),
                "quota file",
                problem,
            ))
        };
        let place = |at: u64| {
            let block = blocks.get(clamp_usize(at / block_size)).copied();
            let block = block.ok_or_else(|| wrong(CorruptKind::BlockBehindEnd))?;
            Ok::<_, Error>((BlockNr(block), clamp_usize(at % block_size)))
        };
        let read = |block: u32, _| {
            let (nr, at) = place(u64::from(block) * u64_of(QUOTA_BLOCK_BYTES))?;
            let mut bytes = [0; QUOTA_BLOCK_BYTES];
            bytes.copy_from_slice(&self.volume.read(nr)?[at..at + QUOTA_BLOCK_BYTES]);
            Ok::<_, Error>(bytes)
        };
        let (_, entries) = QuotaTree::read(kind, read, wrong)?;
        let entries = entries.into_iter();
        entries
            .map(|(entry, at)| Ok(((kind, entry.id), place(at)?)))
            .collect()
    }
}
