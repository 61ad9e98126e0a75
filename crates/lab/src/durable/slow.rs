//! A file whose flushes take long: nbdkit serves the image with a plugin of C, nbdfuse shows it as
//! a file. nbdkit's filter `delay` delays all requests but flushes.
//!
//! Every request passes two servers, which costs time as well.
//! References: nbdkit-cc-plugin(3), nbdfuse(1).

use crate::cleanup::Cleanup;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use uext4_testkit::oracle::{self, Program};
use uext4_testkit::wait;

const PLUGIN: &str = include_str!("slow_flush.c");
/// Time for the servers to start, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The servers of one image.
pub(super) struct Slow {
    dir: TempDir,
    server: Child,
}

/// Fails if a program or the header of the plugin is missing.
pub(super) fn require() -> Result<()> {
    let missing = ["nbdkit", "nbdfuse", "cc"];
    if let Some(name) = missing.iter().find(|name| !oracle::is_installed(name)) {
        anyhow::bail!("the slow device needs {name}, which is not installed");
    }
    let header = Program::new("cc")?.args(["-fsyntax-only", "-include", "nbdkit-plugin.h"]);
    let found = header
        .args(["-DNBDKIT_API_VERSION=2", "-x", "c", "/dev/null"])
        .run_ok();
    found.context("the slow device needs nbdkit-plugin.h (nbdkit-plugin-dev)")?;
    Ok(())
}

impl Slow {
    /// Serves `image` with flushes that take `flush_us` microseconds longer.
    pub(super) fn start(image: &Path, flush_us: u64, cleanup: &mut Cleanup) -> Result<Self> {
        let dir = oracle::scratch_dir()?;
        let (plugin, point) = (dir.path().join("slow_flush.c"), dir.path().join("mount"));
        std::fs::write(&plugin, PLUGIN)?;
        std::fs::create_dir(&point)?;
        cleanup.watch(dir.path())?;
        let said = File::create(dir.path().join("said"))?;
        let server = Command::new("nbdfuse")
            .arg(point.join("nbd"))
            .args(["[", "nbdkit", "cc"])
            .arg(&plugin)
            .arg(format!("path={}", image.display()))
            .arg(format!("us={flush_us}"))
            .arg("]")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .context("cannot start nbdfuse")?;
        let slow = Self { dir, server };
        let size_bytes = image.metadata()?.size();
        let ready = wait::is_true_within(PATIENCE, || {
            slow.file()
                .metadata()
                .is_ok_and(|meta| meta.size() == size_bytes)
        });
        ensure!(ready, "nbdfuse does not show the image: {}", slow.said());
        Ok(slow)
    }

    /// The file that shows the image.
    pub(super) fn file(&self) -> PathBuf {
        self.dir.path().join("mount/nbd")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("said")).unwrap_or_default()
    }

    /// Unmounts, and waits until the servers have ended.
    pub(super) fn stop(mut self) -> Result<()> {
        let point = self.dir.path().join("mount");
        let unmounted = wait::within(PATIENCE, || {
            // A loop device that was just detached may hold the file for a moment.
            let done = rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty());
            done.is_ok().then_some(())
        });
        unmounted.context("the slow file stays in use")?;
        let ended = wait::within(PATIENCE, || self.server.try_wait().transpose());
        ended.context("nbdfuse does not end")?.map(drop)?;
        Ok(())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        if matches!(self.server.try_wait(), Ok(Some(_))) {
            return;
        }
        let point = self.dir.path().join("mount");
        let unmounted = Program::new("umount").and_then(|umount| umount.arg("-l").arg(point).run());
        if let Err(error) = unmounted {
            eprintln!("uext4-lab: the slow file: {error:#}");
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
