//! What a simulation counted: transfers, and the lines that cost most.

use super::line::Line;
use super::world::State;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Counts since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Accesses of all lines.
    pub accesses: u64,
    /// Transfers of lines between cores of one socket.
    pub near: u64,
    /// Transfers of lines between sockets.
    pub far: u64,
    /// Number of times that another thread got the right to run, since the start.
    pub switches: u64,
    /// The lines whose transfers, queues and locks took most time.
    pub hottest: Vec<HotLine>,
    /// As above, summed over the lines of a place; the number is that of the lines.
    pub places: Vec<HotLine>,
}

/// A line that moved between cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotLine {
    /// Number of the line by its first access.
    pub number: usize,
    /// Type that most of the accesses which moved it used.
    pub kind: &'static str,
    /// Their place: file and line.
    pub place: String,
    /// Accesses of this line, with or without a transfer.
    pub accesses: u64,
    /// Transfers of this line between cores of one socket.
    pub near: u64,
    /// Transfers of this line between sockets.
    pub far: u64,
    /// Time of its transfers, in picoseconds.
    pub moved_ps: u64,
    /// Time that cores waited for transfers of others, in picoseconds.
    pub queued_ps: u64,
    /// Time that threads waited for locks in it, in picoseconds.
    pub waited_ps: u64,
}

impl HotLine {
    fn new(line: &Line) -> Self {
        let most = line.places.iter().max_by_key(|(_, count)| *count);
        let (kind, place) = most.map_or(("", String::new()), |(place, _)| {
            let code = place.code;
            (place.kind, format!("{}:{}", code.file(), code.line()))
        });
        Self {
            number: line.number,
            kind,
            place,
            accesses: line.counts.accesses,
            near: line.counts.near,
            far: line.counts.far,
            moved_ps: line.counts.moved_ps,
            queued_ps: line.counts.queued_ps,
            waited_ps: line.counts.waited_ps,
        }
    }

    /// Adds another line of the same place.
    fn add(&mut self, line: &Line) {
        self.number += 1;
        self.accesses += line.counts.accesses;
        self.near += line.counts.near;
        self.far += line.counts.far;
        self.moved_ps += line.counts.moved_ps;
        self.queued_ps += line.counts.queued_ps;
        self.waited_ps += line.counts.waited_ps;
    }

    /// Time lost, in picoseconds.
    pub fn lost_ps(&self) -> u64 {
        self.moved_ps + self.queued_ps + self.waited_ps
    }
}

impl AccessCounts {
    pub(super) fn new(state: &State, lines_max: usize) -> Self {
        let sum = |of: fn(&Line) -> u64| state.lines.iter().map(of).sum();
        let moved = state.lines.iter().filter(|line| line.counts.moved_ps > 0);
        let mut moved: Vec<&Line> = moved.collect();
        moved.sort_by_key(|line| (Reverse(line.counts.lost_ps()), line.number));
        let places = by_access(&moved, lines_max);
        Self {
            places,
            accesses: sum(|line| line.counts.accesses),
            near: sum(|line| line.counts.near),
            far: sum(|line| line.counts.far),
            switches: state.switches,
            hottest: moved
                .into_iter()
                .take(lines_max)
                .map(HotLine::new)
                .collect(),
        }
    }
}

fn by_access(moved: &[&Line], places_max: usize) -> Vec<HotLine> {
    let mut places: BTreeMap<String, HotLine> = BTreeMap::new();
    for line in moved {
        let one = HotLine::new(line);
        match places.get_mut(&one.place) {
            Some(sum) => sum.add(line),
            None => _ = places.insert(one.place.clone(), HotLine { number: 1, ..one }),
        }
    }
    let mut places: Vec<HotLine> = places.into_values().collect();
    places.sort_by_key(|place| Reverse(place.lost_ps()));
    places.truncate(places_max);
    places
}
