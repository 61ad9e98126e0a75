//! The set of disk images that a crash may leave, given a log of changes and flushes.
//!
//! A crash is a *cut* (the number of events that happened) and a set of survivors. A change is
//! durable if it returned before a flush began that returned before the cut, or if it is a durable
//! write that returned before the cut. All other changes before the cut are *pending*: any subset
//! may survive, each also in part. A device writes sectors of 512 bytes whole and promises nothing
//! about larger units.
//!
//! Survivors are applied in log order: a device cache keeps only the newest version of a sector, so
//! an older change never overwrites a newer one. For the same reason a change of part of a sector
//! brings earlier changes of the rest of that sector with it.
//! A discard that survives reads as zero; one that does not leaves the old bytes.

use crate::{BlockDevice, MemDevice};
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, Rng};

/// The unit of atomic writes of a device, in bytes.
const SECTOR_BYTES: u64 = 512;
/// [`Event::Change::returned_at`] of a change that has not returned.
pub(crate) const NEVER: usize = usize::MAX;

/// A change of bytes that a recorded device was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes were written, durably or not.
    Write {
        /// First byte on the device.
        offset: u64,
        /// The written bytes.
        bytes: Arc<[u8]>,
    },
    /// Bytes were made zero.
    Zero {
        /// First byte on the device.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },
    /// A range was discarded, as by [`crate::BlockDevice::discard`].
    Discard {
        /// First byte on the device.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },
}

impl Change {
    fn range(&self) -> Range<u64> {
        match self {
            Change::Write { offset, bytes } => *offset..*offset + u64_of(bytes.len()),
            Change::Zero { offset, len } | Change::Discard { offset, len } => {
                *offset..*offset + *len
            }
        }
    }
}

/// What the return of a change promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: a flush makes it durable.
    Cached,
    /// It is durable ([`BlockDevice::write_durable_at`]).
    Durable,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change began; it may survive a crash from now on.
    Change {
        /// What was to be written, made zero or discarded.
        change: Change,
        /// What its return promises.
        durability: Durability,
        /// Number of events when it returned.
        returned_at: usize,
    },
    /// A durable change returned: it survives every later crash.
    DurableDone {
        /// The index of its [`Event::Change`].
        started: usize,
    },
    /// A change that the device refused.
    Failed,
    /// A flush was called.
    FlushStarted,
    /// A flush returned: changes that had returned when it started are durable.
    FlushDone {
        /// The index of its [`Event::FlushStarted`].
        started: usize,
    },
    /// A mark that the user of the device set.
    Mark(u64),
}

/// Whether a surviving change is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tearing {
    /// All of its bytes survive.
    Whole,
    /// Some of its sectors may be missing.
    Sectors,
}

/// The pending changes that survive the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// All of them: the simple cut.
    All,
    /// None: flushed changes only.
    None,
    /// The i-th pending change survives when bit i is set; those past the 64th do not.
    Mask(u64),
    /// Each pending change survives or not, by a random choice.
    Seeded {
        /// Equal seeds give equal choices.
        seed: u64,
        /// Whether survivors may be torn.
        tearing: Tearing,
    },
}

/// A recorded run, and the images that a crash during it may leave.
///
/// Images of ascending cuts cost in proportion to their events; a smaller cut than the last one
/// starts again from the base. Clone the log to enumerate from several threads.
pub struct CrashLog {
    base: MemDevice,
    events: Arc<[Event]>,
    moments: Arc<[u64]>,
    /// For each cut, the start of the last flush that returned before it: changes that had returned
    /// by then are durable.
    horizons: Arc<[usize]>,
    durable: Durable,
    /// Bytes that are never torn.
    whole: Range<u64>,
}

/// The base with the durable changes of some horizon applied.
struct Durable {
    image: MemDevice,
    horizon: usize,
    /// Events before this index are all applied.
    from: usize,
    /// Applied events at `from` or later.
    ahead: BTreeSet<usize>,
}

impl Durable {
    fn new(base: &MemDevice) -> Self {
        Self {
            image: base.snapshot(),
            horizon: 0,
            from: 0,
            ahead: BTreeSet::new(),
        }
    }

