//! Files of one process, with exactly known content and attributes.

mod data;
mod space;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{self as sys, AtFlags, CWD, Mode, OFlags, RenameFlags};
use uext4_testkit::rng::Rng;

use crate::attributes::Attributes;
pub(crate) use data::Aligned;

const FILES: u64 = 6;
/// Largest file in bytes.
const FILE_BYTES_MAX: usize = 256 << 10;
/// Longest range of one operation in bytes.
const RANGE_BYTES_MAX: usize = 64 << 10;
/// Bounds of ranges: some stay inside an inode, or inside a block.
const SCALES: [usize; 4] = [150, 4096, 40_000, FILE_BYTES_MAX];

/// Buffered and direct descriptors of a file.
struct Open {
    buffered: File,
    direct: File,
}

impl Open {
    fn of(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true);
        let buffered = options.open(path)?;
        options.custom_flags(OFlags::DIRECT.bits() as i32);
        Ok(Self {
            buffered,
            direct: options.open(path)?,
        })
    }
}

/// Opens the file unless it is open.
fn opened<'a>(open: &'a mut Option<Open>, path: &Path) -> io::Result<&'a Open> {
    let fresh = match open.take() {
        Some(open) => open,
        None => Open::of(path)?,
    };
    Ok(open.insert(fresh))
}

/// One file with its expected state.
struct Known {
    path: PathBuf,
    open: Option<Open>,
    bytes: Vec<u8>,
    attributes: Attributes,
}

impl Known {
    fn new(path: PathBuf) -> Result<Self> {
        let attributes = Attributes::of_new(&File::create_new(&path)?)?;
        Ok(Self {
            path,
            open: None,
            bytes: Vec::new(),
            attributes,
        })
    }

    fn open(&mut self) -> io::Result<&Open> {
        opened(&mut self.open, &self.path)
    }

    fn grow(&mut self, end: usize) {
        self.bytes.resize(self.bytes.len().max(end), 0);
    }
}

/// Files that one process alone uses, with their expected contents.
pub struct Files {
    dir: PathBuf,
    files: Vec<Known>,
    scratch: Aligned,
    rng: Rng,
    n_names: u64,
}

impl Files {
    /// Creates empty files in the fresh directory `dir`.
    ///
    /// # Errors
    /// They cannot be created.
    pub fn new(dir: &Path, rng: Rng) -> Result<Self> {
        crate::names::make_directory(dir)?;
        Ok(Self {
            dir: dir.to_path_buf(),
            files: (0..FILES)
                .map(|number| Known::new(dir.join(format!("file-{number}"))))
                .collect::<Result<_>>()?,
            scratch: Aligned::new(RANGE_BYTES_MAX),
            rng,
            n_names: FILES,
        })
    }

    /// Runs one operation on one file.
    ///
    /// # Errors
    /// An operation failed, or the result differs from the expectation.
    pub fn step(&mut self) -> Result<()> {
        let at = self.rng.below(FILES) as usize;
        let done = match self.rng.below(100) {
            0..=34 => self.write(at),
            35..=57 => self.read(at),
            58..=62 => self.resize(at),
            63..=65 => self.punch(at),
            66..=68 => self.zero(at),
            69..=71 => self.allocate(at),
            72..=75 => self.copy(at),
            76..=78 => self.seek(at),
            79..=81 => self.sync(at),
            82..=89 => self.attribute(at),
            90..=92 => self.give_name(at),
            93..=94 => self.exchange(at),
            95..=96 => self.recreate(at),
            97 => self.compare_one(at),
            _ => self.close(at),
        };
        done.with_context(|| format!("file {}", self.files[at].path.display()))
    }

    fn range(&mut self) -> (usize, usize) {
        let scale = *self.rng.pick(&SCALES);
        let from = self.rng.below(scale as u64) as usize;
        let len = 1 + self.rng.below(scale.min(RANGE_BYTES_MAX) as u64) as usize;
        (from, len.min(FILE_BYTES_MAX - from))
    }

