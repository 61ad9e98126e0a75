//! New numbers for inodes of groups that go.
//!
//! They get the free numbers of groups that stay, both ascending, so that inodes which were near
//! each other stay so. Reserved inodes are in the first group, which stays.

use super::layout::Layout;
use super::plan::Planned;
use crate::renumber::Renumbered;
use crate::space;
use std::ops::Range;
use uext4_format::{Feature, Geometry, InodeNr};
use uext4_num::clamp_u32;
use uext4_volume::InTheWay;

/// Plans numbers for inodes that a smaller geometry has not; or tells why they cannot have any.
pub(super) fn plan(layout: &Layout, new: &Geometry) -> Planned<Renumbered> {
    let (last, end) = (layout.last_inode, u64::from(new.inodes_count) + 1);
    let mut numbers = Renumbered::new();
    if u64::from(last.0) < end {
        return Ok(numbers);
    }
    let late = layout.used_inodes(end..u64::from(last.0) + 1);
    let free = space::before(&layout.free_inodes, end);
    let (needed, there) = (space::total(&late), space::total(&free));
    let inode = InodeNr(late.first().map_or(last.0, |run| clamp_u32(run.start)));
    let has = |feature| layout.geometry.features.has(feature);
    if needed > there || new.inodes_count < new.first_inode {
        return Err(InTheWay::Inodes {
            inode,
            needed,
            there,
        });
    } else if has(Feature::STABLE_INODES) {
        return Err(InTheWay::StableInodes { inode });
    } else if !has(Feature::HAS_JOURNAL) {
        return Err(InTheWay::InodesWithoutJournal { inode });
    }
    let number = |nr: u64| InodeNr(clamp_u32(nr));
    for (old, new) in late.into_iter().flatten().zip(free.into_iter().flatten()) {
        numbers.push(number(old), number(new));
    }
    Ok(numbers)
}

impl Layout {
    /// The numbers of inodes in use among these.
    fn used_inodes(&self, numbers: Range<u64>) -> Vec<Range<u64>> {
        space::without(std::slice::from_ref(&numbers), &self.free_inodes)
    }

    /// The layout when inodes have other numbers.
    pub(super) fn renumbered(mut self, numbers: &Renumbered) -> Self {
        for holder in &mut self.holders {
            holder.nr = numbers.now(holder.nr);
        }
        self.holders.sort_by_key(|holder| holder.nr);
        if let Some(journal) = &mut self.journal {
            journal.nr = numbers.now(journal.nr);
        }
        for user in self.attributes.values_mut().flatten() {
            *user = numbers.now(*user);
        }
        numbers.apply(&mut self.superblock);
        let mut free = std::mem::take(&mut self.free_inodes);
        free.extend(numbers.iter().map(|(old, _)| run_of(old)));
        let taken = space::merged(numbers.iter().map(|(_, new)| run_of(new)).collect());
        self.free_inodes = space::without(&space::merged(free), &taken);
        let used = self.used_inodes(1..u64::from(self.geometry.inodes_count) + 1);
        self.last_inode = InodeNr(used.last().map_or(0, |run| clamp_u32(run.end - 1)));
        self
    }
}

fn run_of(nr: InodeNr) -> Range<u64> {
    u64::from(nr.0)..u64::from(nr.0) + 1
}