    /// Applies the changes that become durable between the current horizon and a later one.
    fn advance(&mut self, events: &[Event], horizon: usize) {
        for (index, event) in events.iter().enumerate().take(horizon).skip(self.from) {
            if self.ahead.contains(&index) {
                continue;
            }
            match event {
                Event::Change { returned_at, .. } if *returned_at > horizon => continue,
                Event::Change { change, .. } => apply(&self.image, change),
                _ => {}
            }
            self.ahead.insert(index);
        }
        while self.ahead.remove(&self.from) {
            self.from += 1;
        }
        self.horizon = horizon;
    }
}

impl Clone for CrashLog {
    fn clone(&self) -> Self {
        Self {
            base: self.base.snapshot(),
            events: self.events.clone(),
            moments: self.moments.clone(),
            horizons: self.horizons.clone(),
            durable: Durable::new(&self.base),
            whole: self.whole.clone(),
        }
    }
}

impl CrashLog {
    #[cfg(test)]
    fn new(base: MemDevice, events: Vec<Event>) -> Self {
        let moments = (0..events.len() as u64).collect();
        Self::with_moments(base, events, moments)
    }

    pub(crate) fn with_moments(base: MemDevice, events: Vec<Event>, moments: Vec<u64>) -> Self {
        let mut horizons = vec![0];
        for event in &events {
            let last = horizons[horizons.len() - 1];
            horizons.push(match event {
                Event::FlushDone { started } => last.max(*started),
                _ => last,
            });
        }
        let durable = Durable::new(&base);
        Self {
            base,
            events: events.into(),
            moments: moments.into(),
            horizons: horizons.into(),
            durable,
            whole: 0..0,
        }
    }

    /// Never tears these bytes from now on: for structures longer than a sector that their users
    /// treat as atomic.
    pub fn keep_whole(&mut self, bytes: Range<u64>) {
        self.whole = bytes;
    }

    /// Number of events; cuts are `0..=len()`.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events in the order in which they were recorded.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The event counter shared by all recorders at each event, ascending.
    pub fn moments(&self) -> &[u64] {
        &self.moments
    }

    /// The last [`Event::Mark`] before the cut.
    pub fn last_mark(&self, cut: usize) -> Option<u64> {
        self.events[..cut]
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::Mark(label) => Some(*label),
                _ => None,
            })
    }

    /// Indices of the changes before the cut that may or may not survive.
    pub fn pending(&self, cut: usize) -> Vec<usize> {
        (0..cut)
            .filter(|index| {
                let unflushed = self.unflushed(*index, cut);
                unflushed.is_some_and(|unflushed| unflushed.fate == Fate::Open)
            })
            .collect()
    }

    /// The event as a change that no flush before the cut made durable.
    fn unflushed(&self, index: usize, cut: usize) -> Option<Unflushed<'_>> {
        let Event::Change {
            change,
            durability,
            returned_at,
        } = &self.events[index]
        else {
            return None;
        };
        // The event at `returned_at` of a durable change is its `DurableDone`.
        let fate = match durability {
            Durability::Durable if *returned_at < cut => Fate::Survives,
            _ => Fate::Open,
        };
        (*returned_at > self.horizons[cut]).then_some(Unflushed { change, fate })
    }

    /// The contents of the device after a crash at `cut`.
    pub fn image(&mut self, cut: usize, survivors: Survivors) -> MemDevice {
        let horizon = self.horizons[cut];
        if horizon < self.durable.horizon {
            self.durable = Durable::new(&self.base);
        }
        self.durable.advance(&self.events, horizon);
        let image = self.durable.image.snapshot();
        let events = self.durable.from..cut;
        let unflushed: Vec<_> = events
            .filter_map(|index| self.unflushed(index, cut))
            .collect();
        apply_survivors(&image, &unflushed, survivors, &self.whole);
        image
    }
}

/// A change that no flush made durable.
struct Unflushed<'a> {
    change: &'a Change,
    fate: Fate,
}

/// Whether a crash decides about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// A durable write that has returned.
    Survives,
    /// Pending: it may survive.
    Open,
}

/// How much of a pending change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Nothing,
    Whole,
    /// Some of its sectors.
    Torn,
}