    fn attribute(&mut self, at: usize) -> Result<()> {
        let file = &mut self.files[at];
        let open = opened(&mut file.open, &file.path)?;
        file.attributes
            .change(&file.path, &open.buffered, &mut self.rng)
    }

    fn sync(&mut self, at: usize) -> Result<()> {
        let open = self.files[at].open()?;
        match self.rng.below(8) {
            0..=3 => open.buffered.sync_all()?,
            4..=6 => open.direct.sync_data()?,
            _ => sys::syncfs(&open.buffered)?,
        }
        Ok(())
    }

    fn close(&mut self, at: usize) -> Result<()> {
        self.files[at].open = None;
        Ok(())
    }

    fn fresh_name(&mut self) -> PathBuf {
        self.n_names += 1;
        self.dir.join(format!("file-{}", self.n_names))
    }

    /// Links a new name and removes the old one, or renames.
    fn give_name(&mut self, at: usize) -> Result<()> {
        let new = self.fresh_name();
        let file = &mut self.files[at];
        if self.rng.chance(50) {
            fs::rename(&file.path, &new)?;
        } else {
            fs::hard_link(&file.path, &new)?;
            fs::remove_file(&file.path)?;
        }
        file.path = new;
        Ok(())
    }

    /// Exchanges the names of two files.
    fn exchange(&mut self, at: usize) -> Result<()> {
        let other = (at + 1) % self.files.len();
        let (one, two) = (self.files[at].path.clone(), self.files[other].path.clone());
        sys::renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE)?;
        (self.files[at].path, self.files[other].path) = (two, one);
        Ok(())
    }

    /// Replaces a file by a new one; the old one stays open and is compared once more.
    fn recreate(&mut self, at: usize) -> Result<()> {
        let path = self.fresh_name();
        let fresh = if self.rng.chance(50) {
            self.written_before_named(path)?
        } else {
            Known::new(path)?
        };
        let mut old = std::mem::replace(&mut self.files[at], fresh);
        old.open()?;
        fs::remove_file(&old.path)?;
        let open = opened(&mut old.open, &old.path)?;
        let links = std::os::unix::fs::MetadataExt::nlink(&open.buffered.metadata()?);
        ensure!(links == 0, "a removed file has {links} links");
        data::compare_all(&open.buffered, &old.bytes)
    }

    /// Creates a file that gets its name after its content.
    fn written_before_named(&self, path: PathBuf) -> Result<Known> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(sys::open(&self.dir, flags, Mode::from_raw_mode(0o600))?);
        let attributes = Attributes::of_new(&file)?;
        let bytes = vec![0xA5; 3000];
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0)?;
        let here = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        sys::linkat(CWD, here, CWD, &path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(Known {
            path,
            open: None,
            bytes,
            attributes,
        })
    }

    fn compare_one(&mut self, at: usize) -> Result<()> {
        let file = &mut self.files[at];
        let open = opened(&mut file.open, &file.path)?;
        let seen = fs::symlink_metadata(&file.path)?;
        let (size, expected) = (seen.len(), file.bytes.len());
        ensure!(size == expected as u64, "{size} bytes, expected {expected}");
        file.attributes.compare(&file.path, &seen)?;
        data::compare_all(&open.buffered, &file.bytes)
    }

    /// Compares all files, and that no others exist.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&mut self) -> Result<()> {
        for at in 0..self.files.len() {
            let done = self.compare_one(at);
            done.with_context(|| format!("file {}", self.files[at].path.display()))?;
        }
        let n_names = fs::read_dir(&self.dir)?.count();
        ensure!(
            n_names == self.files.len(),
            "{n_names} names of {} files",
            self.files.len()
        );
        Ok(())
    }

    /// Closes all descriptors; the files stay.
    pub fn close_all(&mut self) {
        self.files.iter_mut().for_each(|file| file.open = None);
    }
}
