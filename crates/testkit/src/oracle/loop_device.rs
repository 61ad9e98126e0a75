//! A loop device that stays while its image changes: for judges of thousands of images.
//!
//! [`KernelMount`](super::KernelMount) starts four programs for one mount; this takes a few system
//! calls. The kernel forgets what it knew of a device when the last user closes it; other programs
//! may look at the device (every e2fsck looks at all mounted loop devices), so it is told to forget
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

/// A loop device with a place to mount it on; detached when dropped.
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
    /// Attaches `image`, whose size must stay.
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

    /// Drops what the kernel keeps of the image as it was: for whoever reads the device after the
    /// image changed. [`Self::mount`] does it by itself.
    ///
    /// # Errors
    /// The device is gone.
    pub fn forget(&self) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let device = rustix::fs::open(self.path.as_str(), flags, Mode::empty())?;
        Ok(rustix::fs::fadvise(&device, 0, None, Advice::DontNeed)?)
    }

    /// Mounts what the image holds now as ext4, without access times, with `options` (may be
    /// empty).
    ///
    /// # Errors
    /// The kernel refuses the image.
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
    /// Where the root directory is.
    pub fn path(&self) -> &Path {
        self.device.dir.path()
    }

    /// Unmounts.
    ///
    /// # Errors
    /// Something still uses the mount. It is then detached lazily.
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
