//! Repair of quota files: what the owners use, with the limits that the file has.
//!
//! If the tree has all owners, only their entries change. Otherwise the file is built anew, in the
//! blocks that it has or in new ones, as a directory is.

use super::Outcome;
use super::patch::Patch;
use super::rebuild::BYTES_PER_BLOCK;
use crate::quota_files::{Content, is_file, missing};
use crate::state::Step;
use crate::usages::{Owners, Usage};
use std::collections::BTreeMap;
use uext4_format::quota::{ENTRIES_PER_LEAF, QUOTA_BLOCK_BYTES, QuotaEntry, QuotaInfo, QuotaKind};
use uext4_format::{
    CorruptKind, Feature, FileType, Inode, InodeFlags, InodeNr, KNOWN_EXTRA_BYTES, Timestamp,
};
use uext4_num::{u64_of, usize_of};

/// Memory for an entry while a file is built, beside its blocks, in bytes.
const BYTES_PER_ENTRY: u64 = 800;

/// Entries by owner.
pub(super) type Entries = BTreeMap<u32, QuotaEntry>;

/// Whether a file was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    NoSpace,
    /// Not: the disk is full, and a stop between writes would lose limits.
    MayTear,
}

impl Patch<'_, '_> {
    pub(super) fn repair_quota(&mut self, nr: InodeNr) -> Step<Outcome> {
        let mut files = self.check.superblock.quota_files();
        let Some((kind, _)) = files.find(|(_, file)| *file == nr) else {
            return Ok(Outcome::Impossible);
        };
        let content = self.check.quota_content(kind, nr)?;
        let owners = self.check.usages.take(kind);
        let outcome = match &content {
            Ok(content) if missing(&content.entries, &owners).next().is_none() => {
                self.store_usage(nr, content, &owners)
            }
            _ => self.build_quota(nr, kind, content.as_ref(), &owners),
        };
        let taken = content.map_or(0, |content| content.bytes());
        self.check.give_back(taken);
        self.check.usages.put_back(kind, owners);
        outcome
    }

    /// Changes the entries that say otherwise.
    fn store_usage(&mut self, nr: InodeNr, content: &Content, owners: &Owners) -> Step<Outcome> {
        let Some(blocks) = self.check.quota_blocks(nr)? else {
            return Ok(Outcome::Impossible);
        };
        for (entry, at) in &content.entries {
            let usage = owners.get(&entry.id).copied().unwrap_or_default();
            let byte = blocks.byte_of(*at, self.check.block_bytes());
            if Usage::of(entry) != usage
                && let Some(byte) = byte
            {
                self.write_part(byte, &with_usage(*entry, usage).encode())?;
            }
        }
        self.check.give_back(blocks.bytes());
        Ok(Outcome::Repaired)
    }

    fn build_quota(
        &mut self,
        nr: InodeNr,
        kind: QuotaKind,
        content: Result<&Content, &CorruptKind>,
        owners: &Owners,
    ) -> Step<Outcome> {
        // Also of a sound tree: no entry of the file is lost, whatever the tree leads to.
        let (info, mut entries) = self.salvage_quota(nr, kind)?;
        if let Ok(content) = content {
            let n_before = entries.len();
            let all = content.entries.iter();
            entries.extend(all.map(|(entry, _)| (entry.id, *entry)));
            let n_new = u64_of(entries.len() - n_before);
            self.check.take(n_new * BYTES_PER_ENTRY)?;
        }
        let n_found = entries.len();
        entries.retain(|id, entry| owners.contains_key(id) || entry.is_limited());
        self.check.take(u64_of(owners.len()) * BYTES_PER_ENTRY)?;
        for entry in entries.values_mut() {
            *entry = with_usage(*entry, Usage::default());
        }
        for (id, usage) in owners {
            let entry = entries.entry(*id).or_insert(QuotaEntry {
                id: *id,
                ..QuotaEntry::default()
            });
            *entry = with_usage(*entry, *usage);
        }
        let outcome = match self.write_quota(nr, kind, info, &entries)? {
            Written::Yes => Outcome::Repaired,
            Written::NoSpace => Outcome::Impossible,
            Written::MayTear => match content {
                Ok(content) => self.store_usage(nr, content, owners)?,
                Err(_) => Outcome::Impossible,
            },
        };
        self.check
            .give_back(u64_of(n_found + owners.len()) * BYTES_PER_ENTRY);
        Ok(outcome)
    }

