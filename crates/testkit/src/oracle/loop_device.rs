//! Long-lived loop device for an image that changes: for oracles that mount thousands of images.
//!
//! [`KernelMount`](super::KernelMount) starts four programs per mount; this takes a few system
//! calls. The kernel drops its cache of a device at the last close, but other programs may hold the
//! device open (every e2fsck inspects all mounted loop devices), so the cache is dropped explicitly
//! before each mount.

use std::ffi::CString;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::mount::MountFlags;
use tempfile::TempDir;

use super::kernel::attach;
use super::program::Program;
use super::scratch::scratch_dir;
use super::unmount::unmount;

/// A loop device with a mount point; detached when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    path: String,
    dir: TempDir,
}

/// The kernel's ext4 on a [`LoopDevice`]; dropping it unmounts it.
#[derive(Debug)]
pub struct LoopMount<'a> {
    device: &'a LoopDevice,
    mounted: bool,
}

impl LoopDevice {
    /// Attaches `image`, whose size must not change.
    ///
    /// # Errors
    /// No loop device is free.
    pub fn attach(image: &Path) -> Result<Self> {
        Ok(Self {
            dir: scratch_dir()?,
            path: attach(image, "")?,
        })
    }

    /// The device, for example `/dev/loop3`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Drops the kernel's cache of the device, for a reader after the image changed.
    /// [`Self::mount`] does it by itself.
    ///
    /// # Errors
    /// The device is gone.
    pub fn forget(&self) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let device = rustix::fs::open(self.path.as_str(), flags, Mode::empty())?;
        Ok(rustix::fs::fadvise(&device, 0, None, Advice::DontNeed)?)
    }

    /// Mounts the present image as ext4, with `noatime` and `options` (may be empty).
    ///
    /// # Errors
    /// The kernel rejects the image.
    pub fn mount(&self, options: &str) -> Result<LoopMount<'_>> {
        self.forget().context("forget the former image")?;
        let data = CString::new(options).context("options without a zero byte")?;
        let flags = MountFlags::NOATIME;
        let mounted = rustix::mount::mount(
            self.path.as_str(),
            self.dir.path(),
            "ext4",
            flags,
            data.as_c_str(),
        );
        mounted.with_context(|| format!("the kernel mounts {} with {options:?}", self.path))?;
        Ok(LoopMount {
            device: self,
            mounted: true,
        })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Program::new("losetup").and_then(|program| {
            let program = program.args(["-d", &self.path]);
            program.run_ok()
        });
        if let Err(error) = detached {
            eprintln!("{}: {error:#}", self.path);
        }
    }
}

impl LoopMount<'_> {
    /// Path of the mount point.
    pub fn path(&self) -> &Path {
        self.device.dir.path()
    }

    /// Unmounts.
    ///
    /// # Errors
    /// The mount is still in use. It is then detached lazily.
    pub fn unmount(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        if !self.mounted {
            return Ok(());
        }
        self.mounted = false;
        unmount(self.path())
    }
}

impl Drop for LoopMount<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("kernel mount: {error:#}");
        }
    }
}
