//! Data in and out: buffered, direct, mapped, by io_uring, copied by the kernel.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};
use rustix::fs as sys;
use uext4_testkit::rng::Rng;

use super::{FILE_BYTES_MAX, Files, Known, Open, RANGE_BYTES_MAX, opened};
use crate::beyond_std::{self, AT_ONCE_MAX, Mapped, Request, Way};

/// Alignment of direct I/O in files and in memory, in bytes.
const ALIGNMENT: usize = 512;
const PAGE: usize = 4096;

/// Page-aligned memory, as direct I/O needs it.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    /// Space for `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Self { bytes, start }
    }

    pub(crate) fn first(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..][..len]
    }
}

/// Path of the bytes to the file and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    Cache,
    Direct,
    Mapping,
    RingAndCache,
    RingDirect,
}

impl Through {
    const ALL: [Self; 5] = [
        Self::Cache,
        Self::Direct,
        Self::Mapping,
        Self::RingAndCache,
        Self::RingDirect,
    ];

    fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::RingDirect)
    }

    fn file(self, open: &Open) -> &File {
        if self.is_direct() {
            &open.direct
        } else {
            &open.buffered
        }
    }
}

impl Files {
    pub(super) fn write(&mut self, at: usize) -> Result<()> {
        let through = *self.rng.pick(&Through::ALL);
        let (from, len) = self.range_for(through);
        let file = &mut self.files[at];
        match through {
            Through::Mapping => return write_mapped(file, from, len, &mut self.rng),
            Through::RingAndCache | Through::RingDirect => {
                return self.write_at_once(at, through, from, len);
            }
            Through::Cache | Through::Direct => {}
        }
        let data = self.scratch.first(len);
        self.rng.fill(data);
        through.file(file.open()?).write_all_at(data, from as u64)?;
        file.put(from, data);
        Ok(())
    }

    /// A range; aligned for direct I/O.
    fn range_for(&mut self, through: Through) -> (usize, usize) {
        let (from, len) = self.range();
        if !through.is_direct() {
            return (from, len);
        }
        let from = from / ALIGNMENT * ALIGNMENT;
        let len = len.next_multiple_of(ALIGNMENT).min(FILE_BYTES_MAX - from);
        (from, len.min(RANGE_BYTES_MAX))
    }

    /// A batch of requests; reads use ranges that no write of the batch changes.
    fn write_at_once(
        &mut self,
        at: usize,
        through: Through,
        from: usize,
        len: usize,
    ) -> Result<()> {
        let file = &mut self.files[at];
        let end_of_file = file.bytes.len();
        let data = self.scratch.first(len);
        let mut requests = requests(data, from, through, &mut self.rng);
        for request in &mut requests {
            let end = request.offset as usize + request.bytes.len();
            if end <= end_of_file && self.rng.chance(30) {
                request.way = Way::Read;
            } else {
                self.rng.fill(request.bytes);
            }
        }
        beyond_std::run_at_once(through.file(file.open()?), &mut requests)?;
        for request in &requests {
            let (from, len) = (request.offset as usize, request.bytes.len());
            match request.way {
                Way::Read => same(request.bytes, &file.bytes[from..from + len], from)?,
                Way::Write => file.put(from, request.bytes),
            }
        }
        Ok(())
    }

    pub(super) fn read(&mut self, at: usize) -> Result<()> {
        let through = *self.rng.pick(&Through::ALL);
        let (from, len) = self.range_for(through);
        let file = &mut self.files[at];
        let open = opened(&mut file.open, &file.path)?;
        let expected = &file.bytes[from.min(file.bytes.len())..file.bytes.len().min(from + len)];
        let out = self.scratch.first(len);
        let n_read = match through {
            Through::Cache | Through::Direct => read_all(through.file(open), from, out)?,
            // Other kinds would go past the end of the file, where mappings fault and requests are
            // cut.
            _ if expected.is_empty() => 0,
            Through::Mapping => {
                beyond_std::read_mapped(&open.buffered, from as u64, &mut out[..expected.len()])?;
                expected.len()
            }
            Through::RingAndCache | Through::RingDirect => {
                let len = expected.len() / ALIGNMENT * ALIGNMENT;
                let mut requests = requests(&mut out[..len], from, through, &mut self.rng);
                requests.iter_mut().for_each(|one| one.way = Way::Read);
                beyond_std::run_at_once(through.file(open), &mut requests)?;
                return same(&out[..len], &expected[..len], from);
            }
        };
        same(&out[..n_read], expected, from)
    }

