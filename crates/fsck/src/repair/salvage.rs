//! Entries of a damaged directory block.
//!
//! A record is found by the length of the one before it. Where a record is damaged, the walk goes
//! on at the next one from which lengths lead to the end of the block and which names an inode in
//! use. In damaged parts, and with [`Scan::Slack`] in the slack of records too, an entry is
//! known by itself: each multiple of 4 is tried for an inode in use, its type, and a possible name.
//! Such an entry may be a deleted one, so the caller takes it only for an inode that lacks a name.

use super::entries::Entry;
use crate::entries::is_forbidden;
use crate::opened::{Names, Rules};
use crate::state::Check;
use std::ops::Range;
use uext4_format::dirent::{
    DirEntries, DirEntry, LeafTail, MIN_RECORD_BYTES, NAME_MAX, RecordHeader, has_tail,
    space_needed,
};
use uext4_format::{DamageLocation, Feature, FileType, InodeNr};

/// Where entries are looked for beside sound records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// In damaged parts.
    Damage,
    /// In damaged parts, and in what records leave free: any of their bytes may be damaged.
    Slack,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    /// Entries of sound records, and of those with a damaged name only.
    pub(super) sound: Vec<Entry>,
    /// Possible entries.
    pub(super) hidden: Vec<Entry>,
    /// Sound entries in front of the first damage; `None` without damage.
    pub(super) before_damage: Option<usize>,
}

/// A block of a directory, or an area of an inline one.
#[derive(Clone, Copy)]
pub(super) struct Area<'b> {
    pub(super) rules: Rules,
    pub(super) bytes: &'b [u8],
    /// Says how lengths are stored.
    pub(super) block_size: usize,
    /// A tail may be damaged or missing.
    pub(super) tail: LeafTail,
}

struct Walker<'w, 'a> {
    check: &'w Check<'a>,
    area: Area<'w>,
    scan: Scan,
    /// Whether lengths lead to the end, for each multiple of 4. Empty before any damage.
    leads_on: Vec<bool>,
    /// What the last record leaves free. If its length is wrong, damage follows.
    slack: Range<usize>,
    found: Salvage,
}

impl Check<'_> {
    /// Walks over the records of a block.
    pub(super) fn salvage(&self, area: Area<'_>, scan: Scan) -> Salvage {
        let walker = Walker {
            check: self,
            area,
            scan,
            leads_on: Vec::new(),
            slack: 0..0,
            found: Salvage::default(),
        };
        walker.run()
    }
}

impl Walker<'_, '_> {
    fn run(mut self) -> Salvage {
        let mut at = 0;
        while !self.is_end(at) {
            at = match self.record(at).map(|record| record.rec_len) {
                Some(len) => {
                    self.take(at);
                    at + len
                }
                None => self.pass_damage(at),
            };
        }
        self.scan_slack();
        self.found
    }

