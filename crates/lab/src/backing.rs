//! The image that all systems use in turn: one file in memory, its pages touched before.
//!
//! Fresh pages of a virtual machine cost microseconds each at their first touch; touching them
//! here keeps that cost out of whatever system happens to run first.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uext4_testkit::oracle::{self, Program};

/// An inode for every so many bytes: the most that groups of 4 KiB blocks hold.
pub(crate) const BYTES_PER_INODE: u64 = 4096;

/// A pre-touched image file that vanishes with its owner.
pub(crate) struct Backing {
    dir: TempDir,
    journal_mib: u64,
}

impl Backing {
    /// Makes the file and writes all of it.
    pub(crate) fn new(size_mib: u64, journal_mib: u64) -> Result<Self> {
        let dir = oracle::scratch_dir()?;
        let mut file = File::create(dir.path().join("image.img"))?;
        let chunk = vec![0u8; 1 << 20];
        for _ in 0..size_mib {
            file.write_all(&chunk)
                .context("no memory for the image: see --image-mib")?;
        }
        Ok(Self { dir, journal_mib })
    }

    /// The scratch directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The image.
    pub(crate) fn image(&self) -> PathBuf {
        self.dir.path().join("image.img")
    }

    /// Puts a fresh file system into the image, keeping its pages; `features` as mke2fs takes them.
    pub(crate) fn format(&self, features: &str) -> Result<()> {
        let journal = format!("size={}", self.journal_mib);
        let inodes = BYTES_PER_INODE.to_string();
        Program::new("mke2fs")?
            .args([
                "-q", "-F", "-t", "ext4", "-b", "4096", "-i", &inodes, "-J", &journal,
            ])
            .args(
                (!features.is_empty())
                    .then_some(["-O", features])
                    .into_iter()
                    .flatten(),
            )
            .args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
            .arg(self.image())
            .run_ok()?;
        Ok(())
    }
}
