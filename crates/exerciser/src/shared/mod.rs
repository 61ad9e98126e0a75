//! State that all processes change concurrently, with its invariants.
//!
//! - `crowd`: names are created, removed and exchanged; a file with a name there is always whole.
//! - `record`: a log that all processes append to (no record is torn or lost, each writer's
//!   records are in order), a file with a page per process, a counter behind a lock.
//! - Names that only their creator removes are listed exactly once.

mod crowd;
mod record;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use uext4_testkit::rng::Rng;

use crowd::Crowd;
use record::Records;

/// Directories that names move between.
const DIRECTORIES: u64 = 4;
/// Most permanent names of one process.
const OWN_MAX: usize = 64;

/// Creates the shared files, before the processes start.
///
/// # Errors
/// They cannot be created.
pub fn prepare(root: &Path) -> Result<()> {
    for number in 0..DIRECTORIES {
        crate::names::make_directory(&directory(root, number))?;
    }
    record::prepare(root)
}

/// The present value of the counter.
///
/// # Errors
/// The counter cannot be read, or is not a number.
pub fn counted(root: &Path) -> Result<u64> {
    record::counted(&File::open(record::counter(root))?)
}

fn directory(root: &Path, number: u64) -> PathBuf {
    root.join(format!("d{number}"))
}

/// One process on the shared state.
pub struct Shared {
    root: PathBuf,
    process: u64,
    rng: Rng,
    /// Directory and name of each entry that only this process removes.
    own: BTreeSet<(u64, String)>,
    crowd: Crowd,
    records: Records,
}

impl Shared {
    /// Process `process` in `root`, which is prepared.
    ///
    /// # Errors
    /// The shared files cannot be opened.
    pub fn new(root: &Path, process: u64, rng: Rng) -> Result<Self> {
        Ok(Self {
            root: root.to_path_buf(),
            process,
            crowd: Crowd::new(root, process),
            records: Records::new(root, process),
            rng,
            own: BTreeSet::new(),
        })
    }

    /// Runs one operation.
    ///
    /// # Errors
    /// An answer that no order of all operations explains.
    pub fn step(&mut self) -> Result<()> {
        match self.rng.below(100) {
            0..=7 => self.make_own().context("a name of its own"),
            8..=13 => self.remove_own().context("a name of its own"),
            14..=23 => self.list().context("a listing"),
            24..=49 => self.records.step(&mut self.rng),
            _ => self.crowd.step(&mut self.rng),
        }
    }

    /// Increments of the counter by this process.
    pub fn increments(&self) -> u64 {
        self.records.increments()
    }

    /// Compares all that this process owns.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&mut self) -> Result<()> {
        for number in 0..DIRECTORIES {
            self.compare_listing(number)?;
        }
        self.records.compare()
    }

    /// Closes all descriptors; the files stay.
    pub fn close_all(&mut self) {
        self.records.close();
    }

    fn make_own(&mut self) -> Result<()> {
        if self.own.len() >= OWN_MAX {
            return self.remove_own();
        }
        let (number, name) = (self.rng.below(DIRECTORIES), self.rng.below(1 << 32));
        // Long names fill blocks, so that directories split and shrink.
        let name = format!(
            "own-{}-{name}-{}",
            self.process,
            "x".repeat(name as usize % 150)
        );
        let path = directory(&self.root, number).join(&name);
        if !self.own.insert((number, name)) {
            return Ok(());
        }
        let made = match self.rng.below(3) {
            0 => fs::create_dir(path),
            1 => std::os::unix::fs::symlink("nowhere", path),
            _ => File::create_new(path).map(drop),
        };
        Ok(made?)
    }

    fn remove_own(&mut self) -> Result<()> {
        if self.own.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(self.own.len() as u64) as usize;
        let (number, name) = self.own.iter().nth(at).cloned().expect("there are so many");
        self.own.remove(&(number, name.clone()));
        let path = directory(&self.root, number).join(name);
        if fs::symlink_metadata(&path)?.is_dir() {
            Ok(fs::remove_dir(path)?)
        } else {
            Ok(fs::remove_file(path)?)
        }
    }

    fn list(&mut self) -> Result<()> {
        let number = self.rng.below(DIRECTORIES);
        self.compare_listing(number)
    }

    fn compare_listing(&self, number: u64) -> Result<()> {
        let here = self.own.iter().filter(|(at, _)| *at == number);
        let expected: Vec<_> = here.map(|(_, name)| name.clone()).collect();
        let found = self.listed(number)?;
        if found == expected {
            return Ok(());
        }
        let missing: Vec<_> = expected
            .iter()
            .filter(|name| !found.contains(name))
            .collect();
        let extra: Vec<_> = found
            .iter()
            .filter(|name| !expected.contains(name))
            .collect();
        let there: Vec<_> = extra
            .iter()
            .map(|name| {
                directory(&self.root, number)
                    .join(name)
                    .symlink_metadata()
                    .is_ok()
            })
            .collect();
        bail!(
            "directory {number} lists {} names, expected {}; missing {missing:?}, too many \
             {extra:?} (there: {there:?})",
            found.len(),
            expected.len()
        )
    }

    /// Names of this process in a directory.
    fn listed(&self, number: u64) -> Result<Vec<String>> {
        let prefix = format!("own-{}-", self.process);
        let mut found = Vec::new();
        for entry in fs::read_dir(directory(&self.root, number))? {
            found.extend(entry?.file_name().into_string().ok());
        }
        found.retain(|name| name.starts_with(&prefix));
        found.sort_unstable();
        Ok(found)
    }
}

/// Ignores errors that concurrent operations explain.
fn forgive(done: io::Result<()>, explained: &[rustix::io::Errno]) -> Result<()> {
    match done {
        Err(error) => {
            let errno = rustix::io::Errno::from_io_error(&error);
            let known = errno.is_some_and(|errno| explained.contains(&errno));
            ensure!(known, "{error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
