//! Client of the kill test: it works on its own names until the server is gone, and records what
//! fsync acknowledged.
//!
//! Invariants: a name is unspecified (`Known::Open`) from before the first system call that changes
//! it until the covering fsync returns. A rename without a completed fsync leaves the content under
//! one of both names.

use std::fs::{self, File};
use std::io;
use std::ops::AddAssign;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use uext4_testkit::rng::Rng;

use super::promise::{Content, Known};

/// Names per client in each of the two directories.
const NAMES: usize = 24;
const FILE_BYTES_MAX: u64 = 300_000;
/// Removed files that stay open per client, so that the kill leaves orphans. All clients together
/// hold more than the smallest orphan file can store.
const HELD_MAX: usize = 100;

const SHARED: &str = "shared";

/// Creates the directories of the clients.
pub(super) fn make_directories(root: &Path, clients: u64) -> Result<()> {
    fs::create_dir(root.join(SHARED))?;
    for id in 0..clients {
        fs::create_dir(root.join(own(id)))?;
    }
    Ok(())
}

fn own(id: u64) -> String {
    format!("client {id}")
}

/// Work until the kill.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worked {
    pub(super) operations: u64,
    /// Open, unlinked files.
    pub(super) orphans: usize,
}

impl AddAssign for Worked {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.orphans += other.orphans;
    }
}

#[derive(Debug)]
pub(super) struct Client {
    id: u64,
    rng: Rng,
    known: Vec<Known>,
    /// A rename in progress: the content must be under one of both names.
    moving: Option<(usize, usize, Known)>,
}

impl Client {
    pub(super) fn new(id: u64, rng: Rng) -> Self {
        Self {
            id,
            rng,
            known: vec![Known::Absent; 2 * NAMES],
            moving: None,
        }
    }

    /// Number of names with a known state.
    pub(super) fn promises(&self) -> u64 {
        self.known.iter().filter(|known| known.is_promise()).count() as u64
    }

    /// Directory of a name: even names are in the client's own directory, odd ones in the shared
    /// one.
    fn dir(&self, name: usize) -> PathBuf {
        if name.is_multiple_of(2) {
            own(self.id).into()
        } else {
            SHARED.into()
        }
    }

    fn path(&self, root: &Path, name: usize) -> PathBuf {
        root.join(self.dir(name))
            .join(format!("file {} of client {}", name / 2, self.id))
    }

