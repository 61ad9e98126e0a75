//! The image that all systems use in turn: one pre-faulted file in memory.
//!
//! In a virtual machine the first touch of a page costs microseconds; pre-faulting keeps that cost
//! out of the first system measured. mke2fs punches holes where it wants zeros, in the journal and
//! the inode tables, so the holes are filled after it.

use anyhow::{Context, Result};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uext4_testkit::oracle::{self, Program};

/// Bytes per inode: the most inodes that groups of 4 KiB blocks hold.
pub(crate) const BYTES_PER_INODE: u64 = 4096;

const CHUNK_BYTES: u64 = 1 << 20;

/// A pre-faulted image file, removed with its owner.
pub(crate) struct Backing {
    dir: TempDir,
    journal_mib: u64,
}

impl Backing {
    /// Creates the file and writes all of it.
    pub(crate) fn new(size_mib: u64, journal_mib: u64) -> Result<Self> {
        let dir = oracle::scratch_dir()?;
        let file = File::create(dir.path().join("image.img"))?;
        file.set_len(size_mib << 20)?;
        fill_holes(&file)?;
        Ok(Self { dir, journal_mib })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.dir.path().join("image.img")
    }

    /// Formats the image, keeping its pages; `features` as for mke2fs.
    pub(crate) fn format(&self, features: &str) -> Result<()> {
        if features.is_empty() {
            self.format_with(&[])
        } else {
            self.format_with(&["-O", features])
        }
    }

    /// Formats the image with further arguments of mke2fs, keeping its pages.
    pub(crate) fn format_with(&self, args: &[&str]) -> Result<()> {
        let journal = format!("size={}", self.journal_mib);
        let inodes = BYTES_PER_INODE.to_string();
        Program::new("mke2fs")?
            .args([
                "-q", "-F", "-t", "ext4", "-b", "4096", "-i", &inodes, "-J", &journal,
            ])
            .args(args)
            .args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
            .arg(self.image())
            .run_ok()?;
        fill_holes(&OpenOptions::new().write(true).open(self.image())?)
    }
}

/// Writes zeros to the holes of the file.
fn fill_holes(file: &File) -> Result<()> {
    let zeroes = vec![0u8; CHUNK_BYTES as usize];
    let len = file.metadata()?.len();
    let mut at = 0;
    while at < len {
        at = rustix::fs::seek(file, SeekFrom::Hole(at))?;
        let end = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => len,
            data => data?,
        };
        while at < end {
            let some = (end - at).min(CHUNK_BYTES);
            file.write_all_at(&zeroes[..some as usize], at)
                .context("no memory for the image: see --image-mib")?;
            at += some;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_formatted_image_has_all_its_pages() {
        let backing = Backing::new(64, 4).unwrap();
        for _ in 0..2 {
            backing.format("").unwrap();
            let file = File::open(backing.image()).unwrap();
            assert_eq!(file.metadata().unwrap().blocks() * 512, 64 << 20);
            assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(0)), Ok(64 << 20));
        }
    }
}
