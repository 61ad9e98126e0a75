//! A log that all processes append to, a file with a page per process, and a counter behind a lock.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};
use uext4_testkit::rng::Rng;

use crate::beyond_std::{self, Mapped};

/// Bytes of a record: writer, number, and filler derived from both. A record never crosses a page.
const RECORD_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Records read at once.
const READ_RECORDS: u64 = 64;

pub(super) fn counter(root: &Path) -> PathBuf {
    root.join("counter")
}

pub(super) fn prepare(root: &Path) -> Result<()> {
    fs::write(root.join("log"), "")?;
    fs::write(root.join("pages"), "")?;
    Ok(fs::write(counter(root), 0u64.to_le_bytes())?)
}

pub(super) fn counted(file: &File) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_le_bytes(bytes))
}

struct Open {
    log: File,
    pages: File,
    pages_direct: File,
    counter: File,
}

impl Open {
    fn of(root: &Path) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true);
        let pages = options.open(root.join("pages"))?;
        let counter = options.open(counter(root))?;
        let log = options.append(true).open(root.join("log"))?;
        options
            .append(false)
            .custom_flags(OFlags::DIRECT.bits() as i32);
        let pages_direct = options.open(root.join("pages"))?;
        Ok(Self {
            log,
            pages,
            pages_direct,
            counter,
        })
    }
}

/// The records written by one process.
pub(super) struct Records {
    root: PathBuf,
    process: u64,
    open: Option<Open>,
    appended: u64,
    increments: u64,
    page: Option<Vec<u8>>,
}

impl Records {
    pub(super) fn new(root: &Path, process: u64) -> Self {
        Self {
            root: root.to_path_buf(),
            process,
            open: None,
            appended: 0,
            increments: 0,
            page: None,
        }
    }

    pub(super) fn increments(&self) -> u64 {
        self.increments
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    fn open(&mut self) -> Result<&Open> {
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::of(&self.root)?,
        };
        Ok(self.open.insert(open))
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<()> {
        match rng.below(10) {
            0..=2 => self.append().context("append to the log"),
            3 => self.check_log(rng).context("the log"),
            4..=5 => self.count(rng).context("the counter"),
            6..=7 => self.write_page(rng).context("write its page"),
            _ => self.compare_page().context("read its page"),
        }
    }

    fn append(&mut self) -> Result<()> {
        let record = record(self.process, self.appended);
        let written = (&self.open()?.log).write(&record)?;
        ensure!(written == RECORD_BYTES, "only {written} bytes");
        self.appended += 1;
        Ok(())
    }

    /// Checks that records anywhere in the log are whole.
    fn check_log(&mut self, rng: &mut Rng) -> Result<()> {
        let log = &self.open()?.log;
        let n_records = log.metadata()?.len() / RECORD_BYTES as u64;
        if n_records == 0 {
            return Ok(());
        }
        let first = rng.below(n_records);
        let len = (n_records - first).min(READ_RECORDS) as usize * RECORD_BYTES;
        let mut bytes = vec![0; len];
        log.read_exact_at(&mut bytes, first * RECORD_BYTES as u64)?;
        bytes
            .chunks(RECORD_BYTES)
            .try_for_each(|bytes| parse(bytes).map(drop))
    }

    fn count(&mut self, rng: &mut Rng) -> Result<()> {
        let by_flock = rng.chance(50);
        let counter = &self.open()?.counter;
        // Both kinds of lock are held together: they are independent of each other.
        fcntl_lock(counter, FlockOperation::LockExclusive)?;
        if by_flock {
            flock(counter, FlockOperation::LockExclusive)?;
        }
        let next = counted(counter)? + 1;
        counter.write_all_at(&next.to_le_bytes(), 0)?;
        if by_flock {
            flock(counter, FlockOperation::Unlock)?;
        }
        fcntl_lock(counter, FlockOperation::Unlock)?;
        self.increments += 1;
        Ok(())
    }

    fn write_page(&mut self, rng: &mut Rng) -> Result<()> {
        let at = self.process * PAGE_BYTES as u64;
        let mut aligned = vec![0; 2 * PAGE_BYTES];
        let start = aligned.as_ptr().align_offset(PAGE_BYTES);
        let page = &mut aligned[start..][..PAGE_BYTES];
        rng.fill(page);
        let is_there = self.page.is_some();
        let open = self.open()?;
        match rng.below(3) {
            0 => open.pages_direct.write_all_at(page, at)?,
            1 if is_there => beyond_std::write_mapped(&open.pages, at, page, Mapped::Shared)?,
            _ => open.pages.write_all_at(page, at)?,
        }
        self.page = Some(page.to_vec());
        Ok(())
    }

    fn compare_page(&mut self) -> Result<()> {
        let Some(expected) = self.page.take() else {
            return Ok(());
        };
        let mut found = vec![0; PAGE_BYTES];
        let at = self.process * PAGE_BYTES as u64;
        self.open()?.pages.read_exact_at(&mut found, at)?;
        let difference = found.iter().zip(&expected).position(|(a, b)| a != b);
        ensure!(
            difference.is_none(),
            "its page differs from byte {difference:?} on"
        );
        self.page = Some(expected);
        Ok(())
    }

    /// Checks that all records are present and in order, and the own page.
    pub(super) fn compare(&mut self) -> Result<()> {
        self.compare_page()?;
        let bytes = fs::read(self.root.join("log"))?;
        let mut expected = 0;
        for bytes in bytes.chunks(RECORD_BYTES) {
            let (process, number) = parse(bytes)?;
            if process == self.process {
                ensure!(number == expected, "record {number}, expected {expected}");
                expected += 1;
            }
        }
        ensure!(
            expected == self.appended,
            "{expected} records of {}",
            self.appended
        );
        Ok(())
    }
}

fn record(process: u64, number: u64) -> [u8; RECORD_BYTES] {
    let mut rng = Rng::new(process).fork(number);
    let mut record = [0; RECORD_BYTES];
    let (head, rest) = record.split_at_mut(16);
    head[..8].copy_from_slice(&process.to_le_bytes());
    head[8..].copy_from_slice(&number.to_le_bytes());
    rng.fill(rest);
    record
}

/// The writer of a record, and its number.
fn parse(bytes: &[u8]) -> Result<(u64, u64)> {
    ensure!(
        bytes.len() == RECORD_BYTES,
        "a record of {} bytes",
        bytes.len()
    );
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (process, of) = (number(0), number(8));
    ensure!(
        bytes == record(process, of),
        "a torn record {of} of {process}: {bytes:?}"
    );
    Ok((process, of))
}