    /// Works until the mount no longer answers.
    ///
    /// An error that a working mount must not return.
    pub(super) fn work(&mut self, root: &Path) -> Result<Worked> {
        let mut held = Vec::new();
        for operations in 0.. {
            match self.step(root, &mut held) {
                Ok(()) => {}
                Err(error) if is_end(&error, root) => {
                    let orphans = held.len();
                    return Ok(Worked {
                        operations,
                        orphans,
                    });
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("client {}", self.id));
                }
            }
        }
        bail!("the counter of operations overflowed")
    }

    fn step(&mut self, root: &Path, held: &mut Vec<File>) -> io::Result<()> {
        self.moving = None;
        let name = self.rng.below(self.known.len() as u64) as usize;
        match self.rng.below(10) {
            0..=4 => self.write(root, name),
            5 => self.append(root, name),
            6..=7 => self.rename(root, name),
            8 => self.remove(root, name, held),
            _ => self.truncate(root, name),
        }
    }

    /// Creates the file or overwrites it.
    fn write(&mut self, root: &Path, name: usize) -> io::Result<()> {
        let shift = self.rng.below(8);
        let len_bytes = self.rng.below(FILE_BYTES_MAX >> shift) as usize;
        let content = Content {
            seed: self.rng.next_u64(),
            len_bytes,
        };
        let bytes = content.bytes();
        self.known[name] = Known::Open;
        let file = File::create(self.path(root, name))?;
        let piece = 1 + self.rng.below(60_000) as usize;
        for (index, part) in bytes.chunks(piece).enumerate() {
            file.write_all_at(part, (index * piece) as u64)?;
        }
        if self.rng.chance(60) {
            file.sync_all()?;
            self.known[name] = Known::Holds(content);
        }
        Ok(())
    }

    fn append(&mut self, root: &Path, name: usize) -> io::Result<()> {
        let Some(mut bytes) = self.content(name) else {
            return Ok(());
        };
        self.known[name] = Known::Open;
        let len = 1 + self.rng.below(20_000) as usize;
        let more = self.rng.bytes(len);
        let file = File::options().write(true).open(self.path(root, name))?;
        file.write_all_at(&more, bytes.len() as u64)?;
        file.sync_data()?;
        bytes.extend(more);
        self.known[name] = Known::Found(bytes);
        Ok(())
    }

    fn truncate(&mut self, root: &Path, name: usize) -> io::Result<()> {
        let Some(mut bytes) = self.content(name) else {
            return Ok(());
        };
        self.known[name] = Known::Open;
        let size = self.rng.below(bytes.len() as u64 * 2 + 1);
        let file = File::options().write(true).open(self.path(root, name))?;
        file.set_len(size)?;
        file.sync_all()?;
        bytes.resize(size as usize, 0);
        self.known[name] = Known::Found(bytes);
        Ok(())
    }

    fn rename(&mut self, root: &Path, from: usize) -> io::Result<()> {
        let to = self.rng.below(self.known.len() as u64) as usize;
        if self.content(from).is_none() || from == to {
            return Ok(());
        }
        let known = std::mem::take(&mut self.known[from]);
        self.known[to] = Known::Open;
        self.moving = Some((from, to, known.clone()));
        fs::rename(self.path(root, from), self.path(root, to))?;
        if self.rng.chance(50) {
            self.sync_dirs(root, from, to)?;
            self.known[from] = Known::Absent;
            self.known[to] = known;
        }
        Ok(())
    }

    fn remove(&mut self, root: &Path, name: usize, held: &mut Vec<File>) -> io::Result<()> {
        if self.content(name).is_none() {
            return Ok(());
        }
        self.known[name] = Known::Open;
        let path = self.path(root, name);
        if held.len() < HELD_MAX {
            held.push(File::options().write(true).open(&path)?);
        }
        fs::remove_file(&path)?;
        if self.rng.chance(50) {
            self.sync_dirs(root, name, name)?;
            self.known[name] = Known::Absent;
        }
        Ok(())
    }

    fn sync_dirs(&self, root: &Path, a: usize, b: usize) -> io::Result<()> {
        File::open(root.join(self.dir(a)))?.sync_all()?;
        File::open(root.join(self.dir(b)))?.sync_all()
    }

    fn content(&self, name: usize) -> Option<Vec<u8>> {
        match &self.known[name] {
            Known::Holds(content) => Some(content.bytes()),
            Known::Found(bytes) => Some(bytes.clone()),
            Known::Open | Known::Absent => None,
        }
    }

    /// Checks all known names.
    ///
    /// The first mismatch.
    pub(super) fn check(&self, root: &Path) -> Result<()> {
        for (name, known) in self.known.iter().enumerate() {
            known.check(&self.path(root, name))?;
        }
        let Some((from, to, known)) = &self.moving else {
            return Ok(());
        };
        check_moving(&self.path(root, *from), &self.path(root, *to), known)
    }

    /// Records the current state of every name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn record_state(&mut self, root: &Path) -> Result<()> {
        self.moving = None;
        for name in 0..self.known.len() {
            self.known[name] = Known::of_path(&self.path(root, name))?;
        }
        Ok(())
    }
}

/// Checks that a rename under way from `old` to `new` was done or not done. Another file at `new`
/// may have the same content: empty files are common after a crash.
fn check_moving(old: &Path, new: &Path, known: &Known) -> Result<()> {
    match (inode_of(old), inode_of(new)) {
        (None, _) => known.check(new).context("a rename under way lost the file"),
        (Some(old_inode), Some(new_inode)) if old_inode == new_inode => {
            bail!("{} and {} are the same file", old.display(), new.display())
        }
        (Some(_), _) => known.check(old).context("a rename under way lost the file"),
    }
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.ino())
}

/// True for errors of a mount whose server is gone. Rings disappear shortly after their process,
/// and requests in between fail with `ECANCELED`. Lost writeback fails with `EIO`; `EIO` from a
/// live mount is a bug.
fn is_end(error: &io::Error, root: &Path) -> bool {
    let aborted = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
    let aborted = aborted.into_iter().any(|errno| is(error, errno));
    aborted
        || (is(error, Errno::IO)
            && fs::metadata(root).is_err_and(|error| is(&error, Errno::NOTCONN)))
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_under_way_is_done_or_not_done() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let (known, empty) = (Known::Found(b"data".into()), Known::Found(Vec::new()));
        let check = |known| check_moving(&old, &new, known);
        fs::write(&old, "data").unwrap();
        check(&known).unwrap();
        check(&empty).unwrap_err();
        fs::write(&new, "").unwrap();
        check(&known).unwrap();
        fs::write(&old, "").unwrap();
        check(&empty).unwrap();
        fs::remove_file(&new).unwrap();
        fs::hard_link(&old, &new).unwrap();
        let same = check(&empty).unwrap_err().to_string();
        assert!(same.ends_with("are the same file"), "{same}");
        fs::remove_file(&old).unwrap();
        check(&empty).unwrap();
        check(&known).unwrap_err();
        fs::remove_file(&new).unwrap();
        check(&empty).unwrap_err();
    }
}
