//! Recorded events of all devices of a file system in one order, and the images after a crash.
//!
//! A flush makes the writes of its own device durable, not those of the other.

use std::ops::Range;
use std::sync::Arc;

use uext4::device::{CrashLog, Event, MemDevice, Survivors};

use super::disk::{Disk, Recorders};

/// The superblock, which no device tears: the format depends on that.
const SUPERBLOCK_BYTES: Range<u64> = 1024..2048;

/// The crash logs of all devices; clones are cheap.
#[derive(Clone)]
pub(super) struct EventLog {
    pub(super) main: CrashLog,
    journal: Option<CrashLog>,
    /// For each cut, the number of events of each device before it.
    cuts: Arc<[Cut]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cut {
    main: usize,
    journal: usize,
}

impl EventLog {
    pub(super) fn of(recorders: &Recorders) -> Self {
        let journal = recorders.journal.as_ref().map(|journal| journal.log());
        Self::new(recorders.main.log(), journal)
    }

    pub(super) fn new(mut main: CrashLog, journal: Option<CrashLog>) -> Self {
        main.keep_whole(SUPERBLOCK_BYTES);
        let cuts = merge(
            main.moments(),
            journal.as_ref().map_or(&[], CrashLog::moments),
        );
        Self {
            main,
            journal,
            cuts: cuts.into(),
        }
    }

    /// Number of events; cuts are `0..=len()`.
    pub(super) fn len(&self) -> usize {
        self.cuts.len() - 1
    }

    /// The event after `cut`, on whichever device it was.
    pub(super) fn event(&self, cut: usize) -> Option<&Event> {
        let (now, next) = (self.cuts[cut], self.cuts.get(cut + 1)?);
        if next.main > now.main {
            return Some(&self.main.events()[now.main]);
        }
        let journal = self.journal.as_ref()?;
        Some(&journal.events()[now.journal])
    }

    /// Cuts with different images: before a change, before a flush or a durable write returns, and
    /// at the end. Marks
    /// before such an event are included, so that promises hold as early as possible.
    pub(super) fn cuts(&self) -> Vec<usize> {
        (0..=self.len())
            .filter(|cut| match self.event(*cut) {
                None => true,
                Some(event) => matches!(event, Event::Change { .. }) || makes_durable(event),
            })
            .collect()
    }

    /// Flushes and durable writes that returned between the last mark and the cut.
    pub(super) fn flushes_since_mark(&self, cut: usize) -> usize {
        let before = (0..cut).rev().filter_map(|cut| self.event(cut));
        let step = before.take_while(|event| !matches!(event, Event::Mark(_)));
        step.filter(|event| makes_durable(event)).count()
    }

    /// The last mark before the cut.
    pub(super) fn last_mark(&self, cut: usize) -> Option<u64> {
        self.main.last_mark(self.cuts[cut].main)
    }

    /// Number of changes before the cut that may or may not survive.
    pub(super) fn pending(&self, cut: usize) -> usize {
        let Cut { main, journal } = self.cuts[cut];
        let on_journal = self.journal.as_ref().map(|log| log.pending(journal).len());
        self.main.pending(main).len() + on_journal.unwrap_or(0)
    }

    /// The contents of the devices after a crash.
    pub(super) fn image(&mut self, cut: usize, survivors: Survivors) -> Disk {
        let Cut { main, journal } = self.cuts[cut];
        let device = |image: MemDevice| Arc::new(image);
        let other = other_choice(survivors);
        let log = self.journal.as_mut();
        Disk {
            main: device(self.main.image(main, survivors)),
            journal: log.map(|log| device(log.image(journal, other))),
        }
    }
}

fn makes_durable(event: &Event) -> bool {
    matches!(event, Event::FlushDone { .. } | Event::DurableDone { .. })
}

/// Another choice for the journal's device, so that it loses other changes than the main one.
fn other_choice(survivors: Survivors) -> Survivors {
    match survivors {
        Survivors::Seeded { seed, tearing } => Survivors::Seeded {
            seed: !seed,
            tearing,
        },
        other => other,
    }
}

fn merge(main: &[u64], journal: &[u64]) -> Vec<Cut> {
    let mut cuts = vec![Cut::default()];
    let mut at = Cut::default();
    while at.main < main.len() || at.journal < journal.len() {
        match (main.get(at.main), journal.get(at.journal)) {
            (Some(main), Some(journal)) if journal < main => at.journal += 1,
            (None, _) => at.journal += 1,
            _ => at.main += 1,
        }
        cuts.push(at);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_two_devices_come_in_the_order_in_which_they_happened() {
        let cuts: Vec<_> = merge(&[0, 3, 4], &[1, 2, 7])
            .into_iter()
            .map(|cut| (cut.main, cut.journal))
            .collect();
        let expected = [(0, 0), (1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (3, 3)];
        assert_eq!(cuts, expected);
        assert_eq!(merge(&[5, 6], &[]).len(), 3);
    }
}
