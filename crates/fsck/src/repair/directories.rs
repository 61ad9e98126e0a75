//! Repair of a directory.
//!
//! Damage of entries is repaired in their blocks. The directory is built anew (`rebuild`) from all
//! its entries where its blocks, its index or its names change. `salvage` reads damaged blocks, and
//! `entries` has the rules.
//!
//! Not here: directories without a name, and names that others miss (`connect`).

use super::Outcome;
use super::accepted::Accepted;
use super::damaged_directory::{DamagedDirectory, DirBlock};
use super::dots::end_dots;
use super::entries::Entry;
use super::patch::Patch;
use super::salvage::{Area, Scan};
use crate::report::Finding;
use crate::state::Step;
use uext4_format::dirent::{DirLeaf, LeafTail, has_tail};
use uext4_format::extent::Extent;
use uext4_format::{CorruptKind, DamageLocation, InodeFlags, InodeNr};
use uext4_num::u64_of;

impl Patch<'_, '_> {
    pub(super) fn repair_directory(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        let Some(mut dir) = self.damaged_directory(nr, Accepted::of(findings))? else {
            return Ok(Outcome::Impossible);
        };
        if dir.accepted.has_any(CorruptKind::DotDotElsewhere) {
            return self.repair_dot_dot(&dir);
        }
        let extents = self.blocks_of_directory(&dir)?;
        if self.names_unread(&dir, &extents)? {
            return Ok(Outcome::Repaired);
        }
        if dir.inode.flags.contains(InodeFlags::INLINE_DATA) {
            return self.repair_inline_directory(&mut dir);
        }
        if dir.has_stored_hashes() {
            return Ok(Outcome::Impossible);
        }
        self.count_names(&mut dir, &extents)?;
        if !dir.is_to_be_rebuilt() {
            if self.repair_blocks(&mut dir, &extents)? {
                return Ok(Outcome::Repaired);
            }
            self.count_names(&mut dir, &extents)?;
        }
        self.rebuild(&mut dir, &extents)
    }

    /// Whether entries that seem to lead to free inodes lead to some that only the next round
    /// reads, because a descriptor said that they were never written.
    fn names_unread(&mut self, dir: &DamagedDirectory, extents: &[Extent]) -> Step<bool> {
        let problem = CorruptKind::InodeFreeOrDamaged;
        let mut entries = Vec::new();
        if dir.accepted.has(DamageLocation::Inode(dir.nr), problem) {
            entries = self.inline_entries(dir.nr, &dir.inode, |patch, area| {
                patch.check.salvage(area, Scan::Damage).sound
            });
        }
        let mut are_unread = self.will_any_be_read(dir, &entries)?;
        for block in DirBlock::all(extents) {
            if dir.accepted.has(dir.location_of(block), problem) {
                let bytes = self.read(block.nr)?;
                let found = self.check.salvage(dir.area(&bytes), Scan::Damage);
                are_unread |= self.will_any_be_read(dir, &found.sound)?;
            }
        }
        Ok(are_unread)
    }

    fn will_any_be_read(&mut self, dir: &DamagedDirectory, entries: &[Entry]) -> Step<bool> {
        let mut will_be_read = false;
        for entry in entries {
            let problem = self.check.problem_of(dir.rules, &entry.record());
            if problem == Some(CorruptKind::InodeFreeOrDamaged) {
                will_be_read |= self.will_be_read(entry.inode)?;
            }
        }
        Ok(will_be_read)
    }

