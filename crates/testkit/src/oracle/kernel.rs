//! The kernel's own ext4 on a loop device.
//!
//! Invariants: a [`KernelMount`] never outlives its owner. The detach of the loop device is
//! requested right after the mount, so the last unmount (also a lazy one, also after a panic) frees
//! it.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::program::Program;
use super::scratch::scratch_dir;
use super::unmount::unmount;
use crate::{skip, wait};

/// Time for attempts of `losetup`: two processes may get the same free loop device.
const ATTACH_LIMIT: Duration = Duration::from_secs(2);
/// Time for the detach of a loop device.
const DETACH_LIMIT: Duration = Duration::from_secs(10);

thread_local! {
    /// Whether this thread has asked [`KernelMount::is_available`].
    static HAS_ASKED: Cell<bool> = const { Cell::new(false) };
}

/// An image mounted by the kernel; dropping it unmounts it.
#[derive(Debug)]
pub struct KernelMount {
    dir: TempDir,
    loop_device: String,
    backing_file: Option<String>,
    mounted: bool,
}

impl KernelMount {
    /// Whether this process may mount: it may, and loop devices can be had.
    pub fn is_available() -> bool {
        HAS_ASKED.set(true);
        skip::may_mount() && skip::opens("/dev/loop-control")
    }

    /// As [`KernelMount::is_available`], for the first line of a test; prints a skipped test.
    ///
    /// # Panics
    /// In continuous integration, where no test may be skipped.
    pub fn available_or_skip(test: &str) -> bool {
        skip::can_or_skip(
            test,
            Self::is_available(),
            "root and loop devices for a kernel mount",
        )
    }

    /// Whether this kernel has the quota format of ext4; without it, it mounts no image with the
    /// feature `quota`.
    pub fn has_quota() -> bool {
        static HAS: LazyLock<bool> = LazyLock::new(|| {
            let made = super::mke2fs_image(16 << 20, &["-O", "quota"]);
            made.and_then(|(_dir, path)| KernelMount::new(&path, "")?.unmount())
                .is_ok()
        });
        Self::is_available() && *HAS
    }

    /// Mounts `image` as ext4 with `options` (as for `mount -o`, may be empty).
    ///
    /// # Errors
    /// No loop device is free, or the kernel rejects the image; the error has the kernel's message.
    ///
    /// # Panics
    /// In a test that has not asked [`KernelMount::available_or_skip`].
    pub fn new(image: &Path, options: &str) -> Result<Self> {
        Self::with_type(image, "ext4", options)
    }

    /// As [`KernelMount::new`] with another file system type (`ext2`, `ext3`).
    ///
    /// # Errors
    /// As [`KernelMount::new`].
    ///
    /// # Panics
    /// As [`KernelMount::new`].
    pub fn with_type(image: &Path, kind: &str, options: &str) -> Result<Self> {
        assert_asked();
        let dir = scratch_dir()?;
        let loop_device = attach(image, options)?;
        let mounted = mount(&loop_device, dir.path(), kind, options);
        // While mounted this only marks the device: it is detached with the unmount.
        let detached = Program::new("losetup")?.args(["-d", &loop_device]).run_ok();
        let backing_file = backing_file(&loop_device);
        let mount = Self {
            dir,
            loop_device,
            backing_file,
            mounted: mounted.is_ok(),
        };
        mounted.with_context(|| format!("kernel mount of {}", image.display()))?;
        detached?;
        Ok(mount)
    }

    /// Path of the mount point.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The loop device, for example `/dev/loop3`.
    pub fn loop_device(&self) -> &str {
        &self.loop_device
    }

    /// Unmounts and waits until the loop device is detached from the image.
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
        unmount(self.dir.path())?;
        self.wait_for_loop()
    }

    fn wait_for_loop(&self) -> Result<()> {
        // Detached, or reused for another image meanwhile.
        let is_detached = || backing_file(&self.loop_device) != self.backing_file;
        let is_detached = wait::is_true_within(DETACH_LIMIT, is_detached);
        ensure!(is_detached, "{} did not detach", self.loop_device);
        Ok(())
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("kernel mount: {error:#}");
        }
    }
}

/// Attaches `image` to a free loop device and returns its path.
pub(super) fn attach(image: &Path, options: &str) -> Result<String> {
    let read_only = options.split(',').any(|one| one == "ro");
    let mut last_answer = String::new();
    let attached = wait::within(ATTACH_LIMIT, || {
        let attached = try_attach(image, read_only);
        last_answer = match attached {
            Ok(Err(answer)) => answer,
            done => return Some(done),
        };
        None
    });
    match attached.transpose()? {
        Some(Ok(loop_device)) => Ok(loop_device),
        _ => bail!("no loop device for {}: {last_answer}", image.display()),
    }
}

/// A test that forgets to ask fails here as root too, not only where it cannot mount. The harness
/// names the threads of tests.
fn assert_asked() {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main");
    if let Some(test) = test.filter(|_| cfg!(debug_assertions)) {
        assert!(
            HAS_ASKED.get(),
            "{test} has to ask for a kernel mount first"
        );
    }
}

/// Path of the loop device, or what `losetup` says instead.
fn try_attach(image: &Path, read_only: bool) -> Result<Result<String, String>> {
    let mut program = Program::new("losetup")?.args(["--find", "--show"]);
    if read_only {
        program = program.arg("--read-only");
    }
    let output = program.arg(image).run()?;
    Ok(match output.code {
        Some(0) => Ok(output.stdout.trim().to_owned()),
        _ => Err(output.all()),
    })
}

fn mount(loop_device: &str, dir: &Path, kind: &str, options: &str) -> Result<()> {
    let program = Program::new("mount")?.args(["-t", kind]);
    let program = if options.is_empty() {
        program
    } else {
        program.args(["-o", options])
    };
    let output = program.arg(loop_device).arg(dir).run()?;
    ensure!(output.code == Some(0), "{}", output.all().trim());
    Ok(())
}

/// The file behind a loop device, `None` when nothing is attached.
fn backing_file(loop_device: &str) -> Option<String> {
    let name = Path::new(loop_device).file_name()?;
    let path = PathBuf::from("/sys/block")
        .join(name)
        .join("loop/backing_file");
    fs::read_to_string(path).ok()
}
