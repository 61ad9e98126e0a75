//! Maps of sparse files: which ranges of a file the archive has.
//!
//! | form | map |
//! | --- | --- |
//! | old GNU | 4 ranges in the header, 21 in each block behind it while a flag says so |
//! | pax 0.0 | records `offset` and `numbytes` in turn |
//! | pax 0.1 | one record `map`: numbers between commas |
//! | pax 1.0 | before the data: numbers of one line each, filled up to a block |
//!
//! Reference: GNU tar manual, "Storing Sparse Files".

use super::header::{BLOCK, Block, Header, unsigned};
use super::pax::{decimal, number};
use crate::fault::{Checked, DAMAGED, Fault, UNKNOWN_FORM};
use std::ops::Range;
use uext4_num::{u64_of, usize_of};

/// Most ranges of one file: 16 MiB of memory.
const RANGES_MAX: u32 = 1 << 20;
const HEADER_MAP: Range<usize> = 386..482;
const HEADER_MORE: usize = 482;
const BLOCK_MAP: Range<usize> = 0..504;
const BLOCK_MORE: usize = 504;
/// Two numbers of 12 bytes.
const PAIR_BYTES: usize = 24;

/// The map of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SparseMap {
    /// Size of the file with its holes.
    pub(crate) size: u64,
    /// Ranges in the order of the data.
    pub(crate) ranges: Vec<Range<u64>>,
}

impl SparseMap {
    /// A map that fits its file and the bytes that the archive has of it.
    pub(crate) fn checked(mut self, stored: u64) -> Checked<SparseMap> {
        let mut end = 0;
        let mut sum = 0;
        for range in &self.ranges {
            if range.start < end || range.end < range.start {
                return bad_map("that is not in ascending order");
            }
            end = range.end;
            sum += range.end - range.start;
        }
        if end > self.size {
            return bad_map("that ends behind its file");
        }
        if sum != stored {
            return bad_map("of another length than its data");
        }
        self.ranges.retain(|range| !range.is_empty());
        Ok(self)
    }

    /// The map of an old GNU header; `next` reads the block behind the header or the last block.
    pub(crate) fn old_gnu(
        header: &Header<'_>,
        block: &Block,
        mut next: impl FnMut() -> Checked<Block>,
    ) -> Checked<SparseMap> {
        let mut ranges = Vec::new();
        add_pairs(&mut ranges, &block[HEADER_MAP])?;
        let mut more = block[HEADER_MORE];
        while more != 0 {
            let block = next()?;
            add_pairs(&mut ranges, &block[BLOCK_MAP])?;
            more = block[BLOCK_MORE];
        }
        Ok(SparseMap {
            size: header.real_size()?,
            ranges,
        })
    }
}

fn bad_map<T>(what: &str) -> Checked<T> {
    Err(Fault::refused(format!("has a sparse map {what}"), DAMAGED))
}

fn add_pairs(ranges: &mut Vec<Range<u64>>, map: &[u8]) -> Checked<()> {
    for pair in map.chunks_exact(PAIR_BYTES).filter(|pair| pair[0] != 0) {
        let (offset, length) = pair.split_at(PAIR_BYTES / 2);
        let (offset, length) = (
            unsigned(offset, "sparse map")?,
            unsigned(length, "sparse map")?,
        );
        add(ranges, offset, length)?;
    }
    Ok(())
}

fn add(ranges: &mut Vec<Range<u64>>, offset: u64, length: u64) -> Checked<()> {
    if ranges.len() >= usize_of(RANGES_MAX) {
        let problem = format!("has a sparse map of more than {RANGES_MAX} ranges");
        return Err(Fault::refused(problem, "make the archive without --sparse"));
    }
    let end = offset.checked_add(length);
    let end = end.ok_or_else(|| Fault::refused("has a sparse map beyond 64 bits", DAMAGED))?;
    ranges.push(offset..end);
    Ok(())
}

