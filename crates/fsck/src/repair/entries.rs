//! Entries of a directory under repair: which of them stay, and under which names and types.
//!
//! Invariant: an entry is changed only by the rule of an accepted finding, about the block that
//! holds it. What an entry breaks after that is a finding of the next round.

use super::damaged_directory::DamagedDirectory;
use super::patch::Patch;
use crate::entries::is_forbidden;
use crate::state::Step;
use std::collections::{BTreeMap, HashSet};
use uext4_format::dirent::{DirEntry, DirEntryType};
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeNr};
use uext4_mkfs::directory::Item;
use uext4_num::u64_of;

/// Memory of an entry beside its name, in bytes.
const BYTES_PER_ENTRY: u64 = 120;

/// An entry, apart from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) inode: InodeNr,
    /// The type byte.
    pub(super) code: u8,
    pub(super) name: Vec<u8>,
}

impl Entry {
    pub(super) fn of(record: &DirEntry<'_>) -> Self {
        Self {
            inode: record.inode,
            code: record.code,
            name: record.name.to_vec(),
        }
    }

    /// The entry for the rules, which read no lengths.
    pub(super) fn record(&self) -> DirEntry<'_> {
        DirEntry {
            offset: 0,
            rec_len: 0,
            inode: self.inode,
            name: &self.name,
            kind: DirEntryType::from_code(self.code),
            code: self.code,
        }
    }

    pub(super) fn item(&self) -> Item<'_> {
        Item {
            name: &self.name,
            inode: self.inode,
            kind: DirEntryType::from_code(self.code),
        }
    }

    pub(super) fn is_dots(&self) -> bool {
        matches!(self.name[..], [b'.'] | [b'.', b'.'])
    }

    /// Counted memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        BYTES_PER_ENTRY + u64_of(self.name.len())
    }
}

/// An entry with the place of its block.
pub(super) type Placed = (Entry, DamageLocation);

impl Patch<'_, '_> {
    /// Applies the rules to entries of a directory.
    pub(super) fn apply_rules(
        &self,
        dir: &DamagedDirectory,
        place: DamageLocation,
        entries: Vec<Entry>,
    ) -> Vec<Entry> {
        let entries = entries.into_iter();
        let kept =
            entries.filter_map(
                |entry| match self.check.problem_of(dir.rules, &entry.record()) {
                    Some(problem) if dir.accepted.has(place, problem) => {
                        self.corrected(entry, problem)
                    }
                    _ => Some(entry),
                },
            );
        kept.collect()
    }

    /// The entry without its problem; `None` if it has to go.
    fn corrected(&self, mut entry: Entry, problem: CorruptKind) -> Option<Entry> {
        match problem {
            CorruptKind::EntryType => {
                entry.code = self.code_of(entry.inode);
                Some(entry)
            }
            CorruptKind::NameBytes => {
                let bytes = entry.name.iter_mut();
                bytes
                    .filter(|byte| is_forbidden(**byte))
                    .for_each(|byte| *byte = b'.');
                if entry.is_dots() {
                    entry.name.push(b'~');
                }
                Some(entry)
            }
            _ => None,
        }
    }

    /// The type byte of entries of an inode.
    pub(super) fn code_of(&self, nr: InodeNr) -> u8 {
        let typed = self.check.geometry.features;
        let kind = self.check.links.kind(nr);
        let kind = kind.filter(|_| typed.has(Feature::FILETYPE));
        kind.map_or(0, FileType::dirent_code)
    }

    /// Lets each directory have one name only: the first one, unless its ".." says that it belongs
    /// here. Then the other name goes.
    pub(super) fn drop_second_names(
        &mut self,
        dir: &DamagedDirectory,
        entries: Vec<Placed>,
    ) -> Step<Vec<Placed>> {
        let mut named = HashSet::new();
        let mut others: BTreeMap<InodeNr, HashSet<InodeNr>> = BTreeMap::new();
        let mut kept = Vec::with_capacity(entries.len());
        for (entry, place) in entries {
            let child = entry.inode;
            let is_dir = self.check.links.is_directory(child);
            let sound = self.check.problem_of(dir.rules, &entry.record()).is_none();
            if !is_dir || !sound || !dir.accepted.has(place, CorruptKind::DirectoryTwice) {
                if is_dir && sound {
                    named.insert(child);
                }
                kept.push((entry, place));
                continue;
            }
            let parent = self.check.links.parent(child);
            let belongs = parent == Some(dir.nr) || self.check.links.up(child) == Some(dir.nr);
            if !belongs || !named.insert(child) {
                continue;
            }
            if let Some(other) = parent.filter(|parent| *parent != dir.nr) {
                others.entry(other).or_default().insert(child);
            }
            kept.push((entry, place));
        }
        for (other, children) in others {
            self.remove_entries(other, &|entry| children.contains(&entry.inode))?;
        }
        Ok(kept)
    }
}