    fn write_quota(
        &mut self,
        nr: InodeNr,
        kind: QuotaKind,
        info: Option<QuotaInfo>,
        entries: &Entries,
    ) -> Step<Written> {
        let block_size = self.check.block_bytes();
        let inode = self.inode(nr)?.filter(is_file);
        let old = match &inode {
            Some(inode) => self.extents_of(nr, inode)?,
            None => Vec::new(),
        };
        let n_old = old.iter().map(|extent| u64::from(extent.len)).sum::<u64>();
        let bytes = parts_of(entries) * u64_of(QUOTA_BLOCK_BYTES);
        let n_blocks = bytes / block_size + n_old + 1;
        let taken = 2 * bytes + n_blocks * BYTES_PER_BLOCK;
        self.check.take(taken)?;
        let all: Vec<QuotaEntry> = entries.values().copied().collect();
        let mut file = uext4_mkfs::quota_file(kind, &all);
        if let Some(info) = info {
            keep_grace(&mut file, kind, info);
        }
        file.resize(
            file.len()
                .next_multiple_of(usize_of(self.check.geometry.block_size())),
            0,
        );
        let n_new = u64_of(file.len()) / block_size;
        let has_limits = entries.values().any(QuotaEntry::is_limited);
        let is_whole = n_old == 0 || n_old.max(n_new) == 1 || self.is_atomic(&old, n_new)?;
        if has_limits && !is_whole {
            self.check.give_back(taken);
            return Ok(Written::MayTear);
        }
        let inode = inode.unwrap_or_else(|| self.new_quota_inode());
        let is_written = self.write_file(inode, nr, &file, &old)?;
        self.check.give_back(taken);
        Ok(if is_written {
            Written::Yes
        } else {
            Written::NoSpace
        })
    }

    /// Whether the superblock names a quota file of this number.
    pub(super) fn is_quota_file(&self, nr: InodeNr) -> bool {
        let mut files = self.superblock.quota_files();
        files.any(|(_, file)| file == nr)
    }

    /// Makes a quota file without blocks, for the quota pass.
    pub(super) fn make_quota_file(&mut self, nr: InodeNr) -> Step<Outcome> {
        let mut inode = self.new_quota_inode();
        self.set_map(nr, &mut inode, &[])?;
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// An inode for a quota file, without a map.
    fn new_quota_inode(&self) -> Inode {
        let geometry = &self.check.geometry;
        let mut inode = Inode::new(geometry, KNOWN_EXTRA_BYTES);
        inode.mode = FileType::Regular.mode_bits() | 0o600;
        inode.links = 1;
        let now = self.check.clock.wall();
        let now = inode.stored(Timestamp::new(now.seconds, now.nanoseconds));
        (inode.atime, inode.mtime, inode.ctime) = (now, now, now);
        inode.flags.insert(InodeFlags::IMMUTABLE);
        if geometry.features.has(Feature::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        inode
    }
}

fn with_usage(entry: QuotaEntry, usage: Usage) -> QuotaEntry {
    QuotaEntry {
        inodes: usage.inodes,
        space_bytes: usage.bytes,
        ..entry
    }
}

/// Blocks of 1 KiB of a file with these entries.
fn parts_of(entries: &Entries) -> u64 {
    let nodes = [8, 16, 24].map(|bits| {
        let mut last = None;
        let changes = entries
            .keys()
            .filter(|id| last.replace(*id >> bits) != Some(*id >> bits));
        changes.count()
    });
    u64_of(nodes.iter().sum::<usize>() + entries.len().div_ceil(ENTRIES_PER_LEAF) + 2)
}

/// Lets a file have the grace times of another one.
fn keep_grace(file: &mut [u8], kind: QuotaKind, old: QuotaInfo) {
    let Ok(new) = QuotaInfo::decode(file, kind) else {
        return;
    };
    let info = QuotaInfo {
        space_grace_seconds: old.space_grace_seconds,
        inodes_grace_seconds: old.inodes_grace_seconds,
        flags: old.flags,
        ..new
    };
    let front = info.encode(kind);
    if let Some(bytes) = file.get_mut(..front.len()) {
        bytes.copy_from_slice(&front);
    }
}
