//! Workload on space held behind the end of a file (`KEEP_SIZE`).
//!
//! The file ends, a hole follows, then held space. One write covers the hole and the held space, so
//! one part is delayed and the other has its blocks already; the fsync of another file commits in
//! between. Before and after that the range is punched, collapsed, inserted, truncated, zeroed and
//! rewritten. All steps are on one file in sequence: independent draws do not reach this state.

use uext4::FallocateMode;
use uext4_testkit::ops::Op;
use uext4_testkit::rng::Rng;

use super::config::Config;
use super::step::Step;

/// A write of this size gets its blocks before it returns.
const LARGE_BYTES: u64 = 1 << 20;
/// Longest file in units, except for large writes.
const UNITS: u64 = 12;
/// Size of a write that fits into the inode, in a file system with inline data.
const TINY_BYTES: u64 = 40;
/// Bytes appended to the other file.
const RECORD_BYTES: u64 = 30;

/// Draws the steps of one file.
pub(super) struct Beyond<'a> {
    rng: &'a mut Rng,
    path: Vec<u8>,
    /// The file whose fsync commits the journal.
    other: Vec<u8>,
    other_size: u64,
    block: u64,
    /// Granularity of collapse and insert, in bytes.
    unit: u64,
    large: bool,
    size: u64,
    steps: Vec<Step>,
}

impl<'a> Beyond<'a> {
    /// For two files that do not exist yet.
    pub(super) fn new(rng: &'a mut Rng, config: &Config, path: Vec<u8>, other: Vec<u8>) -> Self {
        Self {
            large: config.full_percent == 0 && rng.chance(10),
            rng,
            path,
            other,
            other_size: 0,
            block: config.block_size.into(),
            unit: config.shift_bytes(),
            size: 0,
            steps: Vec::new(),
        }
    }

    /// The steps; each succeeds if no other step changes the files and there is space.
    pub(super) fn draw(mut self) -> Vec<Step> {
        for path in [self.path.clone(), self.other.clone()] {
            self.steps.push(Step::Op(Op::Create { path, mode: 0o644 }));
        }
        let first = [0, TINY_BYTES, self.block / 2, self.block, 3 * self.block];
        let first = *self.rng.pick(&first);
        self.write(0, first);
        self.commit(30);
        let held = self.preallocate();
        if self.rng.chance(30) {
            let path = self.path.clone();
            self.steps.push(Step::Op(Op::Fsync { path }));
        }
        if self.rng.chance(40) {
            self.reshape();
            self.commit(50);
        }
        self.write_over(held);
        self.commit(80);
        for _ in 0..self.rng.below(4) {
            if self.rng.chance(30) {
                let held = self.preallocate();
                self.write_over(held);
            } else {
                self.reshape()
            }
            self.commit(60);
        }
        if self.large || self.rng.chance(30) {
            let path = self.path.clone();
            self.steps.push(Step::Op(Op::Unlink { path }));
        }
        self.steps
    }

    /// Commits the changes so far, except delayed data.
    fn commit(&mut self, percent: u64) {
        if !self.rng.chance(percent) {
            return;
        }
        let path = self.other.clone();
        // The file grows: a change of data alone needs no commit.
        let offset_bytes = self.other_size;
        self.other_size += RECORD_BYTES;
        self.steps.push(Step::Op(Op::Write {
            path: path.clone(),
            offset_bytes,
            len_bytes: RECORD_BYTES as u32,
            seed: self.rng.next_u64(),
        }));
        self.steps.push(Step::Op(Op::Fsync { path }));
    }

    fn write(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        self.size = self.size.max(offset + len);
        self.steps.push(Step::Op(Op::Write {
            path: self.path.clone(),
            offset_bytes: offset,
            len_bytes: len as u32,
            seed: self.rng.next_u64(),
        }));
    }

    /// Allocates held space behind a hole behind the end; returns its range in bytes.
    fn preallocate(&mut self) -> (u64, u64) {
        let granule = *self.rng.pick(&[self.block, self.unit]);
        let start = (self.size.div_ceil(granule) + self.rng.between(1, 4)) * granule;
        let len = self.rng.between(1, 3) * granule;
        self.fallocate(FallocateMode::AllocateKeepSize, start, len);
        (start, start + len)
    }

    /// Writes from the hole on into the held space or over it, in whole blocks (as direct I/O) or
    /// not.
    fn write_over(&mut self, (start, end): (u64, u64)) {
        let hole = self.size.min(start)..start;
        let mut from = hole.start + self.rng.below((hole.end - hole.start).max(1));
        let mut to = match self.rng.below(3) {
            0 => end,
            1 => start + 1 + self.rng.below(end - start),
            _ => end + 1 + self.rng.below(2 * self.block),
        };
        if self.rng.chance(50) {
            from = from / self.block * self.block;
            to = to.next_multiple_of(self.block);
        }
        if self.large {
            to = to.max(from + LARGE_BYTES);
        }
        self.write(from, to - from);
    }

    fn fallocate(&mut self, mode: FallocateMode, offset: u64, len: u64) {
        use FallocateMode::{Allocate, WriteZeroes, ZeroRange};
        if matches!(mode, Allocate | WriteZeroes | ZeroRange) {
            self.size = self.size.max(offset + len);
        }
        self.steps.push(Step::Fallocate {
            path: self.path.clone(),
            mode,
            offset,
            len,
        });
    }

    fn reshape(&mut self) {
        use FallocateMode::{
            Allocate, AllocateKeepSize, PunchHole, WriteZeroes, ZeroRange, ZeroRangeKeepSize,
        };
        let modes = [
            Allocate,
            AllocateKeepSize,
            PunchHole,
            PunchHole,
            WriteZeroes,
            ZeroRange,
            ZeroRangeKeepSize,
        ];
        match self.rng.below(10) {
            0..=1 => self.collapse(),
            2..=3 => self.insert(),
            4..=5 => self.truncate(),
            _ => {
                let mode = *self.rng.pick(&modes);
                let offset = self.rng.below(UNITS) * self.block + self.rng.below(2) * 100;
                let len = 1 + self.rng.below(UNITS * self.block / 2);
                self.fallocate(mode, offset, len);
            }
        }
    }

    fn collapse(&mut self) {
        // The range ends before the end of the file.
        let units = self.size.saturating_sub(1) / self.unit;
        if units == 0 {
            return self.truncate();
        }
        let start = self.rng.below(units);
        let len = self.rng.between(1, (units - start).min(3));
        let (offset, len) = (start * self.unit, len * self.unit);
        self.fallocate(FallocateMode::CollapseRange, offset, len);
        self.size -= len;
    }

    fn insert(&mut self) {
        let units = self.size.div_ceil(self.unit);
        if units == 0 {
            return self.truncate();
        }
        let offset = self.rng.below(units) * self.unit;
        let len = self.rng.between(1, 3) * self.unit;
        self.fallocate(FallocateMode::InsertRange, offset, len);
        self.size += len;
    }

    fn truncate(&mut self) {
        let most = self.size + 3 * self.block;
        let size_bytes = self.rng.below(most + 1);
        let size_bytes = if self.rng.chance(50) {
            size_bytes / self.block * self.block
        } else {
            size_bytes
        };
        self.size = size_bytes;
        let path = self.path.clone();
        self.steps.push(Step::Op(Op::Truncate { path, size_bytes }));
    }
}
