//! One user of the file: a thread that reads and writes it through one layer.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::MutexGuard;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::pipe::{SpliceFlags, splice};
use uext4_testkit::rng::Rng;

use super::model::{Model, PAGES, UNIT_BYTES, UNITS_PER_PAGE, Units};
use crate::beyond_std::{self, AT_ONCE_MAX, Mapping, Request, Way as Direction};
use crate::files::Aligned;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Asynchronous,
    Direct,
    Buffered,
    Mapped,
    Spliced,
}

impl Way {
    pub(super) const ALL: [Self; 5] = [
        Self::Asynchronous,
        Self::Direct,
        Self::Buffered,
        Self::Mapped,
        Self::Spliced,
    ];

    fn flags(self) -> i32 {
        match self {
            Self::Asynchronous | Self::Direct => OFlags::DIRECT.bits() as i32,
            _ => 0,
        }
    }
}

pub(super) struct User<'a> {
    model: &'a Model,
    way: Way,
    rng: Rng,
    file: File,
    mapping: Mapping,
    memory: Aligned,
}

/// Data of one asynchronous request.
struct Piece<'a> {
    units: Units,
    way: Direction,
    bytes: Vec<u8>,
    before: Vec<u64>,
    _owned: Option<MutexGuard<'a, ()>>,
}

impl Piece<'_> {
    fn request(&mut self) -> Request<'_> {
        Request {
            way: self.way,
            offset: self.units.offset_bytes() as u64,
            bytes: &mut self.bytes,
        }
    }
}

fn open(path: &Path, flags: i32) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(flags);
    options.open(path).context("open")
}

/// Reads the first `len` bytes of the file with direct I/O.
pub(super) fn read_past_cache(path: &Path, len: usize) -> Result<Vec<u8>> {
    let mut memory = Aligned::new(len);
    let bytes = memory.first(len);
    open(path, Way::Direct.flags())?.read_exact_at(bytes, 0)?;
    Ok(bytes.to_vec())
}

impl<'a> User<'a> {
    pub(super) fn new(path: &Path, model: &'a Model, way: Way, rng: Rng) -> Result<Self> {
        let file = open(path, way.flags())?;
        let len = PAGES * super::PAGE_BYTES;
        Ok(Self {
            model,
            way,
            rng,
            mapping: Mapping::shared(&file, len)?,
            file,
            memory: Aligned::new(len),
        })
    }

    /// Runs one read, one write, or one call that moves pages into or out of the cache.
    pub(super) fn step(&mut self) -> Result<()> {
        if self.way == Way::Asynchronous {
            return self.use_at_once();
        }
        let page = self.rng.below(PAGES as u64) as usize;
        match self.rng.below(100) {
            0..=39 => self.read(self.model.hot_page()),
            40..=59 => self.read(page),
            60..=84 => self.write(page),
            85..=92 if self.way == Way::Buffered => self.rewrite_byte(page),
            93..=97 => Ok(self.file.sync_data()?),
            98 => Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?),
            _ => self.read(page),
        }
    }

    fn units_of(&mut self, page: usize) -> Units {
        let all = Units::of_page(page);
        if self.rng.chance(50) {
            return all;
        }
        let skip = self.rng.below(UNITS_PER_PAGE as u64) as usize;
        let count = self.rng.between(1, (UNITS_PER_PAGE - skip) as u64) as usize;
        let first = all.first + skip;
        Units { first, count }
    }

    /// Submits one request per chosen page, all in flight together.
    fn use_at_once(&mut self) -> Result<()> {
        let mut pieces = self.pieces();
        let mut requests: Vec<_> = pieces.iter_mut().map(Piece::request).collect();
        beyond_std::run_at_once(&self.file, &mut requests)?;
        for piece in &pieces {
            match piece.way {
                Direction::Write => self.model.end(piece.units),
                Direction::Read => self.model.judge(piece.units, &piece.before, &piece.bytes)?,
            }
        }
        Ok(())
    }

    fn pieces(&mut self) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        for _ in 0..self.rng.between(1, AT_ONCE_MAX as u64) {
            let page = self.rng.below(PAGES as u64) as usize;
            let units = self.units_of(page);
            let owned = if self.rng.chance(70) {
                self.model.try_own(page)
            } else {
                None
            };
            let mut bytes = vec![0; units.len_bytes()];
            let way = match owned {
                Some(_) => Direction::Write,
                None => Direction::Read,
            };
            if way == Direction::Write {
                self.model.begin(units, &mut bytes);
            }
            let before = self.model.before(units);
            pieces.push(Piece {
                units,
                way,
                bytes,
                before,
                _owned: owned,
            });
        }
        pieces
    }

    fn write(&mut self, page: usize) -> Result<()> {
        let units = self.units_of(page);
        let Some(_owned) = self.model.try_own(page) else {
            return Ok(());
        };
        let bytes = self.memory.first(units.len_bytes());
        self.model.begin(units, bytes);
        let at = units.offset_bytes() as u64;
        match self.way {
            Way::Mapped => self.mapping.write(units.offset_bytes(), bytes)?,
            Way::Spliced => splice_in(&self.file, at, bytes)?,
            _ => self.file.write_all_at(bytes, at)?,
        }
        self.model.end(units);
        Ok(())
    }

    /// Rewrites one byte with its present value: the rest of its page must have the same version.
    fn rewrite_byte(&mut self, page: usize) -> Result<()> {
        let Some(_owned) = self.model.try_own(page) else {
            return Ok(());
        };
        let all = Units::of_page(page);
        let at = self.rng.below((UNITS_PER_PAGE * UNIT_BYTES) as u64) as usize;
        let byte = self.model.bytes(all)[at];
        let offset = all.offset_bytes() + at;
        self.file.write_all_at(&[byte], offset as u64)?;
        Ok(())
    }

    fn read(&mut self, page: usize) -> Result<()> {
        let units = self.units_of(page);
        let before = self.model.before(units);
        let bytes = self.memory.first(units.len_bytes());
        let at = units.offset_bytes() as u64;
        match self.way {
            Way::Mapped => self.mapping.read(units.offset_bytes(), bytes)?,
            Way::Spliced => splice_out(&self.file, at, bytes)?,
            _ => self.file.read_exact_at(bytes, at)?,
        }
        self.model.judge(units, &before, bytes)
    }
}

/// Writes at most a page, which a pipe takes at once.
fn splice_in(file: &File, mut at: u64, bytes: &[u8]) -> Result<()> {
    let (out, mut into) = std::io::pipe()?;
    into.write_all(bytes)?;
    drop(into);
    let mut left = bytes.len();
    while left > 0 {
        let moved = splice(&out, None, file, Some(&mut at), left, SpliceFlags::empty())?;
        ensure!(moved > 0, "splice moved nothing");
        left -= moved;
    }
    Ok(())
}

/// Reads at most a page.
fn splice_out(file: &File, mut at: u64, bytes: &mut [u8]) -> Result<()> {
    let (mut out, into) = std::io::pipe()?;
    let mut left = bytes.len();
    while left > 0 {
        let moved = splice(file, Some(&mut at), &into, None, left, SpliceFlags::empty())?;
        ensure!(moved > 0, "splice moved nothing");
        left -= moved;
    }
    drop(into);
    out.read_exact(bytes)?;
    Ok(())
}
