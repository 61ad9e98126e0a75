//! Places of partitions on the disk, as sfdisk chooses them: line by line, in the free space that
//! earlier lines have left.

use std::ops::Range;

use super::{Contents, Line, Problem, SECTORS_MAX, Size, Table};
use crate::table::{Fault, Label};

/// Place of a partition, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) sectors: u64,
}

impl Extent {
    /// The first sector behind it.
    pub(crate) fn end(self) -> u64 {
        self.start + self.sectors
    }
}

/// Sectors that an MBR can address.
const DOS_SECTORS: u64 = 1 << 32;

impl Table {
    /// The extents of all partitions. `contents` has the sectors of what each of them holds.
    ///
    /// # Errors
    /// The first line that has no place.
    pub(crate) fn lay_out(&self, contents: &[u64]) -> Result<Vec<Extent>, Fault> {
        let mut placed: Vec<Extent> = Vec::new();
        for (line, contents) in self.lines.iter().zip(contents) {
            let extent = self.allocate(line, *contents, &placed);
            placed.push(extent.map_err(|(key, problem)| self.fault(line.line, key, problem))?);
        }
        Ok(placed)
    }

    /// The sectors from the start of the file system's partition on that it may have, where the
    /// table gives no size: up to the next partition that has a place without it.
    pub(crate) fn room(&self, placed: &[Extent]) -> u64 {
        let own = self.own();
        let start = placed.get(own).map_or(0, |extent| extent.start);
        let earlier = placed[..own].iter().map(|extent| extent.start);
        let later = self.lines[own + 1..].iter().filter_map(|line| line.start);
        let next = earlier.chain(later).filter(|other| *other > start).min();
        next.map_or(self.end(), |next| next.min(self.end())) - start
    }

    /// Whether the partition of the file system has a size, whatever that is.
    pub(crate) fn has_own_size(&self) -> bool {
        self.lines[self.own()].size != Size::None
    }

    /// The first sector behind the last usable one.
    pub(super) fn end(&self) -> u64 {
        match (self.last, self.label) {
            (Some(last), _) => last + 1,
            (None, Label::Gpt(_)) => SECTORS_MAX,
            (None, Label::Dos(_)) => DOS_SECTORS,
        }
    }

    fn allocate(
        &self,
        line: &Line,
        contents: u64,
        placed: &[Extent],
    ) -> Result<Extent, (&'static str, Problem)> {
        let sectors = match (line.size, &line.contents) {
            (Size::Sectors(sectors), _) => Some(sectors),
            (Size::None, Contents::File(_)) if contents == 0 => {
                return Err(("content", Problem::ContentEmpty));
            }
            (Size::None, Contents::File(_) | Contents::FileSystem) => Some(contents),
            (Size::None, Contents::Zeroes) | (Size::Rest, _) => None,
        };
        if sectors.is_none() && self.last.is_none() {
            return Err(("size", Problem::NoSize));
        }
        let extent = match line.start {
            Some(start) => Some(self.allocate_at(start, sectors, placed)?),
            None => self.find(sectors, placed),
        };
        let key = if matches!(line.size, Size::Sectors(_)) {
            "size"
        } else {
            ""
        };
        let sectors = sectors.unwrap_or(1);
        extent.ok_or((key, Problem::NoSpace { sectors }))
    }

    fn allocate_at(
        &self,
        start: u64,
        sectors: Option<u64>,
        placed: &[Extent],
    ) -> Result<Extent, (&'static str, Problem)> {
        let first = match self.label {
            Label::Gpt(_) => self.first,
            Label::Dos(_) => 1,
        };
        if start < first {
            return Err(("start", Problem::BeforeFirst { first }));
        }
        let gap = self.gaps(placed, first);
        let gap = gap.iter().find(|gap| gap.contains(&start));
        let extent = gap.map(|gap| {
            let sectors = sectors.unwrap_or(self.rest(start, gap.end).sectors);
            Extent { start, sectors }
        });
        let wanted = extent.map_or(start..start + 1, |extent| start..extent.end());
        let other = self
            .lines
            .iter()
            .zip(placed)
            .find(|(_, other)| other.start < wanted.end && wanted.start < other.end());
        if let Some((other, _)) = other {
            let other = other.number;
            return Err(("start", Problem::Overlap { other }));
        }
        let sectors = sectors.unwrap_or(1);
        let extent = extent.filter(|extent| extent.end() <= self.end());
        extent.ok_or(("start", Problem::NoSpace { sectors }))
    }

    /// Without a start, from a multiple of the grain on: the largest gap of a GPT, which without a
    /// last sector is that behind all earlier lines; the first one with space of an MBR.
    fn find(&self, sectors: Option<u64>, placed: &[Extent]) -> Option<Extent> {
        let gaps = self.gaps(placed, self.first);
        let fit = |gap: &Range<u64>| {
            let start = gap.start.next_multiple_of(self.grain);
            let rest = (start < gap.end).then(|| self.rest(start, gap.end))?;
            let sectors = sectors.unwrap_or(rest.sectors);
            (start + sectors <= gap.end).then_some(Extent { start, sectors })
        };
        let len = |gap: &Range<u64>| gap.end - gap.start;
        match self.label {
            Label::Gpt(_) => {
                let largest = gaps
                    .iter()
                    .reduce(|a, b| if len(b) > len(a) { b } else { a });
                largest.and_then(fit)
            }
            Label::Dos(_) => gaps.iter().find_map(fit),
        }
    }

    /// All sectors from `start` on, up to a multiple of the grain if there is one.
    fn rest(&self, start: u64, end: u64) -> Extent {
        let whole = end / self.grain * self.grain;
        let end = if whole > start { whole } else { end };
        let sectors = end - start;
        Extent { start, sectors }
    }

    /// Free sectors, in ascending order.
    fn gaps(&self, placed: &[Extent], first: u64) -> Vec<Range<u64>> {
        let mut used: Vec<Extent> = placed.to_vec();
        used.sort_by_key(|extent| extent.start);
        let mut gaps = Vec::new();
        let mut next = first;
        for extent in used {
            if extent.start > next {
                gaps.push(next..extent.start);
            }
            next = next.max(extent.end());
        }
        if next < self.end() {
            gaps.push(next..self.end());
        }
        gaps
    }
}
