//! Kernel settings of a mount (backing device info): read-ahead and dirty-page limit.
//!
//! Only the superuser may change them; otherwise the kernel's defaults stay.
//! References: kernel doc `ABI/testing/sysfs-class-bdi`.

use crate::mount_table::numbers_of;
use std::path::PathBuf;

/// The settings of one mount.
pub(crate) struct Bdi(PathBuf);

impl Bdi {
    /// Settings of the mount with this connection.
    pub(crate) fn of(connection: u64) -> Option<Self> {
        let (major, minor) = numbers_of(connection);
        // Without the suffix the number may be that of the underlying block device.
        let mut found = ["-fuseblk", ""]
            .map(|suffix| PathBuf::from(format!("/sys/class/bdi/{major}:{minor}{suffix}")))
            .into_iter();
        found.find(|bdi| bdi.exists()).map(Self)
    }

    /// Sets the read-ahead in bytes. A failure only slows sequential reads down.
    pub(crate) fn read_ahead(&self, bytes: u32) {
        let _as_it_was = self.set("read_ahead_kb", bytes / 1024);
    }

    /// Sets the mount's maximum share of the machine's dirty pages, in percent.
    pub(crate) fn set_max_ratio(&self, percent: u32) -> std::io::Result<()> {
        self.set("max_ratio", percent)
    }

    fn set(&self, name: &str, value: u32) -> std::io::Result<()> {
        std::fs::write(self.0.join(name), value.to_string())
    }
}
