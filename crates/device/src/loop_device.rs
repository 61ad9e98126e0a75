//! A loop device of the kernel, for tests that need a real block device.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An attached loop device; detached when dropped.
pub(crate) struct LoopDevice(PathBuf);

impl LoopDevice {
    /// Attaches `image`; none where that is not allowed (no root, no loop driver).
    pub(crate) fn attach(image: &Path) -> Option<Self> {
        Self::attach_as(image, &["--partscan"])
    }

    /// As [`Self::attach`]; the device takes no writes.
    pub(crate) fn attach_protected(image: &Path) -> Option<Self> {
        Self::attach_as(image, &["--read-only"])
    }

    fn attach_as(image: &Path, options: &[&str]) -> Option<Self> {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(image)
            .output();
        let output = output.ok().filter(|output| output.status.success());
        if output.is_none() {
            eprintln!("skipped: losetup is not possible here");
        }
        let name = String::from_utf8(output?.stdout).expect("losetup prints a path in ASCII");
        Some(Self(PathBuf::from(name.trim())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be detached", self.0.display());
        }
    }
}
