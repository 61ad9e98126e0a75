//! Cost model of cache lines: ownership as in MESI, without capacity and without memory.
//!
//! A line is exclusive to one core or shared by some. A core that has it pays a hit. Otherwise the
//! line comes from the farthest core that must give it up (a write) or from its last owner (a
//! read), and transfers of one line queue. The first touch of a line is a hit: the misses of one
//! core are part of its measured work.
//! Invariants: `copies` is empty while `owner` has the line exclusively.

use super::machine::Machine;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::Location;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
    /// Read-modify-write.
    Update,
}

/// The type and the place in the code of an access, for the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessSite {
    pub(super) kind: &'static str,
    pub(super) code: &'static Location<'static>,
}

/// Counts of a line since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) accesses: u64,
    pub(super) near: u64,
    pub(super) far: u64,
    /// Time that cores waited for transfers of others.
    pub(super) queued_ps: u64,
    /// Time of the transfers.
    pub(super) moved_ps: u64,
    /// Time that tasks waited for locks in it.
    pub(super) waited_ps: u64,
}

impl Counts {
    /// Time lost to sharing.
    pub(super) fn lost_ps(&self) -> u64 {
        self.queued_ps + self.moved_ps + self.waited_ps
    }
}

/// State of one line.
pub(super) struct Line {
    pub(super) number: usize,
    /// The core that has it exclusively, or had it last.
    owner: usize,
    is_exclusive: bool,
    copies: Copies,
    /// End of the last transfer, or time of the first touch.
    free_at: u64,
    pub(super) counts: Counts,
    /// Accesses that moved the line, by place.
    pub(super) places: Vec<(AccessSite, u64)>,
}

/// Places of code that are counted per line.
const PLACES_MAX: usize = 16;

/// A set of cores, one bit each.
#[derive(Default)]
struct Copies(Vec<u64>);

impl Copies {
    fn contains(&self, core: usize) -> bool {
        let word = self.0.get(core / 64).copied().unwrap_or(0);
        word >> (core % 64) & 1 != 0
    }
    fn insert(&mut self, core: usize) {
        if self.0.len() <= core / 64 {
            self.0.resize(core / 64 + 1, 0);
        }
        self.0[core / 64] |= 1 << (core % 64);
    }
    fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate();
        words.flat_map(move |(at, word)| {
            (0..64)
                .filter(move |bit| *word >> bit & 1 != 0)
                .map(move |bit| at * 64 + bit)
        })
    }
}

impl Line {
    fn new(number: usize, (core, now): (usize, u64), place: AccessSite) -> Self {
        Self {
            number,
            owner: core,
            is_exclusive: true,
            copies: Copies::default(),
            free_at: now,
            counts: Counts::default(),
            places: vec![(place, 0)],
        }
    }

    /// Cost of the transfer that this access needs; `None` if the core has the line as needed.
    fn transfer_ps(&self, core: usize, access: Access, machine: &Machine) -> Option<u64> {
        if self.is_exclusive {
            return (self.owner != core).then(|| machine.transfer_ps(self.owner, core));
        }
        match access {
            Access::Load => {
                let has = self.copies.contains(core);
                (!has).then(|| machine.transfer_ps(self.owner, core))
            }
            Access::Store | Access::Update => {
                let others = self.copies.iter().filter(|other| *other != core);
                let farthest = others.map(|other| machine.transfer_ps(other, core)).max();
                let has = self.copies.contains(core);
                farthest.max((!has).then(|| machine.transfer_ps(self.owner, core)))
            }
        }
    }

    fn take(&mut self, core: usize, access: Access) {
        if access != Access::Load {
            (self.owner, self.is_exclusive) = (core, true);
            self.copies.0.clear();
        } else if !self.is_exclusive {
            self.copies.insert(core);
        } else if self.owner != core {
            self.is_exclusive = false;
            self.copies.insert(self.owner);
            self.copies.insert(core);
        }
    }

    fn count_access(&mut self, place: AccessSite) {
        let known = self
            .places
            .iter_mut()
            .find(|one| std::ptr::eq(one.0.code, place.code));
        if let Some((_, count)) = known {
            *count += 1;
        } else if self.places.len() < PLACES_MAX {
            self.places.push((place, 1));
        }
    }
}

/// Addresses are multiples of the line size: a multiplication spreads them.
#[derive(Default)]
pub(super) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are one integer each");
    }
    fn write_usize(&mut self, number: usize) {
        let mixed = uext4_num::u64_of(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A map keyed by address, whose order is never used.
pub(super) type AddressMap<V> = HashMap<usize, V, BuildHasherDefault<LineHasher>>;

/// All lines of a simulation.
#[derive(Default)]
pub(super) struct Lines(AddressMap<Line>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) end: u64,
    /// Whether it needed a transfer.
    pub(super) is_transfer: bool,
}

impl Lines {
    /// Whether the access needs no transfer, and the line is not new and has not moved for
    /// `quiet_ps`.
    pub(super) fn is_quiet(
        &self,
        address: usize,
        (core, now): (usize, u64),
        access: Access,
        machine: &Machine,
        quiet_ps: u64,
    ) -> bool {
        self.0
            .get(&(address / machine.line_bytes))
            .is_some_and(|line| {
                line.free_at + quiet_ps < now && line.transfer_ps(core, access, machine).is_none()
            })
    }

    /// Accounts an access by `core` at `now`.
    pub(super) fn access(
        &mut self,
        address: usize,
        (core, now): (usize, u64),
        access: Access,
        place: AccessSite,
        machine: &Machine,
    ) -> Charge {
        let number = self.0.len();
        let line = self
            .0
            .entry(address / machine.line_bytes)
            .or_insert_with(|| Line::new(number, (core, now), place));
        line.counts.accesses += 1;
        let own = match access {
            Access::Load | Access::Store => machine.hit_ps,
            Access::Update => machine.rmw_ps,
        };
        let Some(transfer) = line.transfer_ps(core, access, machine) else {
            line.take(core, access);
            let end = now + own;
            return Charge {
                end,
                is_transfer: false,
            };
        };
        // Readers of a shared line are served side by side.
        let queues = line.is_exclusive || access != Access::Load;
        let start = if queues { now.max(line.free_at) } else { now };
        let end = start + transfer + own;
        line.free_at = line.free_at.max(end);
        line.counts.queued_ps += start - now;
        line.counts.moved_ps += transfer;
        if transfer == machine.near_ps {
            line.counts.near += 1
        } else {
            line.counts.far += 1
        }
        line.count_access(place);
        line.take(core, access);
        Charge {
            end,
            is_transfer: true,
        }
    }

    /// Counts the time that a task waited for a lock.
    pub(super) fn count_wait(&mut self, address: usize, ps: u64, machine: &Machine) {
        if let Some(line) = self.0.get_mut(&(address / machine.line_bytes)) {
            line.counts.waited_ps += ps;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Line> {
        self.0.values()
    }

    /// Begins the counts anew; the lines stay where they are.
    pub(super) fn reset_counts(&mut self) {
        for line in self.0.values_mut() {
            line.counts = Counts::default();
            line.places.truncate(1);
            line.places.iter_mut().for_each(|(_, count)| *count = 0);
        }
    }
}
