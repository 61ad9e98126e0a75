//! The aged volume: its geometry, its tree of directories, and the clock around the steps.

use super::profile::Profile;
use super::workload::{BLOCK_BYTES, Step, Workload};
use crate::client::Client;
use crate::experiments::Clock;
use crate::workers::now;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;
use uext4_testkit::oracle;

/// Arguments of mke2fs: groups of 32 MiB, so that a small volume has as many groups as a large one,
/// in flexible groups of 128 MiB; no space is held back for the superuser.
pub(super) const SHAPE: [&str; 6] = ["-g", "8192", "-G", "4", "-m", "0"];
/// Bytes of one write call.
const WRITE_BYTES: usize = 128 << 10;
/// Data are made durable when this fraction of the volume has been written, so that delayed
/// allocation does not hide files that live shorter.
const SYNCS_PER_VOLUME: u64 = 64;

/// Numbers of a fresh file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) free_blocks: u64,
    pub(super) blocks_per_flex: u64,
    pub(super) inodes_per_flex: u64,
}

impl Geometry {
    /// Reads the superblock, by dumpe2fs.
    pub(super) fn read(image: &Path) -> Result<Self> {
        let header = oracle::dumpe2fs(image)?;
        let groups = header.number("Flex block group size")?;
        Ok(Self {
            free_blocks: header.number("Free blocks")?,
            blocks_per_flex: header.number("Blocks per group")? * groups,
            inodes_per_flex: header.number("Inodes per group")? * groups,
        })
    }
}

/// Name of a directory of the tree.
pub(super) fn dir_name(nr: usize) -> String {
    format!("dir.{nr}")
}

/// The directories of a profile on a mounted file system.
pub(super) struct Tree {
    dirs: Vec<Box<dyn Client>>,
    data: Vec<u8>,
}

impl Tree {
    /// Creates the directories below `root`.
    pub(super) fn create(profile: &Profile, root: &dyn Client) -> Result<Self> {
        let mut dirs: Vec<Box<dyn Client>> = Vec::new();
        for (nr, parent) in profile.parents().into_iter().enumerate() {
            let name = dir_name(nr);
            let parent = parent.map_or(root, |parent| &*dirs[parent]);
            parent.make_dir(&name)?;
            let dir = parent.below(&name)?;
            dirs.push(dir);
        }
        let data = vec![0x5a; WRITE_BYTES];
        Ok(Self { dirs, data })
    }

    /// Runs all steps; returns the bytes written and the time.
    pub(super) fn age(&self, workload: &mut Workload, volume_bytes: u64) -> Result<Written> {
        let start = now(Clock::Wall);
        let (mut bytes, mut unsynced) = (0, 0);
        for step in workload {
            match step {
                Step::Create(file) => {
                    let dir = &*self.dirs[file.dir];
                    self.write(dir, &file.name(), file.size_bytes)
                        .with_context(|| format!("{file:?}"))?;
                    bytes += file.size_bytes;
                    unsynced += file.size_bytes.next_multiple_of(BLOCK_BYTES);
                }
                Step::Remove(file) => self.dirs[file.dir].remove(&file.name())?,
            }
            if unsynced >= volume_bytes / SYNCS_PER_VOLUME {
                self.dirs[0].sync()?;
                unsynced = 0;
            }
        }
        self.dirs[0].sync()?;
        let time = now(Clock::Wall).saturating_sub(start);
        Ok(Written { bytes, time })
    }

    fn write(&self, dir: &dyn Client, name: &str, size_bytes: u64) -> Result<()> {
        let file = dir.open_new(name)?;
        let mut at = 0;
        while at < size_bytes {
            let len = (size_bytes - at).min(self.data.len() as u64);
            file.write(at, &self.data[..len as usize])?;
            at += len;
        }
        Ok(())
    }

    /// Writes one file and makes it durable; returns the time and the number of its extents. The
    /// file is removed.
    pub(super) fn large_file(&self, size_bytes: u64) -> Result<(Written, usize)> {
        let name = "large";
        let start = now(Clock::Wall);
        let file = self.dirs[0].open_new(name)?;
        let step = self.data.len() as u64;
        for at in (0..size_bytes).step_by(self.data.len()) {
            let len = (size_bytes - at).min(step);
            file.write(at, &self.data[..len as usize])?;
        }
        file.fsync()?;
        let time = now(Clock::Wall).saturating_sub(start);
        let extents = file.extent_count()?;
        drop(file);
        self.dirs[0].remove(name)?;
        self.dirs[0].sync()?;
        let bytes = size_bytes;
        Ok((Written { bytes, time }, extents))
    }
}

/// Bytes, and the time that it took to write them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    bytes: u64,
    time: Duration,
}

impl Written {
    /// 10^6 bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.time.as_secs_f64().max(1e-9)
    }
}