    fn record(&self, at: usize) -> Option<DirEntry<'_>> {
        let Area {
            rules,
            bytes,
            block_size,
            ..
        } = self.area;
        let place = DamageLocation::Inode(rules.dir);
        DirEntries::new(bytes, at, block_size, place).next()?.ok()
    }

    /// A damaged tail is no damaged record.
    fn is_end(&self, at: usize) -> bool {
        let len = self.area.bytes.len();
        let tail_bytes = self.area.tail.bytes();
        let is_tail = tail_bytes > 0 && at + tail_bytes == len;
        at >= len || (is_tail && self.record(at).is_none_or(|record| record.is_free()))
    }

    /// Takes the entry of a sound record.
    fn take(&mut self, at: usize) {
        self.scan_slack();
        let Some(record) = self.record(at) else {
            return;
        };
        let slack = at + record.used_bytes()..at + record.rec_len;
        let entry = (!record.is_free()).then(|| Entry::of(&record));
        if self.covers_tail(slack.end) {
            let before = self.found.sound.len();
            self.found.before_damage.get_or_insert(before);
        }
        self.found.sound.extend(entry);
        self.slack = slack;
    }

    /// Whether a record that ends here has the bytes of a tail, which is there.
    fn covers_tail(&self, end: usize) -> bool {
        let bytes = self.area.bytes;
        let tail_at = bytes.len().saturating_sub(self.area.tail.bytes());
        end > tail_at && tail_at < bytes.len() && has_tail(bytes)
    }

    fn scan_slack(&mut self) {
        let slack = std::mem::take(&mut self.slack);
        if self.scan == Scan::Slack {
            self.scan_part(slack);
        }
    }

    /// Returns where the walk goes on behind a damaged record.
    fn pass_damage(&mut self, at: usize) -> usize {
        let before = self.found.sound.len();
        self.found.before_damage.get_or_insert(before);
        self.find_ways();
        if let Some((entry, next)) = self.misnamed(at) {
            self.scan_slack();
            self.found.sound.push(entry);
            return next;
        }
        let slack = std::mem::take(&mut self.slack);
        let first = if slack.is_empty() { at } else { slack.start };
        let len = self.area.bytes.len();
        let mut later = (first..len).step_by(4);
        let start = later.find(|start| self.is_start(*start)).unwrap_or(len);
        self.scan_part(first..start);
        let Some(record) = self.record(start) else {
            return len;
        };
        let slack = start + record.used_bytes()..start + record.rec_len;
        let (entry, next) = (Entry::of(&record), start + record.rec_len);
        self.found.hidden.push(entry);
        self.slack = slack;
        next
    }

    /// Finds from where lengths lead to the end.
    fn find_ways(&mut self) {
        if !self.leads_on.is_empty() {
            return;
        }
        let units = self.area.bytes.len().div_ceil(4);
        self.leads_on = vec![false; units];
        for unit in (0..units).rev() {
            let next = self.next_of(unit * 4);
            self.leads_on[unit] = next.is_some_and(|next| self.leads_to_end(next));
        }
    }

    /// Where the length of a record leads, whatever its name.
    fn next_of(&self, at: usize) -> Option<usize> {
        let len = self.header(at)?.rec_len;
        let next = at.checked_add(len)?;
        let is_length = len >= MIN_RECORD_BYTES && len.is_multiple_of(4);
        (is_length && next <= self.area.bytes.len()).then_some(next)
    }

    fn leads_to_end(&self, at: usize) -> bool {
        self.is_end(at) || self.leads_on.get(at / 4).is_some_and(|leads| *leads)
    }

    fn is_start(&self, at: usize) -> bool {
        let leads = self.leads_on.get(at / 4).is_some_and(|leads| *leads);
        leads
            && self
                .record(at)
                .is_some_and(|record| self.is_possible(&record))
    }

    /// The entry of a record of which only the length of the name is wrong, and the next record.
    /// Its name ends at a byte that no name has, an encrypted one before the zeroes at its end.
    fn misnamed(&self, at: usize) -> Option<(Entry, usize)> {
        let header = self.header(at)?;
        let next = self.next_of(at)?;
        if !self.leads_to_end(next) || self.candidate(at).is_some() {
            return None;
        }
        let bytes = self.area.bytes.get(at + RecordHeader::BYTES..next)?;
        let mut name = likely_name(bytes, self.area.rules.names).to_vec();
        if name.is_empty() {
            name = number_name(header.inode);
        }
        let entry = Entry {
            inode: header.inode,
            code: header.code,
            name,
        };
        let is_possible = self.is_possible(&entry.record());
        is_possible.then_some((entry, next))
    }

    /// Tries each place for an entry.
    fn scan_part(&mut self, part: Range<usize>) {
        let mut at = part.start;
        while at + MIN_RECORD_BYTES <= part.end {
            let entry = self.candidate(at);
            let entry =
                entry.filter(|entry| at + RecordHeader::BYTES + entry.name.len() <= part.end);
            at += match &entry {
                Some(entry) => space_needed(entry.name.len()),
                None => 4,
            };
            self.found.hidden.extend(entry);
        }
    }

    /// The entry at a place, whatever the length of its record.
    fn candidate(&self, at: usize) -> Option<Entry> {
        let header = self.header(at)?;
        if header.name_len == 0 || self.check.links.kind(header.inode).is_none() {
            return None;
        }
        let start = at + RecordHeader::BYTES;
        let entry = Entry {
            inode: header.inode,
            code: header.code,
            name: self
                .area
                .bytes
                .get(start..start + header.name_len)?
                .to_vec(),
        };
        self.is_possible(&entry.record()).then_some(entry)
    }

    /// Whether an entry follows all rules, and has the type of its inode.
    fn is_possible(&self, record: &DirEntry<'_>) -> bool {
        let typed = self.check.geometry.features.has(Feature::FILETYPE);
        let kind = self.check.links.kind(record.inode);
        let has_type = !typed || kind.map(FileType::dirent_code) == Some(record.code);
        has_type && self.check.problem_of(self.area.rules, record).is_none()
    }

    fn header(&self, at: usize) -> Option<RecordHeader> {
        RecordHeader::read(self.area.bytes.get(at..)?, self.area.block_size)
    }
}

/// The name at the start of these bytes, if its length is lost.
fn likely_name(bytes: &[u8], names: Names) -> &[u8] {
    let end = match names {
        Names::Text => bytes.iter().position(|byte| is_forbidden(*byte)),
        Names::Encrypted => {
            let last = bytes.iter().rposition(|byte| *byte != 0);
            Some(last.map_or(0, |last| (last + 1).next_multiple_of(4)))
        }
    };
    let end = end.unwrap_or(bytes.len()).min(NAME_MAX);
    bytes.get(..end).unwrap_or(bytes)
}

/// The name of a file that has lost its own.
pub(super) fn number_name(nr: InodeNr) -> Vec<u8> {
    format!("#{}", nr.0).into_bytes()
}
