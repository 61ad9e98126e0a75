//! The loop device below a system, and its counters.
//!
//! References: kernel documentation, `block/stat.rst`.

use super::empty_flushes::EmptyFlushes;
use super::slow::Slow;
use crate::backing::Backing;
use crate::cleanup::Cleanup;
use crate::stage::Stage;
use crate::system::System;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use uext4_testkit::oracle::HeldLoop;

/// Fields of `/sys/block/DISK/stat`, from 0.
const WRITES: usize = 4;
const WRITTEN_SECTORS: usize = 6;
const FLUSHES: usize = 15;
const SECTOR_BYTES: u64 = 512;

/// What is below the loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DeviceKind {
    /// A file on tmpfs.
    Loop,
    /// The same file behind a server that delays flushes.
    Slow,
}

/// The storage of one run.
pub(super) struct Device {
    file: PathBuf,
    slow: Option<Slow>,
    held: std::cell::OnceCell<HeldLoop>,
}

impl Device {
    /// The storage over the formatted backing.
    pub(super) fn new(
        kind: DeviceKind,
        flush_us: u64,
        backing: &Backing,
        cleanup: &mut Cleanup,
    ) -> Result<Self> {
        let slow = match kind {
            DeviceKind::Loop => None,
            DeviceKind::Slow => Some(Slow::start(&backing.image(), flush_us, cleanup)?),
        };
        Ok(Self {
            file: slow.as_ref().map_or_else(|| backing.image(), Slow::file),
            slow,
            held: std::cell::OnceCell::new(),
        })
    }

    /// What `system` mounts: a loop device, which a kernel mount makes itself.
    pub(super) fn path(&self, system: System) -> Result<PathBuf> {
        if system == System::KernelExt4 {
            return Ok(self.file.clone());
        }
        let held = HeldLoop::attach(&self.file)?;
        let path = held.path().to_owned();
        let _first = self.held.set(held);
        Ok(path)
    }

    /// The name of the loop device in `/sys/block`.
    pub(super) fn name(&self, stage: &Stage) -> Result<String> {
        let path = match (stage, self.held.get()) {
            (Stage::Kernel(mount), _) => Path::new(mount.loop_device()),
            (_, held) => held.context("a loop device is attached")?.path(),
        };
        let name = path.file_name().context("a device has a name")?;
        Ok(name.to_string_lossy().into_owned())
    }

    /// Detaches everything, and returns errors.
    pub(super) fn release(self) -> Result<()> {
        drop(self.held);
        self.slow.map_or(Ok(()), Slow::stop)
    }
}

/// Traffic of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Writes, and flushes that are no part of a write.
    pub(super) requests: u64,
    pub(super) written_bytes: u64,
    pub(super) flushes: u64,
    /// The flushes among `requests`, where they are counted.
    pub(super) empty: Option<u64>,
}

impl Traffic {
    /// Requests to `disk` until now.
    pub(super) fn of(disk: &str, empty: Option<&EmptyFlushes>) -> Result<Self> {
        let path = format!("/sys/block/{disk}/stat");
        let told = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let traffic = Self::parse(&told).with_context(|| format!("{path}: {told}"))?;
        Ok(Self {
            empty: empty.map(EmptyFlushes::count).transpose()?,
            ..traffic
        })
    }

    fn parse(told: &str) -> Option<Self> {
        let fields: Vec<u64> = told.split_whitespace().flat_map(str::parse).collect();
        Some(Self {
            requests: *fields.get(WRITES)?,
            written_bytes: fields.get(WRITTEN_SECTORS)? * SECTOR_BYTES,
            flushes: *fields.get(FLUSHES)?,
            empty: None,
        })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            written_bytes: self.written_bytes - before.written_bytes,
            flushes: self.flushes - before.flushes,
            empty: self
                .empty
                .zip(before.empty)
                .map(|(now, before)| now - before),
        }
    }

    /// Writes with data; `None` if empty flushes cannot be told apart.
    pub(super) fn writes(&self) -> Option<u64> {
        self.empty.map(|empty| self.requests.saturating_sub(empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_fields_are_those_of_the_kernel() {
        let told = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
        let traffic = Traffic::parse(told).unwrap();
        assert_eq!(
            (traffic.requests, traffic.written_bytes, traffic.flushes),
            (5, 7 * 512, 16)
        );
        assert_eq!(Traffic::parse("1 2 3"), None);
    }

    /// The judge is a device with known traffic.
    #[test]
    fn a_flush_is_told_from_a_write() {
        if !uext4_testkit::oracle::KernelMount::available_or_skip("a_flush_is_told_from_a_write") {
            return;
        }
        let dir = uext4_testkit::oracle::scratch_dir().unwrap();
        let image = dir.path().join("image");
        std::fs::write(&image, vec![0; 1 << 20]).unwrap();
        let held = HeldLoop::attach(&image).unwrap();
        let disk = held
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let empty = EmptyFlushes::of(&disk).unwrap();
        let before = Traffic::of(&disk, empty.as_ref()).unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(held.path())
            .unwrap();
        file.write_all_at(&[1; 4096], 4096).unwrap();
        file.sync_data().unwrap();
        let traffic = Traffic::of(&disk, empty.as_ref()).unwrap().since(&before);
        assert_eq!(
            (traffic.requests, traffic.written_bytes, traffic.flushes),
            (2, 4096, 1)
        );
        assert_eq!(traffic.writes(), empty.map(|_| 1));
    }
}