/// Applies what survives of the changes, in log order.
fn apply_survivors(
    image: &MemDevice,
    unflushed: &[Unflushed<'_>],
    survivors: Survivors,
    whole: &Range<u64>,
) {
    let seed = match survivors {
        Survivors::Seeded { seed, .. } => seed,
        _ => 0,
    };
    let mut rng = Rng::new(seed);
    // Almost no and almost all survivors find as much as half, and are rare under even odds.
    let odds = [1, 4, 7][clamp_usize(rng.below(3))];
    let changes: Vec<&Change> = unflushed.iter().map(|it| it.change).collect();
    let mut pending = 0;
    for (index, Unflushed { change, fate }) in unflushed.iter().enumerate() {
        let share = match fate {
            Fate::Survives => Share::Whole,
            Fate::Open => {
                pending += 1;
                share(survivors, pending - 1, odds, &mut rng)
            }
        };
        let earlier = &changes[..index];
        match share {
            Share::Nothing => {}
            Share::Whole => land(image, earlier, change),
            Share::Torn => apply_torn(image, earlier, change, rng.fork(), whole),
        }
    }
}

/// What survives of the `nr`-th pending change.
fn share(survivors: Survivors, nr: u32, odds: u64, rng: &mut Rng) -> Share {
    let (kept, torn) = match survivors {
        Survivors::All => (true, false),
        Survivors::None => (false, false),
        Survivors::Mask(mask) => (mask.checked_shr(nr).unwrap_or(0) & 1 == 1, false),
        // Two draws per change, so that a seed loses the same changes whether torn or whole.
        Survivors::Seeded { tearing, .. } => {
            let (kept, torn) = (rng.chance(odds, 8), rng.chance(1, 4));
            (kept, torn && tearing == Tearing::Sectors)
        }
    };
    match (kept, torn) {
        (false, _) => Share::Nothing,
        (true, false) => Share::Whole,
        (true, true) => Share::Torn,
    }
}

/// Applies a change, after the `earlier` changes of the sectors that it changes in part.
fn land(image: &MemDevice, earlier: &[&Change], change: &Change) {
    let Range { start, end } = change.range();
    let first = start - start % SECTOR_BYTES;
    let last = end - end % SECTOR_BYTES;
    let at_start = (start != first).then_some(first);
    let at_end = (end != last && at_start != Some(last)).then_some(last);
    for sector in [at_start, at_end].into_iter().flatten() {
        let sector = sector..sector + SECTOR_BYTES;
        let parts = earlier.iter().filter_map(|change| clip(change, &sector));
        parts.for_each(|part| apply(image, &part));
    }
    apply(image, change);
}

/// Applies a change. It fitted into the recorded device, and the image has the same size.
fn apply(image: &MemDevice, change: &Change) {
    let result = match change {
        Change::Write { offset, bytes } => image.write_at(*offset, bytes),
        Change::Zero { offset, len } | Change::Discard { offset, len } => {
            image.write_zeroes(*offset, *len)
        }
    };
    result.expect("the recorded device accepted this change, so it fits into a copy");
}

/// Applies some sectors of a change; sectors are those of the device, not of the change.
fn apply_torn(
    image: &MemDevice,
    earlier: &[&Change],
    change: &Change,
    mut rng: Rng,
    whole: &Range<u64>,
) {
    let Range { start: offset, end } = change.range();
    let len = end - offset;
    let mut done = 0;
    while done < len {
        let at = offset + done;
        let end = if whole.contains(&at) {
            whole.end
        } else {
            at - at % SECTOR_BYTES + SECTOR_BYTES
        };
        let n = (end - at).min(len - done);
        if rng.chance(1, 2) {
            land(image, earlier, &part(change, done, n));
        }
        done += n;
    }
}

/// The part of a change inside `bytes`, if any.
fn clip(change: &Change, bytes: &Range<u64>) -> Option<Change> {
    let range = change.range();
    let (start, end) = (range.start.max(bytes.start), range.end.min(bytes.end));
    (start < end).then(|| part(change, start - range.start, end - start))
}

/// Bytes `start..start + len` of a change, as a change.
fn part(change: &Change, start: u64, len: u64) -> Change {
    match change {
        Change::Write { offset, bytes } => Change::Write {
            offset: offset + start,
            bytes: bytes[clamp_usize(start)..clamp_usize(start + len)].into(),
        },
        Change::Zero { offset, .. } => Change::Zero {
            offset: offset + start,
            len,
        },
        Change::Discard { offset, .. } => Change::Discard {
            offset: offset + start,
            len,
        },
    }
}

#[cfg(test)]
mod tests;