    /// Copies from one file to the next, by the kernel.
    pub(super) fn copy(&mut self, at: usize) -> Result<()> {
        let (from, len) = self.range();
        let to = self.range().0;
        let other = (at + 1) % self.files.len();
        let [source, target] = self.files.get_disjoint_mut([at, other])?;
        let end = source
            .bytes
            .len()
            .min(from + len)
            .min(from + FILE_BYTES_MAX - to);
        let (mut done, wanted) = (0, end.saturating_sub(from));
        let source_file = &opened(&mut source.open, &source.path)?.buffered;
        while done < wanted {
            let mut offsets = ((from + done) as u64, (to + done) as u64);
            let into = &target.open()?.buffered;
            let (a, b) = (Some(&mut offsets.0), Some(&mut offsets.1));
            match sys::copy_file_range(source_file, a, into, b, wanted - done)? {
                0 => break,
                len => done += len,
            }
        }
        ensure!(done == wanted, "{done} bytes copied of {wanted}");
        target.put(to, &source.bytes[from.min(end)..end]);
        Ok(())
    }
}

impl Known {
    fn put(&mut self, from: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.grow(from + data.len());
        self.bytes[from..from + data.len()].copy_from_slice(data);
        self.attributes.content_changed();
    }
}

/// Writes through a mapping, inside the file.
fn write_mapped(file: &mut Known, from: usize, len: usize, rng: &mut Rng) -> Result<()> {
    let len = len.min(file.bytes.len().saturating_sub(from));
    if len == 0 {
        return Ok(());
    }
    let how = *rng.pick(&[
        Mapped::Synced,
        Mapped::Shared,
        Mapped::Shared,
        Mapped::Private,
    ]);
    let data = rng.bytes(len);
    beyond_std::write_mapped(&file.open()?.buffered, from as u64, &data, how)?;
    if how != Mapped::Private {
        file.put(from, &data);
    }
    Ok(())
}

/// Cuts a range into write requests, aligned for direct I/O.
fn requests<'a>(
    mut data: &'a mut [u8],
    from: usize,
    through: Through,
    rng: &mut Rng,
) -> Vec<Request<'a>> {
    let unit = if through.is_direct() { ALIGNMENT } else { 1 };
    let piece = (data.len() / AT_ONCE_MAX).max(1).next_multiple_of(unit);
    let piece = piece * (1 + rng.below(2) as usize);
    let mut requests = Vec::new();
    let mut offset = from as u64;
    while !data.is_empty() {
        let last = requests.len() + 1 == AT_ONCE_MAX;
        let len = if last {
            data.len()
        } else {
            piece.min(data.len())
        };
        let (bytes, rest) = data.split_at_mut(len);
        requests.push(Request {
            way: Way::Write,
            offset,
            bytes,
        });
        (data, offset) = (rest, offset + len as u64);
    }
    requests
}

fn read_all(file: &File, from: usize, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], (from + done) as u64)? {
            0 => break,
            len => done += len,
        }
        // A direct read that is cut short has reached the end of the file.
        if !done.is_multiple_of(ALIGNMENT) {
            break;
        }
    }
    Ok(done)
}

/// Fails unless the file has exactly these bytes.
pub(super) fn compare_all(file: &File, expected: &[u8]) -> Result<()> {
    let mut found = vec![0; FILE_BYTES_MAX + 1];
    let mut done = 0;
    loop {
        match file.read_at(&mut found[done..], done as u64)? {
            0 => return same(&found[..done], expected, 0),
            len => done += len,
        }
    }
}

fn same(found: &[u8], expected: &[u8], from: usize) -> Result<()> {
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    ensure!(
        found == expected,
        "{} bytes from {from}, expected {}; first difference at {:?}",
        found.len(),
        expected.len(),
        at.map(|at| (at + from, found[at], expected[at]))
    );
    Ok(())
}
