//! Names that a directory has twice: all but the first get a number.

use super::damaged_directory::DamagedDirectory;
use super::entries::Placed;
use super::patch::Patch;
use crate::opened::Names;
use std::collections::{HashMap, HashSet};
use uext4_format::CorruptKind;
use uext4_format::dirent::NAME_MAX;

impl Patch<'_, '_> {
    /// Gives entries whose name is there before them another one. The same name of the same inode
    /// goes, and so does an encrypted name, which would make no sense with a suffix.
    pub(super) fn part_twins(&self, dir: &DamagedDirectory, entries: &mut Vec<Placed>) {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        let name_at = |at: usize| entries.get(at).map(|(entry, _)| &entry.name[..]);
        order.sort_by(|left, right| (name_at(*left), left).cmp(&(name_at(*right), right)));
        let mut twins = Twins {
            order: &order,
            entries: &entries[..],
            given: HashSet::new(),
            next: HashMap::new(),
        };
        let is_kept_as_bytes = dir.rules.names == Names::Encrypted;
        let mut changes = Vec::new();
        for group in order.chunk_by(|left, right| name_at(*left) == name_at(*right)) {
            let mut inodes = HashSet::new();
            for (nth, at) in group.iter().enumerate() {
                let Some((entry, place)) = entries.get(*at) else {
                    continue;
                };
                let is_same = !inodes.insert(entry.inode);
                if nth == 0 || !dir.accepted.has(*place, CorruptKind::NameTwice) {
                    continue;
                }
                let new = (!is_same && !is_kept_as_bytes).then(|| twins.free_name(&entry.name));
                changes.push((*at, new));
            }
        }
        let mut gone = HashSet::new();
        for (at, new) in changes {
            match (entries.get_mut(at), new) {
                (Some((entry, _)), Some(name)) => entry.name = name,
                _ => {
                    gone.insert(at);
                }
            }
        }
        let mut at = 0..;
        entries.retain(|_| at.next().is_none_or(|at| !gone.contains(&at)));
    }
}

/// The names of a directory, for names that are in addition.
struct Twins<'t> {
    /// Positions of the entries in the order of names.
    order: &'t [usize],
    entries: &'t [Placed],
    given: HashSet<Vec<u8>>,
    /// The next suffix of names that begin so; the same for all that a suffix may make equal.
    next: HashMap<&'t [u8], u32>,
}

impl<'t> Twins<'t> {
    fn has(&self, name: &[u8]) -> bool {
        let found = self.order.binary_search_by(|at| {
            let there = self.entries.get(*at).map(|(entry, _)| &entry.name[..]);
            there.cmp(&Some(name))
        });
        found.is_ok() || self.given.contains(name)
    }

    /// The name with the next free suffix.
    fn free_name(&mut self, name: &'t [u8]) -> Vec<u8> {
        let stem = name.get(..NAME_MAX - SUFFIX_BYTES_MAX).unwrap_or(name);
        loop {
            let suffix = self.next.entry(stem).or_default();
            let new = with_suffix(name, *suffix);
            *suffix += 1;
            if !self.has(&new) {
                self.given.insert(new.clone());
                return new;
            }
        }
    }
}

/// Most bytes of a suffix.
const SUFFIX_BYTES_MAX: usize = "~4294967295".len();

/// A name that differs by a number at its end.
pub(super) fn with_suffix(name: &[u8], number: u32) -> Vec<u8> {
    let suffix = format!("~{number}");
    let len = name.len().min(NAME_MAX - suffix.len());
    let (kept, _) = name.split_at(len);
    [kept, suffix.as_bytes()].concat()
}