    /// Counts the sound names that the check has not seen: those of blocks with a wrong checksum,
    /// and those behind damage.
    fn count_names(&mut self, dir: &mut DamagedDirectory, extents: &[Extent]) -> Step {
        dir.uncounted.clear();
        for block in DirBlock::all(extents) {
            let place = dir.location_of(block);
            if dir.accepted.at(place).is_empty() {
                continue;
            }
            let bytes = self.read(block.nr)?;
            let scan = dir.scan_of(block);
            let found = self.check.salvage(dir.area(&bytes), scan);
            let counted = match scan {
                Scan::Slack => 0,
                Scan::Damage => found.before_damage.unwrap_or(found.sound.len()),
            };
            for entry in found.sound.iter().skip(counted) {
                if self.check.problem_of(dir.rules, &entry.record()).is_none() {
                    *dir.uncounted.entry(entry.inode.0).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    /// The entries of a block, before any rule: those of sound records, and possible ones of inodes
    /// that lack a name.
    pub(super) fn entries_of(
        &self,
        dir: &mut DamagedDirectory,
        area: Area<'_>,
        scan: Scan,
    ) -> Vec<Entry> {
        let found = self.check.salvage(area, scan);
        let mut entries = found.sound;
        for entry in found.hidden {
            let nr = entry.inode;
            let more = dir.uncounted.entry(nr.0).or_default();
            if self.lacks_names(nr, *more) {
                *more += 1;
                entries.push(entry);
            }
        }
        entries
    }

    /// Whether an inode has more links than names, of which `more` were not counted.
    fn lacks_names(&self, nr: InodeNr, more: u32) -> bool {
        let links = &self.check.links;
        if links.is_directory(nr) {
            return more == 0 && links.lacks_all_names(nr);
        }
        u32::from(links.n_names(nr)) + more < u32::from(links.wanted(nr))
    }

    /// Repairs the blocks that have problems; false, without a change, if one cannot stay as it is.
    fn repair_blocks(&mut self, dir: &mut DamagedDirectory, extents: &[Extent]) -> Step<bool> {
        let mut repaired = Vec::new();
        for block in DirBlock::all(extents) {
            let place = dir.location_of(block);
            if dir.accepted.at(place).is_empty() {
                continue;
            }
            let bytes = self.read(block.nr)?;
            let Some(bytes) = self.repaired_block(dir, block, bytes) else {
                let dropped = u64_of(repaired.len()) * self.check.block_bytes();
                self.check.give_back(dropped);
                return Ok(false);
            };
            self.check.take(self.check.block_bytes())?;
            repaired.push((block.nr, bytes));
        }
        for (nr, mut bytes) in repaired {
            dir.seal(&mut bytes);
            self.write(nr, bytes)?;
            self.check.give_back(self.check.block_bytes());
        }
        Ok(true)
    }

    /// The block without its problems and checksum; `None` if its entries do not fit.
    fn repaired_block(
        &self,
        dir: &mut DamagedDirectory,
        block: DirBlock,
        mut bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        if dir.is_node(&bytes) {
            return Some(bytes);
        }
        let place = dir.location_of(block);
        if block.logical == 0 {
            end_dots(&mut bytes);
        }
        if dir.is_root(block, &bytes) {
            let kind = self.directory_kind();
            let mut root = DirLeaf::new(&mut bytes[..], LeafTail::None, place);
            let up = root.find(b"..").ok()??.inode;
            let is_done = root.retarget(b".", dir.nr, kind).ok()?;
            root.retarget(b"..", up, kind).ok()?;
            return is_done.then_some(bytes);
        }
        let scan = dir.scan_of(block);
        let area = dir.area(&bytes);
        let sound = self.check.salvage(area, scan);
        let mut entries = self.entries_of(dir, area, scan);
        let is_sealable = dir.tail == LeafTail::None || has_tail(&bytes);
        let is_whole = sound.before_damage.is_none() && is_sealable;
        let is_same = is_whole && entries.len() == sound.sound.len();
        let dots = if block.logical == 0 {
            self.take_dots(dir, &mut entries)
        } else {
            Vec::new()
        };
        entries = self.apply_rules(dir, place, entries);
        entries.splice(0..0, dots);
        let is_to_be_split =
            block.logical == 0 && dir.accepted.has(place, CorruptKind::DotsElsewhere);
        if is_same && !is_to_be_split && entries == sound.sound {
            return Some(bytes);
        }
        let mut leaf = DirLeaf::init(&mut bytes[..], dir.tail, place);
        let packed = leaf.pack(entries.iter().map(|entry| entry.item().entry()));
        packed.ok().map(|()| bytes)
    }
}
