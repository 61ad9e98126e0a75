//! What the kernel keeps for a mount: how far it reads ahead, how much of what was written it holds
//! back.
//!
//! Only the superuser may say so; for others it stays as the kernel likes it.
//! References: kernel doc `ABI/testing/sysfs-class-bdi`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The settings of one mount.
pub(crate) struct Bdi(PathBuf);

impl Bdi {
    /// Those of what is mounted on `path`, and is served already.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let device = std::fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // Without the suffix it may be that of the block device below.
        let named = |suffix| PathBuf::from(format!("/sys/class/bdi/{major}:{minor}{suffix}"));
        let mut found = ["-fuseblk", ""].map(named).into_iter();
        found.find(|bdi| bdi.exists()).map(Self)
    }

    /// Lets the kernel read so far ahead; without it sequential reads are slower, nothing else.
    pub(crate) fn read_ahead(&self, bytes: u32) {
        let _as_it_was = self.set("read_ahead_kb", bytes / 1024);
    }

    /// Lets the kernel hold back so many percent of what may wait on the whole machine.
    pub(crate) fn hold_back(&self, percent: u32) -> std::io::Result<()> {
        self.set("max_ratio", percent)
    }

    fn set(&self, name: &str, value: u32) -> std::io::Result<()> {
        std::fs::write(self.0.join(name), value.to_string())
    }
}