/// Records `GNU.sparse.*` of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PaxSparse {
    /// Name of the file; `path` is a made-up one then.
    pub(crate) name: Option<Vec<u8>>,
    version: (Option<u64>, Option<u64>),
    size: Option<u64>,
    /// Offsets and lengths in turn.
    numbers: Vec<u64>,
}

impl PaxSparse {
    /// Whether no record was taken.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes a record, `key` without its prefix.
    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) -> Checked<()> {
        match key {
            b"major" => self.version.0 = number(key, value)?,
            b"minor" => self.version.1 = number(key, value)?,
            b"size" | b"realsize" => self.size = number(key, value)?,
            b"name" => self.name = (!value.is_empty()).then(|| value.to_vec()),
            b"offset" | b"numbytes" => self.numbers.extend(number(key, value)?),
            b"map" => self.numbers = list(value)?,
            _ => {}
        }
        Ok(())
    }

    /// The map, and how many bytes of the data it takes; `None` if the file is not sparse.
    pub(crate) fn map(
        &self,
        next: impl FnMut() -> Checked<Block>,
    ) -> Checked<Option<(SparseMap, u64)>> {
        let Some(size) = self.size else {
            return Ok(None);
        };
        let (numbers, taken) = match self.version {
            (Some(1), Some(0)) => leading_numbers(next)?,
            (None | Some(0), _) => (self.numbers.clone(), 0),
            _ => {
                let problem = "has an unknown version of the sparse format";
                return Err(Fault::refused(problem, UNKNOWN_FORM));
            }
        };
        let (pairs, odd) = numbers.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(Fault::refused(
                "has a sparse map with half a range",
                DAMAGED,
            ));
        }
        let mut ranges = Vec::with_capacity(pairs.len());
        for [offset, length] in pairs {
            add(&mut ranges, *offset, *length)?;
        }
        Ok(Some((SparseMap { size, ranges }, taken)))
    }
}

fn list(value: &[u8]) -> Checked<Vec<u64>> {
    let numbers = value.split(|byte| *byte == b',').map(decimal);
    let numbers: Option<Vec<u64>> = numbers.collect();
    numbers.ok_or_else(|| Fault::refused("has a sparse map that is no list", DAMAGED))
}

/// The numbers before the data of form 1.0, and the bytes they take.
fn leading_numbers(mut next: impl FnMut() -> Checked<Block>) -> Checked<(Vec<u64>, u64)> {
    let mut lines = Lines::default();
    let count = lines.number(&mut next)?;
    if count > u64::from(RANGES_MAX) {
        let problem = format!("has a sparse map of more than {RANGES_MAX} ranges");
        return Err(Fault::refused(problem, "make the archive without --sparse"));
    }
    let mut numbers = Vec::new();
    for _ in 0..count * 2 {
        numbers.push(lines.number(&mut next)?);
    }
    Ok((numbers, lines.taken))
}

/// Lines of blocks, one number each.
#[derive(Default)]
struct Lines {
    block: Vec<u8>,
    at: usize,
    taken: u64,
}

impl Lines {
    fn number(&mut self, next: &mut impl FnMut() -> Checked<Block>) -> Checked<u64> {
        let mut digits = Vec::new();
        loop {
            let byte = self.byte(next)?;
            if byte == b'\n' {
                break;
            }
            if digits.len() >= 20 {
                break digits.clear();
            }
            digits.push(byte);
        }
        Some(digits)
            .filter(|digits| !digits.is_empty())
            .as_deref()
            .and_then(decimal)
            .ok_or_else(|| Fault::refused("has a sparse map that is no list of numbers", DAMAGED))
    }

    fn byte(&mut self, next: &mut impl FnMut() -> Checked<Block>) -> Checked<u8> {
        if self.at == self.block.len() {
            self.block = next()?.to_vec();
            self.at = 0;
            self.taken += u64_of(BLOCK);
        }
        let byte = self.block.get(self.at).copied();
        self.at += 1;
        Ok(byte.unwrap_or(0))
    }
}
