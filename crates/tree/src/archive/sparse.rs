//! Holes of a file, in the form 1.0 of GNU tar: a map, then the data without the holes.
//!
//! The map is decimal: the number of ranges, then offset and length of each, one number per line,
//! filled up to a record. A hole at the end is an empty range there.
//!
//! Invariants: ranges begin and end at multiples of a record, but for one at the end of the file,
//! because GNU tar begins each range at a record of its own and libarchive does not.
//!
//! References: GNU tar manual, "PAX 1".

use super::header::{self, RECORD_BYTES};
use std::ops::Range;
use uext4::{Filesystem, InodeRef, Seek};
use uext4_num::u64_of;

/// Which ranges of a file have data, and the map that describes them.
pub(super) struct Layout {
    /// Ranges with data, ascending.
    pub(super) ranges: Vec<Range<u64>>,
    /// The map; empty if the whole file is stored.
    pub(super) map: Vec<u8>,
}

impl Layout {
    /// Where the data of a file of this size are. Holes that save nothing are stored.
    pub(super) fn of(fs: &Filesystem, inode: &InodeRef, size: u64) -> uext4::Result<Self> {
        let ranges = data(fs, inode, size)?;
        let map = map(&ranges, size);
        if u64_of(map.len()) + total(&ranges) < size {
            return Ok(Self { ranges, map });
        }
        let whole = (size > 0).then_some(0..size);
        Ok(Self {
            ranges: whole.into_iter().collect(),
            map: Vec::new(),
        })
    }

    /// Bytes of map and data.
    pub(super) fn stored_bytes(&self) -> u64 {
        u64_of(self.map.len()) + total(&self.ranges)
    }
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The ranges with data, widened to records; those that touch are one.
fn data(fs: &Filesystem, inode: &InodeRef, size: u64) -> uext4::Result<Vec<Range<u64>>> {
    let record = u64_of(RECORD_BYTES);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut end = 0;
    while end < size {
        let start = match fs.seek(inode, end, Seek::Data) {
            Err(uext4::Error::NoOffset) => break,
            other => other?,
        };
        end = fs.seek(inode, start, Seek::Hole)?;
        let range = start / record * record..end.next_multiple_of(record).min(size);
        match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    Ok(ranges)
}

fn map(ranges: &[Range<u64>], size: u64) -> Vec<u8> {
    let is_open = ranges.last().is_none_or(|last| last.end < size);
    let end = is_open.then_some(size..size);
    let mut map = format!("{}\n", ranges.len() + usize::from(is_open)).into_bytes();
    for range in ranges.iter().cloned().chain(end) {
        let line = format!("{}\n{}\n", range.start, range.end - range.start);
        map.extend_from_slice(line.as_bytes());
    }
    header::pad(&mut map);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_at_the_end_is_an_empty_range() {
        let map = map(&[512..1024, 4096..8192], 9000);
        assert_eq!(map.len(), RECORD_BYTES);
        assert!(map.starts_with(b"3\n512\n512\n4096\n4096\n9000\n0\n\0"));
    }
}
