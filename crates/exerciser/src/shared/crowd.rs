//! Names that all processes create, move, replace and remove.
//!
//! Files get their content before they get a name here, so an opened file is always whole, even if
//! its name is removed meanwhile.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{self as sys, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use uext4_testkit::rng::Rng;

use super::{DIRECTORIES, directory, forgive};

/// Names per shared directory.
const NAMES: u64 = 24;
/// Largest file in bytes.
const FILE_BYTES_MAX: u64 = 20_000;
/// Bytes of a file's head: seed and length of the rest.
const HEAD_BYTES: usize = 16;

/// Errors explained by concurrent changes of names.
const EXPLAINED: [Errno; 7] = [
    Errno::NOENT,
    Errno::EXIST,
    Errno::NOTEMPTY,
    Errno::NOTDIR,
    Errno::ISDIR,
    // A directory moved into itself, or a link to a directory.
    Errno::INVAL,
    Errno::PERM,
];
/// Errors of opening something other than a file.
const NO_FILE: [Errno; 4] = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];

/// One process on the shared names.
pub(super) struct Crowd {
    root: PathBuf,
    process: u64,
}

impl Crowd {
    pub(super) fn new(root: &Path, process: u64) -> Self {
        Self {
            root: root.to_path_buf(),
            process,
        }
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let (one, two) = (self.name(rng), self.name(rng));
        match rng.below(100) {
            0..=17 => self.publish(&two, rng).context("publish"),
            18..=37 => check_file(&one).with_context(|| format!("look at {}", one.display())),
            38..=45 => forgive(fs::remove_file(&one), &EXPLAINED).context("remove"),
            46..=53 => forgive(fs::create_dir(&one), &EXPLAINED).context("make a directory"),
            54..=59 => forgive(fs::remove_dir(&one), &EXPLAINED).context("remove a directory"),
            60..=71 => rename(&one, &two, RenameFlags::empty()),
            72..=79 => rename(&one, &two, RenameFlags::EXCHANGE),
            80..=83 => rename(&one, &two, RenameFlags::NOREPLACE),
            84..=89 => forgive(fs::hard_link(&one, &two), &EXPLAINED).context("link"),
            90..=93 => forgive(std::os::unix::fs::symlink("nowhere", &one), &EXPLAINED),
            94..=96 => node(&one, rng),
            _ => self.list(rng),
        }
    }

    /// A name in one of the directories, or in a shared subdirectory.
    fn name(&self, rng: &mut Rng) -> PathBuf {
        let mut path = directory(&self.root, rng.below(DIRECTORIES));
        while rng.chance(30) {
            path.push(format!("n{}", rng.below(NAMES)));
        }
        path.join(format!("n{}", rng.below(NAMES)))
    }

    /// Gives a whole file a name, maybe in place of another.
    fn publish(&self, to: &Path, rng: &mut Rng) -> Result<()> {
        let fresh = self.root.join(format!("fresh-{}", self.process));
        let (seed, len) = (rng.next_u64(), rng.below(FILE_BYTES_MAX));
        let mut file = File::create(&fresh)?;
        file.write_all(&whole(seed, len))?;
        if rng.chance(5) {
            file.sync_all()?;
        }
        drop(file);
        let done = if rng.chance(50) {
            fs::rename(&fresh, to)
        } else {
            fs::hard_link(&fresh, to)
        };
        forgive(done, &EXPLAINED)?;
        // Absent if the rename worked.
        forgive(fs::remove_file(&fresh), &[Errno::NOENT])
    }

    /// Reads a whole directory, which may be removed meanwhile.
    fn list(&self, rng: &mut Rng) -> Result<()> {
        let path = self.name(rng);
        let listed = fs::read_dir(&path)
            .and_then(|mut entries| entries.try_for_each(|entry| entry.map(drop)));
        forgive(listed, &NO_FILE)
    }
}

/// All bytes of a file: seed, length, and random bytes by the seed.
fn whole(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(Rng::new(seed).bytes(len as usize));
    bytes
}

fn check_file(path: &Path) -> Result<()> {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => return forgive(Err(error), &NO_FILE),
    };
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    let mut found = Vec::new();
    file.read_to_end(&mut found)?;
    ensure!(found.len() >= HEAD_BYTES, "only {} bytes", found.len());
    let (head, _) = found.split_at(HEAD_BYTES);
    let (seed, len) = head.split_at(8);
    let (seed, len) = (number(seed), number(len));
    ensure!(len < FILE_BYTES_MAX, "the head is garbage");
    ensure!(
        found == whole(seed, len),
        "{} bytes are not those of its head",
        found.len()
    );
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 of 16 bytes"))
}

fn rename(from: &Path, to: &Path, how: RenameFlags) -> Result<()> {
    let done = sys::renameat_with(CWD, from, CWD, to, how);
    forgive(done.map_err(io::Error::from), &EXPLAINED).context("rename")
}

fn node(path: &Path, rng: &mut Rng) -> Result<()> {
    let kind = *rng.pick(&[FileType::Fifo, FileType::Socket, FileType::CharacterDevice]);
    let made = sys::mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), 0);
    forgive(made.map_err(io::Error::from), &EXPLAINED).context("make a node")
}
